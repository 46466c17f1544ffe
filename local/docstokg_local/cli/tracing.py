"""`docstokg trace`: log lines in AWS or stored trace."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstokg.contracts import Json
from docstokg.domain.deadline import Deadline
from docstokg_local.cli.exit_codes import finish
from docstokg_local.cli.options import Index, argument, flag, option, wiring_of
from docstokg_local.cli.printing import echo

if TYPE_CHECKING:
    from docstokg.contracts.state import TraceMessage

# Fields that are not repeated at the end of a line.
LEADING = ("level", "event", "time_ms", "request_id", "function")
BAD = ("ERROR", "WARNING")
FUNCTION = re.compile(r"Functions([A-Za-z]+?)Logs")
READ_S = 20.0
# Maps a service's name to its boto3 client.
type Clients = Callable[[str], Any]


def lines_of(texts: Iterable[tuple[str, str]], request_id: str) -> list[Json]:
    """Return the JSON lines of one request, oldest first; others and invalid ones are skipped.

    `texts`: function names and log lines.
    """
    lines = []
    for function, text in texts:
        start = text.find("{")
        try:
            line = json.loads(text[start:]) if start >= 0 else None
        except ValueError:
            continue
        if isinstance(line, dict) and line.get("request_id") == request_id:
            lines.append({"function": function, **line})
    return sorted(lines, key=lambda line: line.get("time_ms", 0))


def aws_log_lines(clients: Clients, environment: str, request_id: str) -> Iterator[tuple[str, str]]:
    """Yield (function, log line) of an environment where a line contains a request id."""
    pages = clients("cloudformation").get_paginator("list_stack_resources")
    logs = clients("logs").get_paginator("filter_log_events")
    resources = pages.paginate(StackName=f"docstokg-{environment}")
    groups = "StackResourceSummaries[?ResourceType=='AWS::Logs::LogGroup']"
    for resource in resources.search(groups):
        if function := FUNCTION.match(resource["LogicalResourceId"]):
            group = resource["PhysicalResourceId"]
            events = logs.paginate(logGroupName=group, filterPattern=f'"{request_id}"')
            yield from ((function[1], text) for text in events.search("events[].message"))


def request_report(lines: list[Json]) -> Iterator[str]:
    """Yield the lines as text, then the first fault; raise IndexError without lines."""
    begun = lines[0]["time_ms"]
    for line in lines:
        details = {name: value for name, value in line.items() if name not in LEADING and value}
        after = line["time_ms"] - begun
        fields = " ".join(f"{name}={json.dumps(value)}" for name, value in details.items())
        yield f"{after:>6} ms  {line['function']:<12} {line['event']}  {fields}"
    bad = [line for line in lines if line.get("level") in BAD]
    request = next((line for line in lines if line["event"] == "request"), {})
    if bad:
        why = bad[0].get("error") or bad[0].get("kind") or "no details were logged"
        yield f"first: {bad[0]['function']}: {bad[0]['event']}: {why}"
    elif doubts := request.get("doubts"):
        yield f"first: the answer is doubted: {', '.join(doubts)}"
    elif reasons := request.get("degraded_reasons"):
        yield f"first: degraded: {', '.join(reasons)}"
    else:
        yield "nothing went wrong in any logged step"


def trace_lines(trace: "TraceMessage") -> Iterator[str]:
    """Yield a stored trace as text: one line per chunk and entity."""
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(trace.created_ms / 1000))
    yield f"{trace.request_id}, namespace {trace.namespace}, {at}"
    yield f"query  {trace.query_hash} (sha256)"
    yield f"session  {trace.session}"
    for hit in trace.retrieved:
        cited = "  cited" if hit["rank"] in trace.supported_by else ""
        yield f"[{hit['rank']}]  {hit['score']:.2f}  {hit['uuid']}{cited}"
    for focus in trace.focused_on:
        yield f"entity  {focus['score']:.2f}  {focus['entity']}"


def trace(
    request_id: Annotated[str, argument("REQUEST_ID", "Request id of the answer.")],
    environment: str = option(
        "--env", "Deployment, read with this shell's AWS credentials.", "ENV", default=""
    ),
    graph: bool = flag(
        "--graph", "Read the trace from the graph store (`--index`, or the settings)."
    ),
    index: Index = None,
) -> None:
    """Show the log lines of one request in AWS and the first fault.

    `--graph` shows the stored trace: hash of the query, chunks with rank and score, entities and
    cited ranks. The exit code is 1 if the id is not found.
    """
    if bool(environment) == graph:
        raise typer.BadParameter("use --env ENV or --graph")
    if graph:
        message = (
            wiring_of(index, None, log=False).trace_store().read(request_id, Deadline.after(READ_S))
        )
        echo("\n".join(trace_lines(message)) if message else f"no stored trace of {request_id}")
        finish(message is not None)
    import boto3

    lines = lines_of(aws_log_lines(boto3.client, environment, request_id), request_id)
    echo("\n".join(request_report(lines)) if lines else f"no log line has the id {request_id}")
    finish(bool(lines))
