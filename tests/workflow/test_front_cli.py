"""The shell for people: an automatic answer, causes and remedies, quiet pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docstokg_local.cli.stores import default_store, settings_of
from tests.builders import ran, write_files
from tests.workflow.conftest import Cli

QUESTION = "What are seizures in children?"
CODE = "from docstokg_local.cli.commands import main; main()"


def test_a_printed_question_is_answered_below_five_citations(cli: Cli) -> None:
    """In a reader's words, and without quotes, too."""
    code, out, err = cli("ask", *QUESTION.split())
    assert (code, err) == (0, "")
    assert out.startswith(f"question: {QUESTION}\n")
    assert out.count("sha256") == 5 and "\x1b" not in out
    assert out.index("sha256") < out.index("confidence ") < out.index("ms: validate")
    last = out.splitlines()[-1]
    assert "citations, found by words (" in last and ", meaning (" in last
    assert "bm25" not in out and "splade" not in out
    _, out, err = cli("ask", QUESTION, "--citations", 2, "--filter", "doc_id=none")
    assert "no passage matches the filter" in err
    assert "times in ms" not in out and "confidence" not in out


def test_requests_of_programs_are_unchanged(cli: Cli) -> None:
    body = json.loads(cli("ask", QUESTION, "--json")[1])
    assert (body["answer"], body["metadata"]["synthesis_enabled"]) == ("", False)


def test_the_answer_alone(cli: Cli) -> None:
    code, out, err = cli("ask", "What are seizures?", "--answer-only")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert "[1]" in out


def test_the_options_are_the_request(cli: Cli) -> None:
    options = ("--top-k", 2, "--no-graph", "--filter", "doc_id=d-dravet", "--filter", "year=2021")
    response = json.loads(cli("ask", QUESTION, "--json", *options)[1])
    metadata = response["metadata"]
    assert (metadata["top_k"], metadata["kg_expansion_enabled"]) == (2, False)
    assert {c["doc_id"] for c in response["citations"]} == {"d-dravet"}
    code, _, err = cli("ask", QUESTION, "--filter", "year")
    assert code == 2
    assert "KEY=VALUE" in err


def test_a_missing_store_is_named_with_a_remedy(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    code, out, err = cli("ask", QUESTION, store=None)
    assert (code, out) == (1, "")
    assert "store.sqlite does not exist" in err
    assert "docstokg load FOLDER" in err
    assert "unavailable" not in err and "{" not in err
    code, _, err = cli("ask", QUESTION, "--namespace", "nowhere")
    assert code == 0
    assert "namespace nowhere is empty; loaded namespaces: default" in err


def test_an_absent_server_is_named_with_a_remedy(cli: Cli, small_store: Path) -> None:
    away = ("--index", "http://127.0.0.1:9", "--graph", f"sqlite:///{small_store}")
    code, _, err = cli("ask", QUESTION, *away, store=None)
    assert code == 1
    assert "check DOCSTOKG_INDEX_URL" in err
    assert "Traceback" not in err and "bm25_unavailable" not in err


def test_a_reader_who_goes_away_is_no_error(small_store: Path, cache_dir: Path) -> None:
    store = f"sqlite:///{small_store}"
    environment = {**os.environ, "DOCSTOKG_CACHE_DIR": str(cache_dir)}
    command = [sys.executable, "-c", CODE, "ask", QUESTION, "--index", store]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            command, stdout=pipe, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_each_folder_has_a_separate_named_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DOCSTOKG_INDEX_URL", "DOCSTOKG_GRAPH_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    yours = f"sqlite:///{tmp_path}/data/docstokg/store.sqlite"
    assert settings_of(None, None, name_store=True).index_url == yours
    assert "(yours)" in capsys.readouterr().err
    (tmp_path / ".docstokg").mkdir()
    local = settings_of(None, None, name_store=True)
    assert local.index_url == local.graph_url == "sqlite:///.docstokg/store.sqlite"
    assert ".docstokg/store.sqlite (this folder's)" in capsys.readouterr().err
    chosen = settings_of("sqlite:////elsewhere/x.sqlite", None, name_store=True)
    assert chosen.graph_url == "sqlite:////elsewhere/x.sqlite"
    assert capsys.readouterr().err == ""
    assert default_store({"XDG_DATA_HOME": "/d"})[0] == Path(".docstokg/store.sqlite")


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.md": "The gate opens at dawn."})
    home = tmp_path / "home"
    home.mkdir()
    options = ["--no-embed", "--index", f"sqlite:///{home}/s.sqlite", "--rejects", f"{home}/r"]
    environment = {**os.environ, "DOCSTOKG_CACHE_DIR": str(home / "cache")}
    ran(sys.executable, "-c", CODE, "load", folder, *options, env=environment, check=True)
    files = list(home.rglob("*"))
    assert {"s.sqlite", "r"} <= {path.name for path in files}
    assert not [path for path in files if path.stat().st_mode & 0o077]


def test_an_export_is_loaded_under_any_file_name(cli: Cli, tmp_path: Path) -> None:
    file, other = tmp_path / "saved.backup", tmp_path / "other.sqlite"
    assert cli("export", "default", file)[0] == cli("load", file, store=other)[0] == 0
    assert cli("doctor", "--digest", store=other)[1] == cli("doctor", "--digest")[1]
