"""A Lambda Runtime API on loopback, so that bundles run under the real runtime client.

Each sandbox is `python -S -m awslambdaric functions.NAME.handler.handler` over a built bundle,
the layer and the runtime's own packages, in that order, and nothing else of this machine: no
virtual environment, no `.pth` file, no variable that the deployed template does not set.
"""

from __future__ import annotations

import http.server
import json
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INTERPRETER = Path(sys.base_prefix) / "bin" / "python3.13"
INIT_LIMIT_S = 60.0
API = "/2018-06-01/runtime"


class FunctionError(Exception):
    """Error of the runtime client: type and message for the state machine."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("errorMessage", "")))
        self._type = str(error.get("errorType", "Unknown"))

    def named(self) -> Exception:
        """Give an exception whose class has the reported name, as a Catch matches it."""
        named: Exception = type(self._type, (Exception,), {})(str(self))
        return named


class TimedOut(Exception):
    """The function did not answer in its time; its sandbox is gone, as in Lambda."""


class InitFailed(Exception):
    """The handler could not be loaded."""


@dataclass(frozen=True)
class Folders:
    """Where the code of one target lies."""

    build: Path

    def search_path(self, function: str) -> list[Path]:
        """Give what Lambda has on `sys.path`: task, layer, runtime."""
        return [self.build / function, self.build / "layer" / "python", self.build / "runtime"]


def cpu_s(pid: int) -> float:
    """CPU seconds a process has used: on a busy machine the clock would count others too."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


class Server(http.server.ThreadingHTTPServer):
    """Ends with its process: a connection that a killed sandbox broke off is no news."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about connections that broke off."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Sandbox:
    """One execution environment of one function; started at once, INIT is waited for."""

    def __init__(
        self,
        function: str,
        folders: Folders,
        log: Path,
        *,
        variables: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self.function, self.timeout_s = function, timeout_s
        self._log = log
        self._pending: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._answers: dict[str, tuple[str, bytes]] = {}
        self._answered = threading.Condition()
        self.busy = False
        self._ready = threading.Event()
        self._restored = threading.Event()
        self._waiting = threading.Event()
        self._init_error: bytes | None = None
        self.heard: Callable[[bytes], object] = lambda part: None
        """Is given each part of a reply as it comes."""
        self._server = Server(("127.0.0.1", 0), self._requests())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        task = folders.build / function
        environment = {
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": f"docstokg-test-{function}",
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
            "AWS_REGION": "eu-central-1",
            "LAMBDA_TASK_ROOT": str(task),
            "_HANDLER": f"docstokg_functions.{function.replace('_', '.')}.handler.handler",
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join(str(p) for p in folders.search_path(function)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TZ": ":UTC",
            **variables,
        }
        command = [str(INTERPRETER), "-S", "-m", "awslambdaric", environment["_HANDLER"]]
        if wrapper := environment.get("AWS_LAMBDA_EXEC_WRAPPER"):
            command.insert(0, wrapper.replace("/var/task", str(task)))
        started = time.perf_counter()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=task, env=environment, stdout=output, stderr=output
            )
        until = time.monotonic() + INIT_LIMIT_S
        while not self._ready.wait(0.005):
            if self._process.poll() is not None or time.monotonic() > until:
                self.close()
                raise InitFailed(self._why())
        self.init_ms = (time.perf_counter() - started) * 1000
        self.init_cpu_s = cpu_s(self._process.pid)

    def restore(self) -> float:
        """Let a sandbox whose snapshot was taken go on, as Lambda does with each copy of it.

        Gives the CPU seconds of its hooks, after which it asks for an event.
        """
        before = cpu_s(self._process.pid)
        self._restored.set()
        if not self._waiting.wait(INIT_LIMIT_S):
            raise InitFailed(self._why())
        return cpu_s(self._process.pid) - before

    def invoke(self, event: Any) -> Any:
        """Give the handler's answer; `FunctionError` for its error, `TimedOut` in time."""
        request_id = str(uuid.uuid4())
        self.busy = True
        try:
            return self._invoke(request_id, event)
        finally:
            self.busy = False

    def _invoke(self, request_id: str, event: Any) -> Any:
        self._pending.put((request_id, json.dumps(event).encode("utf-8", "surrogatepass")))
        until = time.monotonic() + self.timeout_s
        with self._answered:
            while not self._answered.wait_for(lambda: request_id in self._answers, 0.05):
                if self._process.poll() is not None:
                    self.close()
                    code = self._process.returncode
                    message = f"RequestId: {request_id} Error: Runtime exited: {code}"
                    raise FunctionError({"errorType": "Runtime.ExitError", "errorMessage": message})
                if time.monotonic() > until:
                    self.close()
                    raise TimedOut(f"Task timed out after {self.timeout_s:.2f} seconds")
            kind, body = self._answers.pop(request_id)
        if kind == "error":
            raise FunctionError(json.loads(body))
        return json.loads(body)

    @property
    def alive(self) -> bool:
        """Whether another event can be taken."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process, for tests that break it."""
        return self._process.pid

    def log_text(self) -> str:
        """Everything the function printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End the process and the server."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._server.shutdown()
        self._server.server_close()

    def _why(self) -> str:
        error = (self._init_error or b"").decode("utf-8", "replace")
        return f"{self.function}: {error} {self.log_text()[-3000:]}"

    def _requests(self) -> type[http.server.BaseHTTPRequestHandler]:
        sandbox = self

        class Requests(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # One segment per answer: otherwise delayed acknowledgements cost 88 ms an event.
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_GET(self) -> None:
                sandbox._ready.set()
                if self.path == f"{API}/restore/next":
                    sandbox._restored.wait()
                    self._answer(200, b"", {})
                    return
                sandbox._waiting.set()
                request_id, body = sandbox._pending.get()
                deadline = str(int((time.time() + sandbox.timeout_s) * 1000))
                self._answer(
                    200,
                    body,
                    {
                        "Lambda-Runtime-Aws-Request-Id": request_id,
                        "Lambda-Runtime-Deadline-Ms": deadline,
                        "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:eu-central-1:"
                        f"000000000000:function:docstokg-test-{sandbox.function}:1",
                        "Lambda-Runtime-Trace-Id": "Root=1-00000000-000000000000000000000000",
                    },
                )

            def do_POST(self) -> None:
                body = self._body()
                *_, request_id, kind = self.path.split("/")
                if self.path == f"{API}/init/error":
                    sandbox._init_error = body
                elif kind in ("response", "error"):
                    if self.headers.get("Lambda-Runtime-Function-Response-Mode") == "streaming":
                        head, _, tail = body.partition(b"\0" * 8)
                        body = json.dumps(json.loads(head) | {"body": tail.decode()}).encode()
                    with sandbox._answered:
                        sandbox._answers[request_id] = (kind, body)
                        sandbox._answered.notify_all()
                self._answer(202, b"{}", {})

            def _body(self) -> bytes:
                if length := self.headers.get("Content-Length"):
                    return self.rfile.read(int(length))
                parts = []
                while (size := int(self.rfile.readline().strip() or b"0", 16)) > 0:
                    parts.append(self.rfile.read(size))
                    sandbox.heard(parts[-1])
                    self.rfile.readline()
                while trailer := self.rfile.readline().strip():
                    parts.append(trailer)
                return b"".join(parts)

            def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Requests


class Fleet:
    """The functions of one deployment as sandboxes, each started when it is first called."""

    def __init__(
        self,
        folders: Folders,
        logs: Path,
        *,
        variables: Mapping[str, Mapping[str, str]],
        timeouts: Mapping[str, float],
    ) -> None:
        """`variables` and `timeouts`: per function."""
        self._folders, self._logs = folders, logs
        self._variables, self._timeouts = variables, timeouts
        self._sandboxes: dict[str, Sandbox] = {}
        self._locks = {name: threading.Lock() for name in variables}
        logs.mkdir(parents=True, exist_ok=True)

    def sandbox(self, function: str) -> Sandbox:
        """Give the running sandbox of a function, a new one after a timeout or a crash."""
        sandbox = self._sandboxes.get(function)
        if sandbox is None or not sandbox.alive:
            sandbox = Sandbox(
                function,
                self._folders,
                self._logs / f"{function}.log",
                variables=self._variables[function],
                timeout_s=self._timeouts[function],
            )
            self._sandboxes[function] = sandbox
        return sandbox

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke as the state machine does: one event at a time, errors by their reported name."""
        with self._locks[function]:
            try:
                return self.sandbox(function).invoke(event)
            except FunctionError as error:
                raise error.named() from error
            except TimedOut as error:
                raise type("Sandbox.Timedout", (Exception,), {})(str(error)) from error

    def log_text(self) -> str:
        """Everything all functions printed."""
        return "\n".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(self._logs.glob("*.log"))
        )

    def close(self) -> None:
        """End every sandbox."""
        for sandbox in self._sandboxes.values():
            sandbox.close()
