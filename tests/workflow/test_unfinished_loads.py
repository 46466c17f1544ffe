"""A killed load is unfinished in its own namespace, on every surface."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
from docstokg.adapters.sqlite.jobs import SqliteJobs
from docstokg.contracts.documents import JobOrder
from docstokg.contracts.envelope import Caller
from tests.builders import settings_at
from tests.conftest import load_folder, opened, passage, write_corpus
from tests.e2e.test_namespaces import send, tool
from tests.embedded_store import PLAIN

LOAD = """
import os, sys
from pathlib import Path
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
from docstokg.contracts.records import ChunkRecord
from docstokg.domain.identity import chunk_uuid
writer = SqliteIndexWriter(Path(sys.argv[1]))
writer.open_load("half", None, None, None, "alpha")
if "killed" in sys.argv:
    text = "The kiln of Orlo holds 40 pots."
    more = {"chunk_id": "half#0", "doc_id": "half", "namespace": "alpha", "run_id": "half"}
    uuid = chunk_uuid("alpha", "half#0")
    writer.put([(ChunkRecord(uuid=uuid, text=text, text_sha256="0" * 64, **more), "f")])
    os.kill(os.getpid(), 9)
print("open", flush=True)
sys.stdin.read()
"""
COMMANDS = ("list",), ("doctor",), ("ask", "vault", "code?", "-n", "alpha")


def stored_vault(tmp_path: Path, cache_dir: Path, namespace: str) -> Path:
    """Load a passage about a vault into a namespace; return the store."""
    path = tmp_path / "store.sqlite"
    rows = [passage("vault", "Vault", "The vault code is 12.")]
    folder = write_corpus(tmp_path / namespace, {"chunks.jsonl": rows})
    load_folder(folder, path, cache_dir, embed=False, namespace=namespace)
    return path


def test_every_surface_shows_killed_loads_unfinished_per_namespace(
    tmp_path: Path, cache_dir: Path, cli: Any
) -> None:
    path = stored_vault(tmp_path, cache_dir, "beta")
    subprocess.run([sys.executable, "-c", LOAD, str(path), "killed"], check=False)
    # Another load that ends does not finish the killed one.
    stored_vault(tmp_path, cache_dir, "beta")
    jobs = SqliteJobs(path.with_name(f"{path.name}.jobs"))
    jobs.add(
        JobOrder(job_id="j", caller=Caller(sub="s"), namespace="beta", kind="delete", doc_id="x")
    )
    with opened(settings_at(path, cache_dir=cache_dir, **PLAIN)) as client:
        listed = client.get("/v1/namespaces").json()["namespaces"]
        states = {space["namespace"]: (space["documents"], space["unfinished"]) for space in listed}
        assert states == {"alpha": (0, True), "beta": (1, False)}
        unfinished = "A load into namespace 'alpha' is unfinished; run it again to complete it."
        for name in states:
            warnings = [unfinished in warning for warning in warned(client, name)]
            assert warnings == [name == "alpha"] * 4
    _, out, _ = cli("list", store=path)
    alpha, beta = out.splitlines()
    assert alpha.endswith("a load is unfinished")
    assert "unfinished" not in beta
    _, out, _ = cli("doctor", store=path)
    assert unfinished in " ".join(out.split())
    assert "is unfinished" in cli("ask", "kiln", "pots?", "-n", "alpha", store=path)[1]
    assert "is unfinished" not in cli("ask", "vault", "code?", "-n", "beta", store=path)[1]
    code, _, err = cli("ask", "vault", "code?", store=path)
    assert (code, "alpha, beta" in err) == (1, True)
    # Loading again into the namespace finishes it.
    writer = SqliteIndexWriter(path)
    writer.open_load("again", None, None, None, "alpha")
    writer.close_load("alpha")
    assert "unfinished" not in cli("list", store=path)[1]


def test_running_load_is_unfinished_on_no_surface(
    tmp_path: Path, cache_dir: Path, cli: Any
) -> None:
    path = stored_vault(tmp_path, cache_dir, "alpha")
    command = [sys.executable, "-c", LOAD, str(path)]
    load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert load.stdout is not None
    assert load.stdout.readline() == b"open\n"
    try:
        with opened(settings_at(path, cache_dir=cache_dir, **PLAIN)) as client:
            (listed,) = client.get("/v1/namespaces").json()["namespaces"]
            assert listed["unfinished"] is False
            assert not any("is unfinished" in answer for answer in warned(client, "alpha"))
        for arguments in COMMANDS:
            assert "unfinished" not in cli(*arguments, store=path)[1]
    finally:
        load.kill()
        load.communicate()
    for arguments in COMMANDS:
        assert "unfinished" in cli(*arguments, store=path)[1], arguments


def warned(client: Any, namespace: str) -> list[str]:
    question = {"query": "What about the kiln and the vault?", "namespace": namespace}
    message = {"role": "user", "content": question["query"]}
    chat = {"model": f"extractive@{namespace}", "messages": [message]}
    called = send(client, "", tool("search_documentation", **question))
    return [
        client.post("/v1/search", json=question).text,
        client.post("/v1/answer/stream", json=question).text,
        client.post("/v1/chat/completions", json=chat).text,
        called.text,
    ]


def test_namespaces_are_listed_without_the_queue(tmp_path: Path, cache_dir: Path) -> None:
    path = stored_vault(tmp_path, cache_dir, "beta")
    path.with_name(f"{path.name}.jobs").write_bytes(b"no database" * 99)
    with opened(settings_at(path, cache_dir=cache_dir, **PLAIN)) as client:
        (listed,) = client.get("/v1/namespaces").json()["namespaces"]
    assert (listed["namespace"], listed["documents"], listed["jobs"]) == ("beta", 1, None)
