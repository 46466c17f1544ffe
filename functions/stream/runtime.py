"""Lambda Runtime API client with response streaming.

See AWS "Using the Lambda runtime API for custom runtimes".
"""

import base64
import json
import os
import traceback
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from importlib import import_module
from typing import Any

from docstokg.observability import Telemetry

API = "/2018-06-01/runtime"
ERROR = "Lambda-Runtime-Function-Error-"
STREAMED = {
    "Content-Type": "application/vnd.awslambda.http-integration-response",
    "Lambda-Runtime-Function-Response-Mode": "streaming",
    "Transfer-Encoding": "chunked",
    "Trailer": f"{ERROR}Type, {ERROR}Body",
}


class Exchange:
    """An event and its reply; the handler's context."""

    def __init__(self, address: str, request_id: str) -> None:
        self._connection = HTTPConnection(address)
        self._path = f"{API}/invocation/{request_id}"
        self.is_begun, self._is_heard = False, True
        self.status = 200
        self.headers: Mapping[str, str] = {}

    def send(self, text: str | None) -> bool:
        """Send a part of the body (None: nothing), headers first; False if disconnected."""
        try:
            if text and not self.is_begun:
                self._begin()
            if text and self._is_heard:
                self._chunk(text)
        except OSError:
            self._is_heard = False
        return self._is_heard

    def _begin(self) -> None:
        self.is_begun = True
        self._connection.putrequest("POST", f"{self._path}/response")
        for header in STREAMED.items():
            self._connection.putheader(*header)
        self._connection.endheaders()
        head = {"statusCode": self.status, "headers": dict(self.headers)}
        self._chunk(json.dumps(head) + "\0" * 8)

    def _chunk(self, text: str) -> None:
        part = text.encode("utf-8", "surrogatepass")
        self._connection.send(b"%x\r\n%b\r\n" % (len(part), part))

    def end(self, error: Exception | None = None) -> None:
        """End the reply; report an error in the trailer, or as the result if nothing was sent."""
        kind = type(error).__name__
        report = json.dumps({"errorMessage": str(error), "errorType": kind})
        if not self.is_begun:
            self._connection.request("POST", f"{self._path}/error", report)
        elif self._is_heard:
            body = base64.b64encode(report.encode()).decode()
            lines = f"{ERROR}Type: {kind}\r\n{ERROR}Body: {body}\r\n" if error else ""
            self._connection.send(f"0\r\n{lines}\r\n".encode())
        if self._is_heard:
            self._connection.getresponse().read()
        self._connection.close()


def serve(handler: Callable[[Any, Exchange], dict[str, Any]], address: str) -> None:
    """Process events in an endless loop; log and report errors of the handler."""
    waiting = HTTPConnection(address)
    while True:
        waiting.request("GET", f"{API}/invocation/next")
        invocation = waiting.getresponse()
        event = json.loads(invocation.read())
        os.environ["_X_AMZN_TRACE_ID"] = invocation.headers.get("Lambda-Runtime-Trace-Id", "")
        exchange = Exchange(address, invocation.headers["Lambda-Runtime-Aws-Request-Id"])
        error = None
        try:
            reply = handler(event, exchange)
            if not exchange.is_begun:
                exchange.status, exchange.headers = reply["statusCode"], reply["headers"]
                exchange.send(reply["body"])
        except Exception as crash:  # noqa: BLE001 - reported to Lambda, like any error
            trace = traceback.format_tb(crash.__traceback__)
            Telemetry().log("ERROR", "crash", error=type(crash).__name__, trace=trace)
            error = crash
        exchange.end(error)


if __name__ == "__main__":
    module, _, name = os.environ["_HANDLER"].rpartition(".")
    serve(getattr(import_module(module), name), os.environ["AWS_LAMBDA_RUNTIME_API"])
