"""What a person meets at the shell: an answer unasked for, causes and cures, quiet pipes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docstokg_local.cli.stores import default_store, settings_of

QUESTION = "What are seizures in children?"
CODE = "from docstokg_local.cli.commands import main; main()"
Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def shell(small_store: Path, cache_dir: Path, tmp_path: Path) -> Shell:
    def run(*arguments: object, store: bool = True, **more: str):
        own = {key: value for key, value in os.environ.items() if not key.startswith("DOCSTOKG_")}
        environment = {**own, "DOCSTOKG_CACHE_DIR": str(cache_dir), "XDG_DATA_HOME": str(tmp_path)}
        if store:
            environment["DOCSTOKG_INDEX_URL"] = f"sqlite:///{small_store}"
        words = [sys.executable, "-c", CODE, *map(str, arguments)]
        return subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            env={**environment, **more},
            cwd=tmp_path,
        )

    return run


def test_a_printed_question_is_answered_below_five_citations(shell: Shell) -> None:
    done = shell("ask", QUESTION)
    assert (done.returncode, done.stderr) == (0, "")
    at = done.stdout.index
    assert done.stdout.count("sha256") == 5
    assert at("sha256") < at("confidence ") < at("ms: validate")
    assert shell("ask", QUESTION, "--citations", 2).stdout.count("sha256") == 2


def test_what_is_printed_is_in_a_readers_words(shell: Shell) -> None:
    """Without quotes, too; what found nothing says why and no figures."""
    done = shell("ask", *QUESTION.split())
    assert done.stdout.startswith(f"question: {QUESTION}\n")
    last = done.stdout.splitlines()[-1]
    assert "citations, found by words (" in last and ", meaning (" in last
    assert "bm25" not in done.stdout and "splade" not in done.stdout
    nothing = shell("ask", QUESTION, "--filter", "doc_id=none")
    assert "nothing fits the filter" in nothing.stderr
    assert "times in ms" not in nothing.stdout and "confidence" not in nothing.stdout


def test_what_a_program_asks_is_not_added_to(shell: Shell, tmp_path: Path) -> None:
    body = json.loads(shell("ask", QUESTION, "--json").stdout)
    assert (body["answer"], body["metadata"]["synthesis_enabled"]) == ("", False)
    (tmp_path / "request.json").write_text(json.dumps({"query": QUESTION}))
    assert "confidence" not in shell("ask", "--request", "request.json").stdout


def test_the_answer_alone(shell: Shell) -> None:
    done = shell("ask", "What are seizures?", "--answer-only")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "[1]" in done.stdout


def test_the_options_are_the_request(shell: Shell) -> None:
    def asked(*options: object) -> dict:
        return json.loads(shell("ask", QUESTION, "--json", *options).stdout)

    assert asked("--top-k", 2)["metadata"]["top_k"] == 2
    assert asked("--no-graph")["metadata"]["kg_expansion_enabled"] is False
    one = asked("--filter", "doc_id=d-dravet", "--filter", "doc_id=d-scn1a")
    assert {c["doc_id"] for c in one["citations"]} == {"d-dravet", "d-scn1a"}
    number = asked("--filter", "year=2021")
    assert {c["doc_id"] for c in number["citations"]} == {"d-dravet"}
    wrong = shell("ask", QUESTION, "--filter", "year")
    assert wrong.returncode == 2
    assert "KEY=VALUE" in wrong.stderr


def test_an_empty_place_says_what_is_missing_and_what_helps(shell: Shell) -> None:
    done = shell("ask", QUESTION, store=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "store.sqlite is not there" in done.stderr
    assert "docstokg load FOLDER" in done.stderr
    assert "unavailable" not in done.stderr and "{" not in done.stderr
    other = shell("ask", QUESTION, "--namespace", "nowhere")
    assert other.returncode == 0
    assert "namespace nowhere is empty; there is default" in other.stderr


def test_a_server_that_is_not_there_is_named_with_what_to_check(shell: Shell) -> None:
    done = shell("ask", QUESTION, "--index", "http://127.0.0.1:9", "--graph", "bolt://127.0.0.1:9")
    assert done.returncode == 1
    assert "check DOCSTOKG_INDEX_URL" in done.stderr
    assert "Traceback" not in done.stderr and "bm25_unavailable" not in done.stderr


def test_version_help_and_completion(shell: Shell) -> None:
    assert shell("--version").stdout.startswith("docstokg 0.")
    assert "Usage:" in shell("-h").stdout
    assert "--top-k" in shell("ask", "-h").stdout
    shown = shell("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "complete" in shown.stdout


@pytest.mark.parametrize("command", [("ask", QUESTION), ("ask", QUESTION, "--json"), ("-h",)])
def test_a_reader_who_goes_away_is_no_error(shell: Shell, command, small_store, cache_dir) -> None:
    environment = {
        **os.environ,
        "DOCSTOKG_INDEX_URL": f"sqlite:///{small_store}",
        "DOCSTOKG_CACHE_DIR": str(cache_dir),
    }
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-c", CODE, *command],
            check=False, stdout=gone, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_has_its_own_store_and_it_is_named(
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
    here = settings_of(None, None, name_store=True)
    assert here.index_url == here.graph_url == "sqlite:///.docstokg/store.sqlite"
    assert ".docstokg/store.sqlite (this folder's)" in capsys.readouterr().err
    given = settings_of("sqlite:////elsewhere/x.sqlite", None, name_store=True)
    assert given.graph_url == "sqlite:////elsewhere/x.sqlite"
    assert capsys.readouterr().err == ""
    assert default_store({"XDG_DATA_HOME": "/d"})[0] == Path(".docstokg/store.sqlite")
