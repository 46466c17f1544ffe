"""`docstokg serve` as a process: overload, silent sockets, hang-ups, the end."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders import eventually, keyed, ran, refusal

pytestmark = pytest.mark.timeout(240)
ASK = {"query": "What are seizures in children?", "budget": {"timeout_s": 3}}
HEAVY = {**ASK, "top_k": 100}
CODE = "import sys; from docstokg_local.cli.commands import main; main()"


class Serving:
    """One server process on a free port."""

    def __init__(self, store: Path, cache: Path, *options: str, files: int = 0, **overrides: str):
        url = f"sqlite:///{store}"
        variables = {"INDEX_URL": url, "GRAPH_URL": url, "CACHE_DIR": str(cache)}
        environment = {f"DOCSTOKG_{name}": value for name, value in variables.items()}
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {(files, files)}); "
        code = limit * bool(files) + CODE
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", "--port", "0", *options],
            stderr=subprocess.PIPE,
            env={**os.environ, **environment, **overrides},
            text=True,
        )
        assert self.process.stderr is not None
        self.stream = self.process.stderr
        said = ""
        for line in self.stream:
            said += line
            if match := re.search(r"listening on http://([\d.]+):(\d+)", line):
                self.host, self.port = match[1], int(match[2])
                break
        else:  # it ended without listening
            self.stream.close()
            self.process.wait(40)
            raise AssertionError(said)
        self.url = f"http://{self.host}:{self.port}"
        self.reader = threading.Thread(target=self.stream.read, daemon=True)
        self.reader.start()

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=30)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(40)
        self.reader.join(5)
        self.stream.close()
        return code


FILES = 600  # a third of them may be connections


@pytest.fixture(scope="module")
def server(small_store, cache_dir, tmp_path_factory):
    keys = keyed(tmp_path_factory.mktemp("keys"), {"flood": {}, "second": {}})
    variables = {f"DOCSTOKG_{name.upper()}": value for name, value in keys.items()}
    serving = Serving(small_store, cache_dir, "--workers", "1", files=FILES, **variables)
    yield serving
    serving.stop()


def headers(name: str) -> dict[str, str]:
    return {"X-Api-Key": name}


def search_of(key: str, length: int, body: bytes, extra_headers: str = "") -> bytes:
    """Return the bytes of a request; `length`: its Content-Length."""
    head = (
        f"POST /v1/search HTTP/1.1\r\nHost: x\r\nX-Api-Key: {key}\r\nContent-Length: {length}\r\n"
    )
    return f"{head}Content-Type: application/json\r\n{extra_headers}\r\n".encode() + body


def reply_to(server: Serving, request: bytes) -> bytes:
    """Send a request and read until the other side closes."""
    answer = b""
    with server.connect() as connection:
        connection.sendall(request)
        while part := connection.recv(4096):
            answer += part
    return answer


def burst(server: Serving, count: int) -> list[tuple[int, str | None, dict]]:
    """Send so many searches before the first answer is read: status, Retry-After and body each."""
    heads = {**headers("flood"), "Content-Type": "application/json"}
    with contextlib.ExitStack() as stack:
        opened = [http.client.HTTPConnection(server.host, server.port, 60) for _ in range(count)]
        for connection in opened:
            stack.callback(connection.close)
            connection.request("GET", "/v1/health")
        for connection in opened:
            assert connection.getresponse().read()
        for connection in opened:
            connection.request("POST", "/v1/search", json.dumps(HEAVY), heads)
        answers = []
        for connection in opened:
            got = connection.getresponse()
            answers.append((got.status, got.headers["Retry-After"], json.loads(got.read())))
        return answers


def test_a_flood_does_not_affect_another_caller(server) -> None:
    """More at once than can be answered in time, on the fastest machine as well."""
    count = 90  # what one burst has not closed yet and the next together are not too many
    request = {"url": f"{server.url}/v1/search", "headers": headers("second"), "timeout": 60}
    assert httpx.post(json=ASK, **request).status_code == 200
    seconds: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        flood = pool.submit(lambda: [answer for _ in range(4) for answer in burst(server, count)])
        while not flood.done():
            seconds.append(httpx.post(json=ASK, **request).status_code)
            assert httpx.get(f"{server.url}/v1/health", timeout=60).status_code == 200
            time.sleep(0.2)
        answers = flood.result()
    assert len(answers) == 4 * count
    assert {status for status, _, _ in answers} <= {200, 503, 504}
    refused = [(retry, body) for status, retry, body in answers if status == 503]
    assert refused
    assert {body["code"] for _, body in refused} == {"overloaded"}
    assert all(int(retry or 0) >= 1 for retry, _ in refused)
    accepted = [body for status, _, body in answers if status == 200]
    assert len(accepted) > 5
    whole = sum(not body["diagnostics"]["degraded"] for body in accepted)
    assert whole >= 0.9 * len(accepted)
    assert len(seconds) >= 3
    assert sum(status == 200 for status in seconds) >= 0.8 * len(seconds)


def test_an_excess_connection_is_refused_like_any_request(server) -> None:
    request = {"url": f"{server.url}/v1/search", "headers": headers("second"), "timeout": 60}
    with contextlib.ExitStack() as stack:
        for _ in range(FILES // 3):
            stack.enter_context(server.connect())
        refused = httpx.post(json=ASK, **request)
    assert refusal(refused) == (503, "overloaded")
    assert (refused.headers["Retry-After"], refused.headers["Connection"]) == ("1", "close")
    # What was closed is noticed soon.
    assert eventually(lambda: httpx.post(json=ASK, **request).status_code == 200, 10)


def test_a_body_that_never_comes_is_refused(server) -> None:
    answer = reply_to(server, search_of("second", 50, b"{"))
    assert b"400" in answer.split(b"\r\n")[0]
    assert b"body_too_slow" in answer


def test_headers_in_one_packet_are_bounded(server) -> None:
    address = f"{server.url}/v1/health"
    for headers in ([("x-padding", "a" * 17_000)], [("a", "")] * 3_500):
        assert refusal(httpx.get(address, headers=headers)) == (431, "headers_too_large")
    assert httpx.get(address, headers={"x-padding": "a" * 9_000}).is_success


def test_a_refused_second_body_length_ends_the_connection(server) -> None:
    smuggled = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    chunked = "Transfer-Encoding: chunked\r\n"
    answer = reply_to(server, search_of("second", 40, b"0\r\n\r\n" + smuggled, chunked))
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1
    assert b"invalid_request" in answer


def test_slow_bodies_of_an_address_leave_others_room(server) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(45)]
        for connection in slow:
            connection.sendall(search_of("flood", 50, b"{"))
        time.sleep(1)
        refused = 0
        for connection in slow:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                refused += b" 503 " in connection.recv(4096).split(b"\r\n")[0]
        assert refused == len(slow) - 32
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=other) as client:
            reply = client.post(f"{server.url}/v1/search", json=ASK, headers=headers("second"))
        assert reply.status_code == 200


def served(client: Any, url: str = "") -> float:
    """Count the searches that were answered."""
    text = client.get(f"{url}/metrics", timeout=20, headers=headers("second")).text
    match = re.search(r'rag_requests_total\{.*route="search",status="200".*\} ([\d.]+)', text)
    return float(match[1]) if match else 0.0


def test_work_of_clients_who_hung_up_is_dropped(server) -> None:
    def begin() -> socket.socket:
        body = json.dumps({**HEAVY, "budget": {"timeout_s": 20}}).encode()
        connection = server.connect()
        connection.sendall(search_of("flood", len(body), body))
        return connection

    before = served(httpx, server.url)
    for connection in [begin() for _ in range(40)]:
        connection.close()
    time.sleep(2)
    assert served(httpx, server.url) - before < 20


def test_a_taken_port_is_said_and_nothing_listens(server, small_store, cache_dir) -> None:
    environment = {**os.environ, "DOCSTOKG_CACHE_DIR": str(cache_dir)}
    command = [sys.executable, "-c", CODE, "serve", "--port", server.port]
    done = ran(*command, timeout=60, env=environment)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{server.port}" in done.stderr
    assert "listening" not in done.stderr.replace("cannot listen", "")


def test_begun_requests_are_finished(small_store, cache_dir) -> None:
    serving = Serving(small_store, cache_dir)
    httpx.post(f"{serving.url}/v1/search", json=ASK, timeout=30)

    async def run() -> list[int]:
        async with httpx.AsyncClient(base_url=serving.url, timeout=30) as client:
            tasks = [asyncio.create_task(client.post("/v1/search", json=ASK)) for _ in range(4)]
            await asyncio.sleep(0.05)
            serving.process.send_signal(signal.SIGTERM)
            return [(await task).status_code for task in tasks]

    assert asyncio.run(run()) == [200] * 4
    assert serving.stop() in (0, -signal.SIGTERM)
