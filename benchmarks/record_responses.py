r"""What about seventy requests are answered, well and with one failure after the other.

usage: python -m benchmarks.record_responses record OUT.json --demo STORE --musique STORE
       python -m benchmarks.record_responses record OUT.json --servers HOME --demo FOLDER \
           --musique FOLDER
       python -m benchmarks.record_responses compare BEFORE.json AFTER.json
       python -m benchmarks.record_responses lines EMBEDDED.json [SERVERS.json] [--out FILE.md]

A change of structure must change no answer: `record` before it and after it, and `compare`, which
looks past ids and times. `lines` shows for each failure what an operator finds in the log. The
failures are made, not mocked, where one machine can make them: files are deleted, locked and
overwritten, and servers refuse, hang and talk nonsense. Embedded stores are read from copies.
With `--servers` an OpenSearch and a Neo4j are started in HOME, loaded with the two folders unless
they hold them already, and left running, so that two states of the code may be asked over one
load; `record ... --end` ends them.
"""

import argparse
import json
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from benchmarks.recorded_cases import (
    CLOSED,
    ROWS,
    Case,
    Embedded,
    Refusing,
    demo_cases,
    failure_cases,
    musique_cases,
    question,
)
from benchmarks.recorded_real import Servers, real_failure_cases
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.server import application
from docstokg_local.server.prometheus import PrometheusSink
from tests.model_server import ModelServer, serving

TIMES = re.compile(r"_ms$|^ms$|_at$|^elapsed_s$|^timings_ms$|^request_id$|^run_id$|^time_ms$")
LATE = frozenset({"kg_timeout", "retrieval_timeout", "deadline_exceeded"})
TRIES, PAUSE_S = 8, 5.0
"""A server on a busy machine may meet a limit of time that has nothing to do with the code."""

Stores = Embedded | Servers


def _copied(store: Path, folder: Path) -> Path:
    copy = folder / "store.sqlite"
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    shutil.copytree(store.with_name(store.name + ".d"), copy.with_name(copy.name + ".d"))
    return copy


@contextmanager
def _client(
    case: Case, stores: Stores, models: dict[str, object], log: list[str]
) -> Iterator[tuple[TestClient, list[Refusing]]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        values: dict[str, Any] = {
            name: value(stores, folder) if callable(value) else value
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
                "cache_dir": str(folder),
            }  # fmt: skip
        settings = Settings(**{**stores.settings(), **values})
        sink = PrometheusSink()
        known = {} if {"embed_provider", "sparse"} & values.keys() else models
        telemetry = Telemetry(sink, log.append)
        plain = Wiring(settings, telemetry, known)
        given = {name: wrap(getattr(plain, name)()) for name, wrap in case.given.items()}
        wiring = Wiring(settings, telemetry, {**known, **given})
        stack.callback(wiring.close)
        stack.callback(plain.close)
        client = TestClient(application(settings, wiring, sink), raise_server_exceptions=False)
        yield stack.enter_context(client), list(given.values())


def run(case: Case, stores: Stores, models: dict[str, object]) -> dict[str, Any]:
    """Ask once; give status, body and the log lines of the request.

    Servers are asked again where they met a limit of time that the case does not set.
    """
    log: list[str] = []
    with ExitStack() as stack:
        if case.broken is not None and case.early:
            stack.enter_context(case.broken(stores))
        client, wrapped = stack.enter_context(_client(case, stores, models, log))
        if isinstance(stores, Servers):
            _warm(client)
        elif case.broken is not None and not case.early:
            client.post("/v1/search", json={"query": "warm up", "budget": {"timeout_s": 20}})
        if case.broken is not None and not case.early:
            stack.enter_context(case.broken(stores))
        for port in wrapped:
            port.armed = True
        is_whole = isinstance(stores, Servers) and case.broken is None and not wrapped
        for _ in range(TRIES if is_whole else 1):
            log.clear()
            started = time.perf_counter()
            status, body = _asked(client, case)
            seconds = time.perf_counter() - started
            if status < 500 and not (_reasons(body) if case.row is None else _late(body)):
                break
            time.sleep(PAUSE_S if is_whole else 0)  # a circuit may be open for half a minute
        if case.settings.get("traces"):
            _until_written(log)
    return {
        "row": case.row,
        "status": status,
        "body": body,
        "log": [json.loads(line) for line in log],
        "seconds": round(seconds, 2),
    }


def _asked(client: TestClient, case: Case) -> tuple[int, Any]:
    path = "/mcp" if case.route == "mcp" else f"/v1/{case.route}"
    if isinstance(case.body, str):
        headers = {"Content-Type": "application/json"}
        answer = client.post(path, content=case.body, headers=headers)
    else:
        answer = client.post(path, json=case.body)
    return answer.status_code, answer.json()


def _reasons(body: Any) -> set[str]:
    parts = (
        [body.get(name) for name in ("diagnostics", "explain")] if isinstance(body, dict) else []
    )
    return {reason for part in parts for reason in (part or {}).get("degraded_reasons") or ()}


def _late(body: Any) -> set[str]:
    return _reasons(body) & LATE


def _warm(client: TestClient) -> None:
    """Let connections, plans and pages of servers come up: their first calls are slow."""
    for _ in range(TRIES):
        answer = client.post("/v1/answer", json=question(kg_expansion={"hops": 2}))
        if answer.status_code == 200 and not _late(answer.json()):
            return


def _until_written(log: list[str]) -> None:
    """Wait for what the consumer in the background says: it waits for its store, three times."""
    ends = time.monotonic() + 45
    while time.monotonic() < ends and not any('"traces_not_written"' in line for line in log):
        time.sleep(0.2)


def _record_embedded(options: argparse.Namespace) -> dict[str, Any]:
    models = _models(Embedded(options.demo))
    recorded: dict[str, Any] = {}
    for group, case in _plan(options, failure_cases()):
        with tempfile.TemporaryDirectory() as folder:
            # Only what breaks a store needs one of its own.
            path = options.musique if group == "musique" else options.demo
            own = _copied(path, Path(folder)) if group == "failure" else path
            _keep(recorded, group, case, run(case, Embedded(own), models))
    return recorded


def _record_servers(options: argparse.Namespace) -> dict[str, Any]:
    with Servers.at(options.servers, end=options.end) as servers:
        servers.load(options.demo, "default")
        if options.musique is not None:
            servers.load(options.musique, "musique100")
        servers.load(options.demo, "default", without_vectors=True)
        models = _models(servers)
        recorded: dict[str, Any] = {}
        plan = list(_plan(options, real_failure_cases()))
        if options.resume and options.out.exists():
            recorded |= {name: one for name, one in _read(options.out).items() if _is_whole(one)}
        # A server that was killed is slow for a while: last.
        for group, case in sorted(plan, key=lambda one: "killed" in one[1].name):
            if f"{group}: {case.name}" in recorded:
                continue
            _keep(recorded, group, case, run(case, servers, models))
    return recorded


def _is_whole(entry: dict[str, Any]) -> bool:
    return bool(entry["row"]) or (entry["status"] < 500 and not _reasons(entry["body"]))


def _read(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return recording


def _models(stores: Stores) -> dict[str, object]:
    wiring = Wiring(Settings(**stores.settings()))
    try:
        return {"embedder": wiring.embedder(), "sparse_encoder": wiring.sparse_encoder()}
    finally:
        wiring.close()


def _plan(options: argparse.Namespace, failures: Sequence[Case]) -> Iterator[tuple[str, Case]]:
    if not options.failures:
        yield from (("demo", case) for case in demo_cases())
    if options.musique is not None and options.questions is not None:
        lines = options.questions.read_text(encoding="utf-8").splitlines()[:12]
        texts = [json.loads(line)["question"] for line in lines]
        yield from (("musique", case) for case in musique_cases(texts))
    if not options.well:
        yield from (("failure", case) for case in failures)


def _keep(recorded: dict[str, Any], group: str, case: Case, entry: dict[str, Any]) -> None:
    print(f"{group}: {case.name}: {entry['status']} {entry['seconds']} s", file=sys.stderr)
    recorded[f"{group}: {case.name}"] = entry


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
`tests/faults/test_failure_lines.py` makes all of the first table again and holds the page to it,
but for one: traces that cannot be written. There the writer waits for the locked store three
times before it says so, which takes up to 45 s; `tests/faults/test_traces.py` holds its lines
with a store that is deleted or overwritten, and that a locked one costs the caller nothing.

    python -m benchmarks.record_responses record OUT.json --demo STORE --failures
    python -m benchmarks.record_responses record REAL.json --servers HOME --demo FOLDER --failures
    python -m benchmarks.record_responses lines OUT.json REAL.json --out docs/failures.md

"""
COLUMNS = """| failure | made by | status, reasons | what the log says |
|---|---|---|---|
"""
SERVERS = """
## With an OpenSearch and a Neo4j

What is made otherwise than above where the stores are servers. A proxy before each cuts its
answers off or garbles them; a server that hangs was stopped (SIGSTOP); one was killed.

"""


def _page(recordings: Sequence[dict[str, Any]]) -> str:
    embedded, *servers = recordings
    text = HEAD + COLUMNS + _rows(embedded, set())
    for recording in servers:
        text += SERVERS + COLUMNS + _rows(recording, embedded.keys())
    return text


def _rows(recording: dict[str, Any], known: Collection[str]) -> str:
    table = ""
    failures = {name: one for name, one in recording.items() if one["row"] and name not in known}
    for name, entry in sorted(failures.items(), key=lambda one: ROWS.index(one[1]["row"])):
        body = entry["body"]
        reasons = (body.get("diagnostics") or {}).get("degraded_reasons") or []
        said = ", ".join(reasons) or body.get("code") or body.get("detail", "")[:60] or "-"
        lines = [_said(line) for line in telling(entry["log"])]
        made = name.partition(": ")[2]
        table += (
            f"| {entry['row']} | {made} | {entry['status']} {said} |"
            f" {'<br>'.join(dict.fromkeys(lines)) or '(the request line only)'} |\n"
        )
    return table


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
    record.add_argument("--well", action="store_true", help="only what is not")
    record.add_argument("--servers", type=Path, help="home of an OpenSearch and a Neo4j")
    record.add_argument(
        "--resume", action="store_true", help="only what OUT lacks or lost parts of"
    )
    record.add_argument("--end", action="store_true", help="end the servers afterwards")
    record.add_argument("--questions", type=Path)
    compare = commands.add_parser("compare")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    lines = commands.add_parser("lines")
    lines.add_argument("recordings", type=Path, nargs="+", help="embedded stores, then servers")
    lines.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        recorded = (_record_servers if options.servers else _record_embedded)(options)
        options.out.write_text(json.dumps(recorded, ensure_ascii=False, indent=1), "utf-8")
    elif options.command == "compare":
        before = json.loads(options.before.read_text("utf-8"))
        after = json.loads(options.after.read_text("utf-8"))
        sys.exit(1 if _compare(before, after) else 0)
    else:
        text = _page([json.loads(one.read_text("utf-8")) for one in options.recordings])
        print(text)
        if options.out:
            options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
