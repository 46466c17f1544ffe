"""Local MCP."""

import json
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import IO, Any

from ulid import ULID

from docstokg.contracts.envelope import Envelope, Reply
from docstokg.ports import Workflow
from docstokg.usecases.intake import field_of
from docstokg.usecases.live import SendEvent
from docstokg.usecases.problems import PROBLEM_TYPE
from docstokg.wiring import Handler, Wiring
from docstokg_functions import __name__ as package
from docstokg_functions.mcp import handler as mcp
from docstokg_local.cli.printing import echo
from docstokg_local.server.authentication import EVERYBODY
from docstokg_local.server.live import Progress, listening

CALLS_AT_ONCE = 4
ROUTE_FUNCTIONS = ("check", "traverse", "documents")


class LocalRouteFunction:
    """A `Workflow` on a handler of this process."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def run(self, envelope: Envelope) -> Reply:
        """Call the handler like Lambda."""
        return Reply.model_validate(self._handler(envelope.model_dump(mode="json"), None))


def local_mcp(wiring: Wiring, workflow: Workflow, functions: Mapping[str, Handler]) -> Handler:
    """Return the MCP handler over `functions`; raise KeyError without one of ROUTE_FUNCTIONS."""
    wiring.override("workflow", workflow)
    for name in ROUTE_FUNCTIONS:
        wiring.override(f"{name}_function", LocalRouteFunction(functions[name]))
    return mcp.build(wiring)


# Sends a request's events to a listener during a block.
Listening = Callable[[str, SendEvent], AbstractContextManager[None]]


def serve_stdio(  # noqa: C901 - one function per line of input
    handler: Handler, source: IO[bytes], sink: IO[bytes], listening: Listening
) -> None:
    """Answer one JSON-RPC message per line until `source` ends, in parallel.

    Everything is visible to the caller. A crash becomes an error reply. `listening`: for calls that
    request progress.
    """
    writing = threading.Lock()

    def send(text: str) -> None:
        with writing:
            sink.write(text.encode("utf-8") + b"\n")
            sink.flush()

    def progress_of(line: bytes, request_id: str) -> AbstractContextManager[None]:
        try:
            token = field_of(json.loads(line), "params", "_meta", "progressToken")
        except (ValueError, RecursionError):  # the handler reports it
            token = None
        if token is None:
            return nullcontext()
        progress = Progress(token)

        def notify(name: str, value: Any) -> bool:
            if note := progress.of(name, value):
                send(json.dumps(note))
            return True

        return listening(request_id, notify)

    def answer(line: bytes) -> None:
        envelope = Envelope.of("mcp", str(ULID()), EVERYBODY, line)
        try:
            with progress_of(line, envelope.request_id):
                event = envelope.model_dump(mode="json")
                text = _message(Reply.model_validate(handler(event, None)))
        except Exception as crash:  # noqa: BLE001 - without an answer the agent would wait forever
            echo(f"docstokg mcp: {type(crash).__name__}: {crash}", err=True)
            text = _error(json.loads(line).get("id"), -32603, "Internal error")
        if text:
            send(text)

    with ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="mcp") as workers:
        for line in source:
            if line.strip():
                workers.submit(answer, line.strip())


def _message(reply: Reply) -> str:
    if reply.headers.get("Content-Type") != PROBLEM_TYPE:
        return reply.body
    return _error(None, -32600, json.loads(reply.body)["detail"])


def _error(message_id: object, code: int, message: str) -> str:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "error": error})


def run(wiring: Wiring) -> None:
    """Serve the agent that started this process, until it closes the pipe; close `wiring`."""
    from docstokg_local.engine.workflow import LocalWorkflow

    workflow, listener = LocalWorkflow(wiring), listening(wiring)
    functions = {
        name: import_module(f"{package}.{name}.handler").build(wiring) for name in ROUTE_FUNCTIONS
    }
    handler = local_mcp(wiring, workflow, functions)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    # Accidental prints must not reach the pipe.
    sys.stdout = sys.stderr
    try:
        serve_stdio(
            handler, source, sink, lambda name, notify: workflow.listening(name, listener(notify))
        )
    finally:
        wiring.close()
