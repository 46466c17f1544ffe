"""The cells of the reliability report, run again: what is broken, and status, reason and time.

    python -m benchmarks.cells STORE --namespace N [--load FOLDER] [--out docs/cells.md]

STORE is a SQLite file (copied first). With --load FOLDER a real OpenSearch and Neo4j of this run's
own are started, loaded from it and broken one by one behind a proxy. A cell held when every answer
is one that was promised, none came later than its deadline and 0.3 s, and whole answers came back.
"""

import argparse
import concurrent.futures
import contextlib
import os
import re
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.load import FILE_FAULTS, LATE_S, Server, stores
from benchmarks.load_stores import Real
from docstokg_local.services.servers import Which

ASKERS = 8
TIMEOUTS_S = (1, 2, 4)
MOST_RECOVERY_S = 90.0
QUESTION = "Who founded the university where the author of the novel studied?"
PROMISED = {"200", "503 nothing_to_cite", "504 deadline_exceeded", "503 overloaded"}
NO_GRAPH = {"200", "503 overloaded"}
HEAD = (
    "| what is broken | requests | answers | reasons told | latest after its deadline, s"
    " | whole again after, s | held |\n" + "|---" * 7 + "|"
)
FILES = 1024
IDLE = 1100


@dataclass
class Cell:
    """What was heard while something was broken."""

    name: str
    promised: set[str]
    answers: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    over_s: float = -9.0
    recovery_s: float | None = None

    def hear(self, answer: httpx.Response | None, over_s: float) -> None:
        """Count one answer; None: none came."""
        self.over_s = max(self.over_s, over_s)
        if answer is None:
            self.answers["no answer"] += 1
            return
        body = answer.json()
        code = "" if answer.status_code == 200 else f" {body.get('code')}"
        self.answers[f"{answer.status_code}{code}"] += 1
        self.reasons.update((body.get("diagnostics") or {}).get("degraded_reasons") or ())

    def held(self) -> bool:
        """Tell whether nothing else than promised was heard, and in time."""
        again = self.recovery_s is None or self.recovery_s < MOST_RECOVERY_S
        return self.answers.keys() <= self.promised and self.over_s <= LATE_S and again

    def row(self) -> str:
        """Write it as a row of the table."""
        told = [
            ", ".join(f"{count} x {what}" for what, count in counts.most_common(5)) or "-"
            for counts in (self.answers, self.reasons)
        ]
        again = "-" if self.recovery_s is None else f"{self.recovery_s:.1f}"
        verdict = "yes" if self.held() else "**no**"
        count = sum(self.answers.values())
        cells = (self.name, str(count), *told, f"{self.over_s:+.2f}", again, verdict)
        return f"| {' | '.join(cells)} |"


def asked(
    url: str, namespace: str, timeout_s: int, route: str
) -> tuple[httpx.Response | None, float]:
    """Ask once; give the answer and how long after the deadline it came."""
    body: dict[str, Any] = {
        "query": f"{QUESTION} {time.monotonic_ns()}",
        "namespace": namespace,
        "budget": {"timeout_s": timeout_s},
    }
    if route == "answer":
        body["synthesis"] = {"enabled": True, "model": "extractive"}
        body["budget"]["max_tokens_gen"] = 300
    began, answer = time.monotonic(), None
    with contextlib.suppress(httpx.HTTPError):
        answer = httpx.post(f"{url}/v1/{route}", json=body, timeout=timeout_s + 10)
    return answer, time.monotonic() - began - timeout_s


def is_whole(url: str, namespace: str) -> bool:
    """Tell whether an answer has everything again."""
    answer, _ = asked(url, namespace, 4, "search")
    return (
        answer is not None
        and answer.status_code == 200
        and not answer.json()["diagnostics"]["degraded_reasons"]
    )


def broken(
    url: str, namespace: str, name: str, promised: set[str], fault: AbstractContextManager[None]
) -> Cell:
    """Ask while something is broken, and until it is whole again."""
    cell = Cell(name, promised)
    with concurrent.futures.ThreadPoolExecutor(ASKERS) as pool:
        with fault:
            tasks = [
                pool.submit(asked, url, namespace, timeout_s, route)
                for timeout_s in TIMEOUTS_S
                for route in ("search", "answer")
                for _ in range(ASKERS // 2)
            ]
            for task in tasks:
                cell.hear(*task.result())
        mended = time.monotonic()
        while not is_whole(url, namespace) and time.monotonic() - mended < MOST_RECOVERY_S:
            time.sleep(0.5)
        cell.recovery_s = time.monotonic() - mended
    print(cell.row(), flush=True)
    return cell


@contextmanager
def both(one: Callable[[], AbstractContextManager[None]], other: Any) -> Iterator[None]:
    """Break two things at once."""
    with one(), other():
        yield


def of_servers(url: str, namespace: str, real: Real) -> Iterator[Cell]:
    """Break OpenSearch, Neo4j and both."""
    faults = dict(real.faults())
    for which in Which:
        for mood in ("drip", "cut"):
            faults[f"{which} {mood}"] = partial(real.moody, which, mood)
    for name, fault in faults.items():
        promised = NO_GRAPH if name.startswith("neo4j") else PROMISED
        yield broken(url, namespace, name, promised, fault())
    stopped = [faults[f"{which} stopped"] for which in Which]
    yield broken(url, namespace, "both stopped", PROMISED, both(*stopped))


# --- what a stranger sends ------------------------------------------------------------------------


def raw(port: int, *parts: bytes, wait_s: float = 15.0) -> tuple[str, float]:
    """Send bytes; give the status lines heard and the seconds until the connection ended."""
    began, heard = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.settimeout(wait_s)
        with contextlib.suppress(OSError):
            for part in parts:
                stream.sendall(part)
        with contextlib.suppress(OSError):
            while data := stream.recv(65536):
                heard += data
        took = time.monotonic() - began
    told = Counter(status.decode() for status in re.findall(rb"HTTP/1\.1 (\d{3})", heard))
    return ", ".join(f"{n} x {status}" for status, n in told.items()) or "closed", took


def posted(*headers: str, body: bytes = b"") -> bytes:
    """Write a request."""
    lines = ["POST /v1/search HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def tls(port: int) -> tuple[str, float]:
    """Speak TLS to a port that does not."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=15) as stream:
        try:
            ssl.create_default_context().wrap_socket(stream, server_hostname="localhost")
        except (ssl.SSLError, OSError) as exc:
            return type(exc).__name__, time.monotonic() - began
    return "accepted", time.monotonic() - began


def of_strangers(port: int) -> Iterator[tuple[str, str, float]]:
    """Send what nobody should; give the name, what was heard, and the seconds it took."""
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    ask = b'{"query": "x"}'
    many = [f"X-{n}: {n}" for n in range(10_000)]
    pipelined = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50
    sent: dict[str, tuple[bytes, ...]] = {
        "a body of 10 MB": (posted(f"Content-Length: {10**7}", body=b"x" * 10**7),),
        "an endless body in chunks": (posted("Transfer-Encoding: chunked"), *[chunk] * 200),
        "10,000 headers": (posted(*many),),
        "a header of 5 MB": (posted("X-Long: " + "x" * 5_000_000),),
        "two lengths": (posted("Content-Length: 14", "Content-Length: 5", body=ask),),
        "length and chunks": (
            posted("Content-Length: 14", "Transfer-Encoding: chunked", body=ask),
        ),
        "50 requests at once on a connection": (pipelined,),
        "headers that never end": (b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n",),
        "a body that never comes": (posted("Content-Length: 14", body=b"{"),),
        "nothing at all": (),
    }
    for name, parts in sent.items():
        yield name, *raw(port, *parts)
    yield "TLS", *tls(port)
    began = time.monotonic()
    spaces = {"text": "A.\n" + " " * 31_990 + "x", "namespace": "nobody"}
    status = httpx.post(f"http://127.0.0.1:{port}/v1/check", json=spaces, timeout=30).status_code
    yield "32 kB of spaces to /v1/check", str(status), time.monotonic() - began
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(IDLE)]
    began, told = time.monotonic(), Counter[int]()
    for _ in range(16):
        told[httpx.get(f"http://127.0.0.1:{port}/v1/health", timeout=20).status_code] += 1
    heard = ", ".join(f"{n} x {status}" for status, n in told.items())
    yield f"16 asks beside {IDLE} idle sockets, {FILES} files", heard, time.monotonic() - began
    for one in idle:
        one.close()


def main() -> None:
    """Run every cell and write the page."""
    parser = argparse.ArgumentParser(description="The cells of the reliability report.")
    parser.add_argument("store")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--load", type=Path, help="folder loaded into real servers")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    cells: list[Cell] = []
    with stores(options) as (environment, _):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))
        server = Server(environment, 1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * FILES), hard))
        url = f"http://127.0.0.1:{server.port}"
        try:
            strangers = list(of_strangers(server.port))
            for name, fault in FILE_FAULTS.items():
                cells.append(
                    broken(
                        url, options.namespace, f"embedded {name}", PROMISED, fault(options.copy)
                    )
                )
        finally:
            server.close()
    if options.load is not None:
        options.store = "real"
        with stores(options) as (_, real):
            assert real is not None
            server = Server(real.through_proxies(), 1)
            try:
                is_whole(f"http://127.0.0.1:{server.port}", options.namespace)
                cells += of_servers(f"http://127.0.0.1:{server.port}", options.namespace, real)
            finally:
                server.close()
    text = [
        "# What is answered when something is broken",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load average"
        f" {os.getloadavg()[0]:.1f} at the end. {ASKERS} at once, deadlines of"
        f" {', '.join(map(str, TIMEOUTS_S))} s, half search, half answer by the extractive model."
        " `python -m benchmarks.cells`",
        "",
        HEAD,
        *(cell.row() for cell in cells),
        "",
        "| what a stranger sends | statuses heard | seconds |",
        "|---|---|---|",
        *(f"| {name} | {heard} | {took:.1f} |" for name, heard, took in strangers),
        "",
    ]
    options.out.write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
