"""Model servers of this machine are found by their lists alone, and used by who says so."""

import json
import socket
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from docstokg_local.cli import local_models
from docstokg_local.cli.commands import app
from docstokg_local.cli.local_models import local_servers
from tests.model_server import ModelServer, serving
from tests.streaming_model import StreamingModel, streaming

pytestmark = pytest.mark.timeout(120)


def test_model_servers_are_found_by_their_lists(server_for, monkeypatch) -> None:
    port = urlsplit(server_for()).port
    with streaming(StreamingModel()) as model, serving(ModelServer()) as other:
        with closing(socket.create_server(("127.0.0.1", 0))) as silent:
            ports = {"a": model.port, "b": other.port, "c": port, "d": silent.getsockname()[1]}
            monkeypatch.setattr(local_models, "PORTS", {**ports, "e": 1})
            assert local_servers() == [("a", model.url, ("tiny",))]
        assert model.asked == [{"path": "/v1/models"}]


def test_auto_takes_what_runs_here_and_says_so(small_store, cache_dir, monkeypatch) -> None:
    monkeypatch.setenv("DOCSTOKG_CACHE_DIR", str(cache_dir))

    def run(*command: str) -> tuple[str, str]:
        done = CliRunner().invoke(app, [*command, "--index", f"sqlite:///{small_store}"])
        assert done.exit_code == 0, done.output
        return done.stdout.strip(), done.stderr

    ask = ("ask", "What are seizures?", "--synthesize", "auto", "--answer-only")
    with streaming(StreamingModel("A seizure is an event [1].")) as model:
        monkeypatch.setattr(local_models, "PORTS", {"Ollama": model.port})
        answer, remarks = run(*ask)
        assert "answered by gateway/tiny (Ollama at" in remarks
        assert answer == "A seizure is an event [1]."
        model.answer = ""
        assert run(*ask)[0].endswith("[1]."), "the built-in model answers for it"
        assert f"Ollama answers at {model.url}: tiny" in run("doctor")[0]
    monkeypatch.setattr(local_models, "PORTS", {})
    answer, remarks = run(*ask)
    assert "answered by extractive" in remarks
    assert "[1]" in answer


def test_chats_and_searches_use_the_servers_time(server_for) -> None:
    import httpx

    url = server_for(default_timeout_s=7.5)
    question = {"query": "What are seizures?"}
    for route, body, seconds in (
        ("answer", question, 7.5),
        ("search", question, 7.5),
        ("answer", {**question, "budget": {"timeout_s": 9}}, 9.0),
    ):
        reply = httpx.post(f"{url}/v1/{route}", json=body, timeout=60).json()
        assert reply["diagnostics"]["budget_limits"]["timeout_s"] == seconds
        assert not [warning for warning in reply["warnings"] if "timeout_s" in json.dumps(warning)]
