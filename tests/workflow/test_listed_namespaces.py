"""`docstokg list` and GET /v1/namespaces say how a namespace is now."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
from docstokg.domain.vectors import pack
from docstokg.loading.pipeline import delete_document
from tests.builders import settings_at
from tests.conftest import load_folder, opened
from tests.contract.test_search_index import chunk
from tests.embedded_store import PLAIN, EmbeddedStore

pytestmark = pytest.mark.timeout(300)
LOADING = """
import sys
from pathlib import Path
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
writer = SqliteIndexWriter(Path(sys.argv[1]))
writer.open_load("slow", None, None, None, "default")
print("open", flush=True)
sys.stdin.read()
"""
TEXT = "The kiln of Orlo holds 40 pots."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "kiln.md").write_text(f"# Kiln\n\n{TEXT}\n")
    return folder


def listed(cli: Any, store: Path) -> dict[str, dict[str, Any]]:
    _, out, _ = cli("list", "--json", store=store)
    return {row["namespace"]: row for row in json.loads(out)["namespaces"]}


def test_load_without_changes_is_the_last_load(
    folder: Path, tmp_path: Path, cache_dir: Path, cli: Any
) -> None:
    store = EmbeddedStore(tmp_path / "store.sqlite")
    first = store.load(folder)
    second = store.load(folder)
    assert first.run_id < second.run_id
    last = listed(cli, store.path)["default"]["last_load"]
    assert last["run_id"] == second.run_id
    with opened(settings_at(store.path, cache_dir=cache_dir, **PLAIN)) as client:
        assert client.get("/v1/namespaces").json()["namespaces"][0]["last_load"] == last
    delete_document(store.stores, "default", "kiln.md")
    assert listed(cli, store.path) == {}


def test_namespace_without_vectors_has_no_encoder(
    folder: Path, tmp_path: Path, cache_dir: Path, cli: Any
) -> None:
    path = tmp_path / "store.sqlite"
    writer = SqliteIndexWriter(path)
    writer.open_load("one", "eight numbers", 8, None, "vectors")
    passage = chunk("kiln#0", TEXT, namespace="vectors", vector=pack([1.0] * 8))
    writer.put([(passage, "f")])
    writer.close_load("vectors")
    load_folder(folder, path, cache_dir, embed=False, namespace="words")
    encoders = {name: row["encoder"] for name, row in listed(cli, path).items()}
    assert encoders["words"] is None


def test_a_running_load_is_unfinished_only_when_killed(
    folder: Path, tmp_path: Path, cache_dir: Path, cli: Any
) -> None:
    path = tmp_path / "store.sqlite"
    load_folder(folder, path, cache_dir, embed=False)
    command = [sys.executable, "-c", LOADING, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stdout.readline() == "open\n"
        assert listed(cli, path)["default"]["unfinished"] is False
        running.kill()
    assert listed(cli, path)["default"]["unfinished"] is True
