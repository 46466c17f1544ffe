"""The command line as its users meet it: output, exit codes, files."""

import hashlib
import json
import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import copy

import pytest
from typer.testing import CliRunner

from docstokg.adapters.onnx import wordpieces
from docstokg.adapters.onnx.minilm import PACKAGES
from docstokg.domain.answer.notices import SYNTHESIS_UNAVAILABLE
from docstokg_local.cli.commands import app
from tests.builders import ran, write_files
from tests.workflow.conftest import Cli
from tests.workflow.test_receipts import MANIPULATIONS, Body, Change, whole

QUESTION = "How much do anticonvulsants reduce the frequency of seizures?"


@pytest.fixture
def answered(cli: Cli, tmp_path: Path) -> Path:
    """A response with an answer, as a file."""
    code, out, err = cli("ask", QUESTION, "--synthesize", "extractive", "--json")
    assert (code, err) == (0, "")
    path = tmp_path / "response.json"
    path.write_text(out, encoding="utf-8")
    return path


def test_options_override_the_request_file(cli: Cli, tmp_path: Path):
    request = tmp_path / "request.json"
    request.write_text(
        json.dumps({"query": "Ignored here?", "top_k": 1, "kg_expansion": {"enabled": False}})
    )
    code, out, _ = cli("ask", "What is asthma?", "--request", request, "--json")
    response = json.loads(out)
    assert (code, response["query"], response["results_count"]) == (0, "What is asthma?", 1)


@pytest.mark.parametrize("name", ["C#", "HR", "x"])
def test_a_name_of_two_letters_is_asked(cli: Cli, name: str):
    code, out, _ = cli("ask", name, "--json")
    assert (code, json.loads(out)["query"]) == (0, name.ljust(3, "?"))


def test_a_history_completes_the_question(cli: Cli, tmp_path: Path):
    turns = tmp_path / "turns.json"
    turns.write_text(json.dumps([{"role": "user", "content": "What is Dravet syndrome?"}]))
    code, out, _ = cli("ask", "How does it begin?", "--history", turns, "--json")
    assert code == 0
    assert "Dravet" in json.loads(out)["query_used"]
    turns.write_text("{}")
    code, _, err = cli("ask", "How does it begin?", "--history", turns)
    assert (code, "is not a JSON list" in err) == (2, True)


def test_a_problem_is_exit_code_one(cli: Cli, tmp_path: Path):
    long = "x" * 4097
    code, out, err = cli("ask", long)
    assert (code, out) == (1, "")
    assert err.endswith("docstokg: the question: must have at most 4096 characters\n")
    code, out, _ = cli("ask", long, "--json")
    assert (code, json.loads(out)["status"]) == (1, 400)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask",), ("ask", "q?", "--nonsense"), ("ask", "--request", "absent.json"), ("load",),
        ("load", "absent"), ("load", ".", "--namespace", "Not Good"), ("delete",),
        ("verify", "absent.json"), ("eval", "absent"),
        ("eval", "questions", "--ablate", "nonsense"), ("nonsense",),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_two(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "questions.jsonl").write_text(
        '{"id": "1", "question": "What?", "gold": ["a"]}\n'
    )
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert err and "Traceback" not in err


def test_load_reports_rejected_lines_and_fails(cli: Cli, tmp_path: Path):
    lines = '{"id": "a", "doc_id": "d", "text": "Good."}\n{"id": "b"}\n'
    folder = write_files(tmp_path / "in", {"chunks.jsonl": lines})
    store, rejects = tmp_path / "store.sqlite", tmp_path / "rejects.jsonl"
    code, out, err = cli("load", folder, "--no-embed", "--rejects", rejects, store=store)
    assert code == 1
    assert "1 chunk (" in out and "1 rejected" in err and "chunks.jsonl:2: " in err
    (row,) = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert (row["line"], Path(row["file"]).name) == (2, "chunks.jsonl")
    assert "doc_id" in row["reason"]


def test_load_ask_delete_and_digest(cli: Cli, tmp_path: Path):
    call = partial(cli, store=tmp_path / "store.sqlite")
    text = "# Whale\n\nThe blue whale is the largest animal.\n"
    folder = write_files(tmp_path / "in", {"whale.md": text})
    assert call("load", folder, "--no-embed")[0] == 0
    first = call("doctor", "--digest")[1]
    assert call("load", folder, "--no-embed")[0] == 0
    assert call("doctor", "--digest")[1] == first
    code, out, _ = call("ask", "Which is the largest animal?", "--json")
    citation = json.loads(out)["citations"][0]
    assert (code, citation["doc_id"], citation["offset_base"]) == (0, "whale.md", "document")
    response = tmp_path / "response.json"
    response.write_text(out)
    assert call("verify", response, "--source", folder)[0] == 0
    assert call("verify", response)[0] == 0
    assert [call("delete", "--doc-id", "whale.md")[0] for _ in range(2)] == [0, 1]
    assert call("verify", response)[0] == 1
    assert call("doctor", "--digest")[1] != first


def doubled(response: Body) -> None:
    response["citations"].append({**response["citations"][0]})
    response["citations"][-1]["rank"] = len(response["citations"])
    response["results_count"] += 1


OFFLINE_TOO = (
    "start", "snippet", "uuid", "marker", "cited", "hash", "document", "passage id", "rank",
    "section", "namespace", "offset base",
)  # fmt: skip
TAMPERINGS: dict[str, Change] = {name: MANIPULATIONS[name] for name in OFFLINE_TOO} | {
    "number": whole(answer=lambda text: text.replace("50 percent", "70 percent")),
    "unknown marker": whole(answer=lambda text: text + " Nobody said so [99]."),
    "sentence added": whole(answer=lambda text: "Bridges cause asthma [1]. " + text),
    "citation dropped": lambda response: response["citations"].pop(),
    "citation doubled": doubled,
}


def test_verify_proves_honest_responses_and_finds_every_tampering(cli: Cli, answered: Path):
    code, out, _ = cli("verify", answered)
    assert code == 0, out
    assert "0 findings" in out
    honest = answered.read_text()
    for name, tamper in TAMPERINGS.items():
        response = json.loads(honest)
        tamper(response)
        assert response != json.loads(honest), name
        answered.write_text(json.dumps(response))
        code, out, _ = cli("verify", answered)
        assert (code, "not proven" in out) == (1, True), name


def test_verify_refuses_files_without_a_response(cli: Cli, tmp_path: Path):
    path = tmp_path / "x.json"
    for text in ("{", "[]", '{"query": "x"}'):
        path.write_text(text)
        assert cli("verify", path)[0] == 2


def test_eval_writes_the_report(cli: Cli, tmp_path: Path):
    questions = [
        {"id": "1", "question": "What is asthma?", "gold": ["d-asthma"]},
        {"id": "2", "question": "What begins with febrile seizures?", "gold": ["d-dravet"]},
    ]
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    (tmp_path / "questions.jsonl").write_text(lines)
    report_file = tmp_path / "report.json"
    parts = "graph,bm25,mmr,rrf,down:graph,down:index,down:embedder"
    code, out, _ = cli("eval", tmp_path, "--ablate", parts, "--json", report_file)
    assert code == 0
    assert "ndcg@10" in out
    report = json.loads(report_file.read_text())
    assert (report["n"], report["namespace"], report["set"]) == (2, "default", tmp_path.name)
    runs = {run["name"]: run for run in report["runs"]}
    down = ["down:graph", "down:index", "down:embedder"]
    assert list(runs) == ["full", "no-graph", "no-bm25", "only-bm25", "no-mmr", "rrf", *down]
    full = runs["full"]
    assert full["metrics"]["ndcg@10"] == full["metrics"]["all@5"] == 1.0
    assert full["citations"] > 0
    assert set(full["latency_ms"]["total"]) == {"p50", "p95"}
    assert [runs[name]["degraded"] for name in ("full", "no-graph", "only-bm25", "rrf")] == [0] * 4
    assert runs["down:graph"]["degraded"] == 2
    assert runs["down:embedder"]["degraded"] == 2
    assert runs["down:index"]["errors"] == 2
    assert runs["down:index"]["metrics"]["mrr"] == 0.0


def test_doctor_names_missing_parts_and_remedies(cli: Cli, tmp_path: Path):
    code, out, _ = cli("doctor")
    assert code == 0, out
    assert "7 chunks" in out
    code, out, _ = cli("doctor", store=tmp_path / "absent.sqlite")
    assert code == 1
    assert "missing" in out and "docstokg load" in out


def test_doctor_counts_documents_that_no_restore_returns(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = tmp_path / "store.sqlite"

    def doctor() -> tuple[int, str]:
        code, out, _ = cli("doctor", store=store)
        return code, " ".join(out.split())

    names = ("whale.md", "bridge.md")
    files = {name: f"# {name}\n\nThe {name} is described here.\n" for name in names}
    folder = write_files(tmp_path / "in", files)
    assert cli("load", folder, "--no-embed", "-n", "sea", store=store)[0] == 0
    assert "off restore" in doctor()[1]
    monkeypatch.setenv("DOCSTOKG_INGEST_URL", f"file://{tmp_path}/bucket")
    sources = tmp_path / "bucket" / "sources" / "sea"
    sources.mkdir(parents=True)
    copy(folder / "whale.md", sources)
    code, out = doctor()
    assert (code, "documents not in" in out and "sea (1)" in out) == (1, True), out
    assert "-> load their files from sources/NAMESPACE/" in out
    copy(folder / "bridge.md", sources)
    code, out = doctor()
    assert (code, "has every document" in out) == (0, True), out


def test_doctor_names_missing_files_of_a_model(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Where the package that holds them is not installed, the two files are fetched alone.
    monkeypatch.setattr(wordpieces, "have", lambda *names: "cognition" not in names)
    monkeypatch.setattr(wordpieces, "OWN_FILES", tmp_path / "none")
    if not wordpieces.have(*PACKAGES) or not all(map(find_spec, PACKAGES)):
        pytest.skip("the packages of the local embedder are not installed")
    monkeypatch.setenv("DOCSTOKG_EMBED_PROVIDER", "local")
    _, out, _ = cli("doctor")
    flat = " ".join(out.split())
    assert "local: its model files or packages are missing" in flat
    assert "-> docstokg models" in flat


def test_ask_explains_once_why_no_model_answered(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DOCSTOKG_OPENAI_API_KEY", raising=False)
    arguments = ("ask", QUESTION, "--synthesize", "gpt-4o-mini")
    _, out, _ = cli(*arguments)
    assert "DOCSTOKG_OPENAI_API_KEY" in out
    assert "temporarily unavailable" not in out
    _, out, _ = cli(*arguments, "--json")
    assert SYNTHESIS_UNAVAILABLE in json.loads(out)["warnings"]


def test_doctor_shows_settings_without_secrets(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCSTOKG_LLM_API_KEY", "very-secret")
    code, out, _ = cli("doctor", "--settings")
    assert code == 0
    assert "DOCSTOKG_FUSION=minmax" in out and "KG_ENABLED=True" in out
    assert "very-secret" not in out and "DOCSTOKG_LLM_API_KEY=(set)" in out


def test_a_wrong_setting_is_wrong_usage(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCSTOKG_FUSION", "sum")
    code, _, err = cli("ask", "What is asthma?")
    assert code == 2
    assert "DOCSTOKG_FUSION" in err


def test_every_command_teaches_and_takes_the_stores():
    runner = CliRunner()
    assert runner.invoke(app, ["--help"]).exit_code == 0
    for command in app.registered_commands:
        name = command.name or command.callback.__name__  # type: ignore[union-attr]
        help_page = runner.invoke(app, [name, "--help"])
        assert help_page.exit_code == 0
        if name not in ("trace", "receipt-key"):  # they read logs and a key, not stores
            assert "--index" in help_page.output and "--graph" in help_page.output


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom docstokg_local.cli.commands import app, run\nrun(app, ['--help'])\n"
        "heavy = {'numpy', 'pydantic', 'onnxruntime', 'litellm', 'starlette', 'sqlite3'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = ran(sys.executable, "-c", code, check=True)
    assert done.stderr.strip() == "[]"


def test_each_ask_leaves_a_readable_trace(cli: Cli, copied_store: Path) -> None:
    """In processes of their own, which end right after the answer."""
    named = ["--index", f"sqlite:///{copied_store}"]
    program = "from docstokg_local.cli.extras import main; main()"
    arguments = ("ask", QUESTION, "--synthesize", "extractive", "--json")
    responses = []
    for _ in range(2):
        env = {**os.environ, "DOCSTOKG_TRACES": "local"}
        done = ran(sys.executable, "-c", program, *arguments, *named, check=True, env=env)
        responses.append(json.loads(done.stdout))
    for response in responses:
        request_id = response["metadata"]["request_id"]
        code, out, _ = cli("trace", request_id, "--graph", store=copied_store)
        assert code == 0
        assert out.startswith(f"{request_id}, namespace default, ")
        assert hashlib.sha256(QUESTION.encode()).hexdigest() in out
        for citation in response["citations"]:
            cited = "  cited" if citation["cited"] else ""
            assert (
                f"[{citation['rank']}]  {citation['score']:.2f}  {citation['uuid']}{cited}\n" in out
            )
            assert citation["snippet"] not in out
        assert "HP:0001250" in out
    code, out, _ = cli("trace", "nothing", "--graph", store=copied_store)
    assert (code, out) == (1, "no stored trace of nothing\n")
    assert cli("trace", "nothing", store=copied_store)[0] == 2
