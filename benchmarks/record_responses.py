"""What about seventy requests are answered, well and with one failure after the other.

usage: python -m benchmarks.record_responses record OUT.json --demo STORE --musique STORE
       python -m benchmarks.record_responses compare BEFORE.json AFTER.json
       python -m benchmarks.record_responses lines RECORDING.json [--out FILE.md]

A change of structure must change no answer: `record` before it and after it, and `compare`, which
looks past ids and times. `lines` shows for each failure what an operator finds in the log. The
failures are made, not mocked, where one machine can make them: files are deleted, locked and
overwritten, and servers refuse, hang and talk nonsense. Stores are read from copies.
"""

import argparse
import json
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from docstokg.errors import PlanRejected, Timeout
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.prometheus import PrometheusSink
from docstokg_local.server import application
from tests.model_server import ModelServer, serving

CLOSED = "http://127.0.0.1:9"
QUESTION = "What are the phenotypic abnormalities associated with HP:0001250?"
WRITTEN = {"synthesis": {"enabled": True}, "budget": {"max_tokens_gen": 300, "timeout_s": 20}}
EXTRACTED = {**WRITTEN, "synthesis": {"enabled": True, "model": "extractive"}}
TIMES = re.compile(r"_ms$|^ms$|_at$|^elapsed_s$|^timings_ms$|^request_id$|^run_id$|^time_ms$")

Body = dict[str, Any]
Break = Callable[[Path], AbstractContextManager[object]]


@dataclass(frozen=True)
class Case:
    """One request to one server; `row` names what is broken.

    `settings` may hold callables of the broken store's path. `broken` breaks the copied store
    after the server has started and answered once, or, when `early`, before it starts. `given`
    wraps ports by their name.
    """

    name: str
    body: Body | str
    route: str = "answer"
    row: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    broken: Break | None = None
    early: bool = False
    given: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    model: dict[str, Any] | None = None
    remote_reranker: bool = False
    remote_embedder: bool = False


def question(text: str = QUESTION, **more: Any) -> Body:
    """A request with time enough on a busy machine."""
    return {"query": text, "budget": {"timeout_s": 20}, **more}


def demo_cases() -> Iterator[Case]:
    """Requests over the demo store: every field of the request at least once."""
    asked = {
        "plain": {},
        "extractive": EXTRACTED,
        "three hops": {"kg_expansion": {"hops": 3}},
        "one hop": {"kg_expansion": {"hops": 1}},
        "graph off": {"kg_expansion": {"enabled": False}},
        "limit 2": {"kg_expansion": {"limit": 2}},
        "types": {"kg_expansion": {"concept_types": ["Phenotype"]}},
        "relations": {"kg_expansion": {"relations": ["is_a"]}},
        "seeds": {"kg_expansion": {"seeds": ["HP:0001250", "NOT:1"]}},
        "route": {"kg_expansion": {"seeds": ["HP:0002069"], "route": True}},
        "route over two hops": {
            "kg_expansion": {"seeds": ["HP:0002069"], "route": True, "hops": 2}
        },
        "route to nowhere": {"kg_expansion": {"seeds": ["NOT:1"], "route": True}},
        "route without seeds": {"kg_expansion": {"route": True}},
        "a filter": {"filter": {"doc_id": ["HP:0002373", "HP:0011174"]}},
        "a filter for nothing": {"filter": {"doc_id": ["nothing"]}},
        "full": {"verbosity": "full", "top_k": 4},
        "graph view": {"verbosity": "graph"},
        "graph view, narrowed": {
            "verbosity": "graph",
            "limits": {"graph": {"max_depth_hard": 1, "max_nodes_hard": 12}},
        },
        "few chunks": {"budget": {"max_chunks": 3, "timeout_s": 20}},
        "few tokens": {
            **EXTRACTED,
            "budget": {"max_tokens_context": 256, "max_tokens_gen": 60, "timeout_s": 20},
        },
        "no diagnostics": {"diagnostics": False},
        "another namespace": {"namespace": "empty"},
        "long timeout": {"budget": {"timeout_s": 60}},
    }
    for name, more in asked.items():
        yield Case(name, question(**more))
    for text in (
        "Which diseases show febrile seizures?",
        "Is a generalized tonic-clonic seizure a kind of focal seizure?",
        "hypocalcemic seizures and tetany",
        "What is the boiling point of tungsten?",
        "SCN1A",
    ):
        yield Case(text, question(text, **EXTRACTED))
        yield Case(f"search: {text}", {"query": text, "budget": {"timeout_s": 20}}, "search")
    yield Case("RRF", question(), settings={"fusion": "rrf"})
    yield Case("no MMR", question(), settings={"mmr": False})
    draft = (
        "Seizure (HP:0001250) is a kind of fever. HP:0001250 is_a HP:0012638. "
        "Febrile seizures follow a high temperature in children."
    )
    yield Case("check without citations", {"text": draft}, "check")
    yield Case("check with a foreign citation", {"text": f"{draft} [1]", "citations": []}, "check")
    walk = {"seed_ids": ["HP:0001250"], "query": "febrile seizures", "max_depth": 2}
    yield Case("walk", walk, "traverse")
    yield Case("walk outwards", {**walk, "direction": "out", "max_nodes": 20}, "traverse")
    yield Case("walk from an unknown seed", {**walk, "seed_ids": ["NOT:1"]}, "traverse")
    yield Case("walk with a foreign cursor", {**walk, "cursor": "abc"}, "traverse")
    tool = {"name": "search_documentation", "arguments": {"query": QUESTION}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    yield Case("MCP", call, "mcp")


def musique_cases(questions: Sequence[str]) -> Iterator[Case]:
    """Questions of several hops."""
    for place, text in enumerate(questions):
        more: Body = EXTRACTED if place % 2 else {}
        yield Case(text, question(text, namespace="musique100", **more))


def failure_cases() -> Iterator[Case]:
    """Every failure that must cost only a part, as far as one machine can bring it about."""
    yield from _store_failures()
    yield from _model_failures()
    invalid = {"query": "x", "top_k": 0, "budget": {"max_chunks": 0}, "unknown": 1}
    yield Case("wrong fields", invalid, row="invalid request")
    yield Case("no JSON", "{", row="invalid request")
    row = "cache, flag, circuit or trace store down"
    yield Case(
        "the cache is garbage", question(cache_key="k"), row=row,
        settings={"cache_dir": lambda store: str(_garbage(store.parent / "cache"))},
    )  # fmt: skip
    yield Case("no flag agent", question(), row=row, settings={"appconfig": "a/b/c"})
    yield Case(
        "no counting table", {"seed_ids": ["HP:0001250"], "query": "seizures"}, "traverse",
        row=row, settings={"circuit_table": "circuits", "aws_region": "eu-west-1"},
    )  # fmt: skip
    yield Case(
        "traces cannot be written", question(), row=row,
        settings={"traces": "local"}, broken=lambda store: _locked(store, "IMMEDIATE"), early=True,
    )  # fmt: skip


def _store_failures() -> Iterator[Case]:
    apart = {"graph_url": lambda store: f"sqlite:///{_second(store)}"}
    walk = {"seed_ids": ["HP:0001250"], "query": "seizures"}
    short = {"query": QUESTION, "budget": {"timeout_s": 2}}
    yield Case("index locked", short, row="deadline passes", settings=apart,
               broken=lambda store: _locked(store, "EXCLUSIVE"), early=True)  # fmt: skip
    row = "vector index missing"
    yield Case("vector files deleted", question(), row=row, broken=_without_vectors)
    row = "embedder down"
    yield Case("no embedder", question(), row=row, settings={"embed_provider": "none"})
    yield Case("another embedder", question(providers={"embedding": "jina"}), row=row)
    yield Case("embedder refuses", question(), row=row, remote_embedder=True)
    yield Case("embedder hangs", question(), row=row, remote_embedder=True, model={"mode": "hang"})
    row = "one channel errors or is slow"
    yield Case("fact words dropped", question(), row=row, broken=_drop("index_fact%"))
    yield Case("no sparse encoder", question(), row=row, settings={"sparse": "none"})
    row = "all channels fail"
    yield Case("search tables dropped", question(), row=row, broken=_without_channels)
    row = "retrieval works, hydration fails"
    yield Case("index deleted", question(), row=row, settings=apart, broken=_deleted)
    yield Case("index overwritten", question(), row=row, settings=apart, broken=_overwritten)
    yield Case("full texts gone", question(verbosity="full"), row=row, given={
        "search_index": lambda index: _Refusing(index, "get", Timeout("the index hung"), after=1)
    })  # fmt: skip
    row = "graph down, slow, or plan rejected"
    late = Timeout("the graph did not answer in time")
    for name, port in {
        "graph gone": {},
        "plan rejected": {
            "knowledge_graph": lambda graph: _Refusing(
                graph, "slice", PlanRejected("neighbourhood: a Cartesian product")
            )
        },
    }.items():
        lost = None if port else _second_gone
        yield Case(name, question(), row=row, settings=apart, broken=lost, given=port)
        seeds = {"seeds": ["HP:0001250"], "route": True}
        routed = question(kg_expansion=seeds)
        yield Case(f"{name}, routing", routed, row=row, settings=apart, broken=lost, given=port)
    yield Case("graph locked", question(), row=row, settings=apart,
               broken=lambda store: _locked(_second(store), "EXCLUSIVE"), early=True)  # fmt: skip
    yield Case("graph gone, graph view", question(verbosity="graph"), row=row, settings=apart,
               broken=_second_gone)  # fmt: skip
    yield Case("graph gone, walk", walk, "traverse", row=row, settings=apart, broken=_second_gone)
    yield Case("graph gone, check", {"text": "HP:0001250 is_a HP:0000001."}, "check", row=row,
               settings=apart, broken=_second_gone)  # fmt: skip
    yield Case("second hop late", question(kg_expansion={"hops": 2}), row="2-hop slow", given={
        "knowledge_graph": lambda graph: _Refusing(graph, "slice", late, after=1)
    })  # fmt: skip


def _model_failures() -> Iterator[Case]:
    row = "reranker down"
    yield Case("reranker asked for, none there", question(providers={"reranker": "local"}), row=row)
    yield Case("reranker refuses", question(), row=row, remote_reranker=True)
    row = "LLM timeout / 429 / error"
    written = question(**WRITTEN)
    hurried = {**written, "budget": {"max_tokens_gen": 300, "timeout_s": 3}}
    yield Case("model hangs", hurried, row=row, model={"mode": "hang"})
    yield Case("model is busy", written, row=row, model={"mode": "refuse_429"})
    yield Case("model fails", written, row=row, model={"mode": "error_500"})
    yield Case("model says nothing", written, row=row, model={"mode": "empty"})
    said = {
        "orphan or malformed markers": "Seizures are abnormal [1]. They last [99].",
        "no valid marker at all": "Seizures are abnormal events of the brain.",
        "abstention": "I don't have information about that in the available documents.",
        "low coverage or unsupported sentences": "Tungsten boils at 5555 degrees [1]. So it is.",
    }
    for row, answer in said.items():
        yield Case(row, written, row=row, model={"answer": answer})
    yield Case("unsupported, dropped", written, row=row, model={"answer": answer},
               settings={"repair": "drop"})  # fmt: skip


class _Refusing:
    """A port whose method raises from its `after`-th call on; everything else is the port's own."""

    def __init__(self, port: Any, method: str, error: Exception, after: int = 0) -> None:
        self._port, self._method, self._error, self._left = port, method, error, after

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._port, name)
        if name != self._method:
            return own

        def refused(*given: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise self._error
            return own(*given)

        return refused


def _second(store: Path) -> Path:
    """A copy of the file for the graph, so that index and graph fail apart."""
    copy = store.with_name("graph.sqlite")
    if not copy.exists():
        shutil.copy(store, copy)
    return copy


def _garbage(folder: Path) -> Path:
    folder.mkdir()
    (folder / "responses.sqlite").write_bytes(b"garbage" * 1000)
    return folder


def _sidecars(store: Path) -> list[Path]:
    return [path for path in store.parent.glob(store.name + "*") if path != store]


@contextmanager
def _locked(store: Path, how: str) -> Iterator[None]:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        if how == "EXCLUSIVE":
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute(f"BEGIN {how}")
        yield


def _without_vectors(store: Path) -> AbstractContextManager[object]:
    shutil.rmtree(store.with_name(store.name + ".d"))
    return nullcontext()


def _drop(pattern: str) -> Break:
    def broken(store: Path) -> AbstractContextManager[object]:
        with closing(sqlite3.connect(store)) as connection:
            chosen = "type = 'table' AND name LIKE ? AND sql LIKE '%fts5%'"
            tables = connection.execute(
                f"SELECT name FROM sqlite_master WHERE {chosen}", (pattern,)
            ).fetchall()
            for (table,) in tables:
                connection.execute(f"DROP TABLE {table}")
        assert tables
        return nullcontext()

    return broken


def _without_channels(store: Path) -> AbstractContextManager[object]:
    _drop("index_%")(store)
    return _without_vectors(store)


def _deleted(store: Path) -> AbstractContextManager[object]:
    for path in [store, *_sidecars(store)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return nullcontext()


def _overwritten(store: Path) -> AbstractContextManager[object]:
    store.write_bytes(b"not a database" * 1000)
    return nullcontext()


def _second_gone(store: Path) -> AbstractContextManager[object]:
    return _deleted(_second(store))


def _copied(store: Path, folder: Path) -> Path:
    copy = folder / "store.sqlite"
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    shutil.copytree(store.with_name(store.name + ".d"), copy.with_name(copy.name + ".d"))
    return copy


@contextmanager
def _client(
    case: Case, store: Path, models: dict[str, object], log: list[str]
) -> Iterator[TestClient]:
    with ExitStack() as stack:
        values: dict[str, Any] = {
            name: value(store) if callable(value) else value
            for name, value in case.settings.items()
        }
        address = CLOSED
        if case.model is not None:
            address = stack.enter_context(serving(ModelServer(**case.model))).url
            values |= {"llm_base_url": address, "llm_api_key": "key"}
        if case.remote_reranker:
            values |= {"rerank_provider": "cohere", "rerank_base_url": CLOSED, "rerank_model": "r"}
        if case.remote_embedder:
            values |= {
                "embed_provider": "openai", "embed_base_url": address, "embed_dimension": 384,
                "embed_model": "all-MiniLM-L6-v2-onnx-int8",
                "cache_dir": str(store.parent / "empty-cache"),
            }  # fmt: skip
        settings = Settings(
            **{"index_url": f"sqlite:///{store}", "graph_url": f"sqlite:///{store}", **values}
        )
        sink = PrometheusSink()
        known = {} if {"embed_provider", "sparse"} & values.keys() else models
        telemetry = Telemetry(sink, log.append)
        plain = Wiring(settings, telemetry, known)
        given = {name: wrap(getattr(plain, name)()) for name, wrap in case.given.items()}
        wiring = Wiring(settings, telemetry, {**known, **given})
        stack.callback(wiring.close)
        stack.callback(plain.close)
        yield stack.enter_context(
            TestClient(application(settings, wiring, sink), raise_server_exceptions=False)
        )


def run(case: Case, store: Path, models: dict[str, object]) -> dict[str, Any]:
    """Ask once; give status, body and the log lines of the request."""
    log: list[str] = []
    with ExitStack() as stack:
        if case.broken is not None and case.early:
            stack.enter_context(case.broken(store))
        client = stack.enter_context(_client(case, store, models, log))
        if case.broken is not None and not case.early:
            client.post("/v1/search", json={"query": "warm up", "budget": {"timeout_s": 20}})
            stack.enter_context(case.broken(store))
        log.clear()
        path = "/mcp" if case.route == "mcp" else f"/v1/{case.route}"
        started = time.perf_counter()
        if isinstance(case.body, str):
            headers = {"Content-Type": "application/json"}
            answer = client.post(path, content=case.body, headers=headers)
        else:
            answer = client.post(path, json=case.body)
        seconds = time.perf_counter() - started
        if case.settings.get("traces"):
            _until_written(log)
    return {
        "row": case.row,
        "status": answer.status_code,
        "body": answer.json(),
        "log": [json.loads(line) for line in log],
        "seconds": round(seconds, 2),
    }


def _until_written(log: list[str]) -> None:
    """Wait for what the consumer in the background says: it waits for its store, three times."""
    ends = time.monotonic() + 45
    while time.monotonic() < ends and not any('"traces_not_written"' in line for line in log):
        time.sleep(0.2)


def _record(
    demo: Path, musique: Path | None, questions: Path | None, *, only_failures: bool
) -> dict[str, Any]:
    shared = Wiring(Settings(index_url=f"sqlite:///{demo}", graph_url=f"sqlite:///{demo}"))
    models = {"embedder": shared.embedder(), "sparse_encoder": shared.sparse_encoder()}
    recorded: dict[str, Any] = {}
    plan: list[tuple[str, Case, Path]] = []
    if not only_failures:
        plan += [("demo", case, demo) for case in demo_cases()]
    if musique is not None and questions is not None:
        lines = questions.read_text(encoding="utf-8").splitlines()[:12]
        texts = [json.loads(line)["question"] for line in lines]
        plan += [("musique", case, musique) for case in musique_cases(texts)]
    plan += [("failure", case, demo) for case in failure_cases()]
    for group, case, store in plan:
        with tempfile.TemporaryDirectory() as folder:
            # Only what breaks a store needs one of its own.
            own = _copied(store, Path(folder)) if group == "failure" else store
            entry = run(case, own, models)
        print(f"{group}: {case.name}: {entry['status']} {entry['seconds']} s", file=sys.stderr)
        recorded[f"{group}: {case.name}"] = entry
    shared.close()
    return recorded


def settled(value: object) -> object:
    """Give an answer without what differs from run to run: ids and times."""
    if isinstance(value, dict):
        return {name: settled(part) for name, part in value.items() if TIMES.search(name) is None}
    if isinstance(value, list):
        return [settled(part) for part in value]
    if isinstance(value, str) and value[:1] == "{":
        try:
            return settled(json.loads(value))
        except ValueError:
            return value
    return value


def differences(before: object, after: object, path: str = "$") -> Iterator[str]:
    """Name every place where two settled answers differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from differences(before.get(name), after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, two) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, two, f"{path}[{place}]")
    elif before != after:
        yield f"{path}: {_short(before)} -> {_short(after)}"


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:160]


def _compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    different = 0
    for name in sorted({*before, *after}):
        one, two = before.get(name, {}), after.get(name, {})
        found = list(
            differences(
                settled([one.get("status"), one.get("body")]),
                settled([two.get("status"), two.get("body")]),
            )
        )
        different += bool(found)
        if found:
            print(f"{name}: {len(found)} differences")
            for line in found[:8]:
                print(f"  {line}")
    print(f"{len({*before, *after})} requests, {different} answered differently")
    return different


HEAD = """# What the log says when something fails

One request, every failure that must cost only a part, one after the other: what the client gets,
and the lines an operator finds in the log beside those of a request that went well. Look for the
response's `request_id`; each line names what failed (`event`), the kind of error, its cause and the
reason the client was given. Of a vendor's error only the kind is told, because a vendor may quote
what was asked. A doubtful answer of a model is no failure of a dependency: its cause stands in
`doubts` of the `request` line.

The failures are made for real on one machine: files deleted, overwritten and locked, servers that
refuse and hang; two ports are wrapped (a refused plan, a late second hop). Temporary paths are cut.
`tests/faults/test_failure_lines.py` makes them again and holds this page to it, but for four. Of
those other tests break the part; none holds the whole row:

- embedder hangs: `tests/faults/test_remote_providers.py` (the error is a timeout, in time);
- traces cannot be written: `tests/faults/test_traces.py` (`traces_not_written`, with a store that
  is deleted or overwritten; a locked one costs the caller nothing);
- no counting table: `tests/unit/test_traverse.py` (`call_counter_lost`, with a counter that fails);
- no flag agent: `tests/infra/test_aws_adapters.py` (the flags that then count; not the line).

    python -m benchmarks.record_responses record OUT.json --demo STORE --failures
    python -m benchmarks.record_responses lines OUT.json --out docs/failures.md

| failure | made by | status, reasons | what the log says |
|---|---|---|---|
"""


def _lines(recording: dict[str, Any]) -> str:
    table = ""
    for name, entry in recording.items():
        if entry["row"] is None:
            continue
        body = entry["body"]
        reasons = (body.get("diagnostics") or {}).get("degraded_reasons") or []
        said = ", ".join(reasons) or body.get("code") or body.get("detail", "")[:60] or "-"
        lines = [_said(line) for line in telling(entry["log"])]
        made = name.partition(": ")[2]
        table += (
            f"| {entry['row']} | {made} | {entry['status']} {said} |"
            f" {'<br>'.join(dict.fromkeys(lines)) or '(the request line only)'} |\n"
        )
    return HEAD + table


def telling(log: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the lines that say why: none of a request that went well, doubts of its answer."""
    lines = []
    for line in log:
        if line["event"] != "request":
            lines.append(line)
        elif line.get("doubts"):
            shown = ("level", "event", "request_id", "doubts")
            lines.append({name: line[name] for name in shown})
    return lines


def _said(line: dict[str, Any]) -> str:
    shown = {key: value for key, value in line.items() if key not in ("level", "event", "time_ms")}
    known = "request_id" in shown
    shown.pop("request_id", None)
    fields = ", ".join(f"{key}: {value}" for key, value in shown.items()).replace("|", "/")
    fields = re.sub(r"/tmp/[^/]+/", "", fields)
    return f"{line['level']} `{line['event']}` {fields}{'' if known else ' (no request id)'}"


def main() -> None:
    """Record, compare, or show the log lines."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("out", type=Path)
    record.add_argument("--demo", type=Path, required=True)
    record.add_argument("--musique", type=Path)
    record.add_argument("--failures", action="store_true", help="only what is broken")
    record.add_argument("--questions", type=Path)
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    lines = commands.add_parser("lines")
    lines.add_argument("recording", type=Path)
    lines.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        recorded = _record(
            options.demo, options.musique, options.questions, only_failures=options.failures
        )
        options.out.write_text(json.dumps(recorded, ensure_ascii=False, indent=1), "utf-8")
    elif options.command == "compare":
        before = json.loads(options.before.read_text("utf-8"))
        after = json.loads(options.after.read_text("utf-8"))
        sys.exit(1 if _compare(before, after) else 0)
    else:
        text = _lines(json.loads(options.recording.read_text("utf-8")))
        print(text)
        if options.out:
            options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
