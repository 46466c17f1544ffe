"""Load generator process: sends requests to a server and records the results.

    python -m benchmarks.load_client PORT QUESTIONS.jsonl --seconds 30 (--clients 8 | --rate 5)
                                     [--timeout 3] [--namespace N] [--key K] [--out FILE.csv]

With --clients, each client sends its next request after a response (closed loop); with --rate,
requests are sent at a constant rate regardless of responses (open loop). Every second request goes
to /v1/answer with the extractive model, the others to /v1/search. Two more requests per second go
to /v1/health. CSV: seconds since the start, route, HTTP status (0: no response), outcome, ms.
The last line of standard output is JSON: the processor time of this process, which shows
whether the generator is the bottleneck.
"""

import argparse
import asyncio
import csv
import itertools
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARGIN_S = 10.0
WHOLE = "whole"
KINDS = ("search", "answer")
IDLE_S = 4.0
"""Seconds after which a connection is not used again: the server closes it after five."""


@dataclass(frozen=True)
class Heard:
    """Result of one request; `outcome`: whole, the degraded reasons, or the problem's code."""

    at_s: float
    route: str
    status: int
    outcome: str
    ms: float


class Connection:
    """A connection that is reused until the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    async def exchange(self, request: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Send one request; without a response, return status 0 and the error's name as body."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(request)
        except (OSError, EOFError, ValueError, TimeoutError) as broken:
            self.close()
            return 0, type(broken).__name__.encode()

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if time.monotonic() - self._used > IDLE_S:
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        body = await reader.readexactly(length)
        self._used = time.monotonic()
        if b"connection: close" in head:
            self.close()
        return status, body

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Generator:
    """Sends requests in a loop and keeps the results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.heard: list[Heard] = []
        lines = Path(options.questions).read_text("utf-8").splitlines()
        questions = [str(json.loads(line)["question"])[:4000] for line in lines]
        random.Random(5).shuffle(questions)
        self._requests = self._endless(questions)
        self._began = time.monotonic()
        self._ends = self._began + options.seconds

    def _endless(self, questions: list[str]) -> Iterator[tuple[str, bytes]]:
        for number, question in enumerate(itertools.cycle(questions)):
            route = KINDS[number % 2]
            body: dict[str, object] = {
                # A number makes the question unique, so that its vector is not cached.
                "query": f"{question} {number}",
                "namespace": self._options.namespace,
                "budget": {"timeout_s": self._options.timeout},
            }
            if route == "answer":
                body["synthesis"] = {"enabled": True, "model": "extractive"}
                body["budget"] = {"timeout_s": self._options.timeout, "max_tokens_gen": 300}
            yield route, self._request_bytes("POST", f"/v1/{route}", json.dumps(body).encode())

    def _request_bytes(self, method: str, path: str, body: bytes = b"") -> bytes:
        key = f"X-Api-Key: {self._options.key}\r\n" if self._options.key else ""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def run(self) -> None:
        """Send requests until the time is over, and wait for the last responses."""
        tasks = [asyncio.create_task(self._health())]
        if self._options.rate:
            tasks.append(asyncio.create_task(self._steady()))
        else:
            tasks += [asyncio.create_task(self._client()) for _ in range(self._options.clients)]
        await asyncio.gather(*tasks)

    async def _client(self) -> None:
        connection = Connection(self._options.port)
        while time.monotonic() < self._ends:
            await self._send(connection, *next(self._requests))
        connection.close()

    async def _steady(self) -> None:
        idle: list[Connection] = []
        tasks: set[asyncio.Task[None]] = set()

        async def once() -> None:
            connection = idle.pop() if idle else Connection(self._options.port)
            await self._send(connection, *next(self._requests))
            idle.append(connection)

        due = self._began
        while due < self._ends:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            task = asyncio.create_task(once())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            due += 1 / self._options.rate
        await asyncio.gather(*tasks)
        for connection in idle:
            connection.close()

    async def _health(self) -> None:
        connection = Connection(self._options.port)
        request = self._request_bytes("GET", "/v1/health")
        while time.monotonic() < self._ends:
            await self._send(connection, "health", request)
            await asyncio.sleep(0.5)
        connection.close()

    async def _send(self, connection: Connection, route: str, request: bytes) -> None:
        started = time.monotonic()
        status, body = await connection.exchange(request, self._options.timeout + MARGIN_S)
        took = (time.monotonic() - started) * 1000
        heard = Heard(started - self._began, route, status, outcome(status, body), took)
        self.heard.append(heard)
        if status == 0:
            await asyncio.sleep(0.05)  # pause between attempts if the server is down


def outcome(status: int, body: bytes) -> str:
    """Return the outcome of a response."""
    if status == 0:
        return body.decode()
    try:
        reply = json.loads(body)
    except ValueError:
        return "no JSON"
    if status != 200:
        return str(reply.get("code", "problem"))
    reasons = (reply.get("diagnostics") or {}).get("degraded_reasons") or ()
    return " ".join(sorted(reasons)) or WHOLE


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Ask a server many questions.")
    parser.add_argument("port", type=int)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument(
        "--rate", type=float, default=0.0, help="requests per second, instead of --clients"
    )
    parser.add_argument("--timeout", type=float, default=3.0)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--key", default="")
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


def main() -> None:
    """Send requests, write the CSV and print the processor time."""
    options = arguments()
    generator = Generator(options)
    started = time.monotonic()
    asyncio.run(generator.run())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    stream = options.out.open("w", newline="", encoding="utf-8") if options.out else sys.stdout
    with stream:
        rows = csv.writer(stream)
        rows.writerow(("at_s", "route", "status", "outcome", "ms"))
        for heard in generator.heard:
            at, took = f"{heard.at_s:.3f}", f"{heard.ms:.1f}"
            rows.writerow((at, heard.route, heard.status, heard.outcome, took))
        if options.out:
            spent = {"cpu_s": round(usage.ru_utime + usage.ru_stime, 2)}
            print(json.dumps(spent | {"wall_s": round(time.monotonic() - started, 2)}))


if __name__ == "__main__":
    main()
