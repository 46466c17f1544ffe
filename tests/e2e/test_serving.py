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

from tests.builders import keyed, ran, refusal

pytestmark = pytest.mark.timeout(240)
ASK = {"query": "What are seizures in children?", "budget": {"timeout_s": 3}}
HEAVY = {**ASK, "top_k": 100}
CODE = "import sys; from docstokg_local.cli.commands import main; main()"


class Serving:
    """One server process on a free port."""

    def __init__(self, store: Path, cache: Path, *options: str, files: int = 0, **more: str):
        environment = {
            **os.environ,
            "DOCSTOKG_INDEX_URL": f"sqlite:///{store}",
            "DOCSTOKG_GRAPH_URL": f"sqlite:///{store}",
            "DOCSTOKG_CACHE_DIR": str(cache),
            **more,
        }

        limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d)); "
        code = (limit % (files, files) if files else "") + CODE
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", "--port", "0", *options],
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert self.process.stderr is not None
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"listening on http://([\d.]+):(\d+)", line):
                self.host, self.port = found[1], int(found[2])
                break
        else:  # it ended without listening
            self.process.stderr.close()
            self.process.wait(40)
            raise AssertionError("".join(self.said))
        self.url = f"http://{self.host}:{self.port}"
        self.rest: list[str] = []
        stream = self.process.stderr
        self.reader = threading.Thread(target=lambda: self.rest.extend(stream), daemon=True)
        self.reader.start()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(40)
        self.reader.join(5)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


FILES = 600  # a third of them may be connections


@pytest.fixture(scope="module")
def server(small_store, cache_dir, tmp_path_factory):
    keys = keyed(tmp_path_factory.mktemp("keys"), {"flood": {}, "second": {}})
    more = {f"DOCSTOKG_{name.upper()}": value for name, value in keys.items()}
    serving = Serving(small_store, cache_dir, "--workers", "1", files=FILES, **more)
    yield serving
    serving.stop()


def headers(name: str) -> dict[str, str]:
    return {"X-Api-Key": name}


def search_of(key: str, length: int, body: bytes, more: str = "") -> bytes:
    """Write a request as it is sent; `length`: what it says of its body."""
    head = (
        f"POST /v1/search HTTP/1.1\r\nHost: x\r\nX-Api-Key: {key}\r\nContent-Length: {length}\r\n"
    )
    return f"{head}Content-Type: application/json\r\n{more}\r\n".encode() + body


def whole(connection: socket.socket) -> bytes:
    """Read until the other side closes."""
    answer = b""
    while part := connection.recv(4096):
        answer += part
    return answer


def burst(server: Serving, many: int) -> list[tuple[int, str | None, dict]]:
    """Send so many searches before the first answer is read: status, Retry-After and body each."""
    heads = {**headers("flood"), "Content-Type": "application/json"}
    with contextlib.ExitStack() as stack:
        opened = [http.client.HTTPConnection(server.host, server.port, 60) for _ in range(many)]
        for one in opened:
            stack.callback(one.close)
            one.request("GET", "/v1/health")
        for one in opened:
            assert one.getresponse().read()
        for one in opened:
            one.request("POST", "/v1/search", json.dumps(HEAVY), heads)
        answers = []
        for one in opened:
            got = one.getresponse()
            answers.append((got.status, got.headers["Retry-After"], json.loads(got.read())))
        return answers


def test_a_flood_is_refused_at_once_and_leaves_another_caller_its_answers(server) -> None:
    """More at once than can be answered in time, on the fastest machine as well."""
    many = 90  # what one burst has not closed yet and the next together are not too many
    asked = {"url": f"{server.url}/v1/search", "headers": headers("second"), "timeout": 60}
    assert httpx.post(json=ASK, **asked).status_code == 200
    seconds: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        flood = pool.submit(lambda: [one for _ in range(4) for one in burst(server, many)])
        while not flood.done():
            seconds.append(httpx.post(json=ASK, **asked).status_code)
            assert httpx.get(f"{server.url}/v1/health", timeout=60).status_code == 200
            time.sleep(0.2)
        answers = flood.result()
    assert len(answers) == 4 * many
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


def test_a_connection_too_many_is_refused_as_every_other_request_is(server) -> None:
    asked = {"url": f"{server.url}/v1/search", "headers": headers("second"), "timeout": 60}
    with contextlib.ExitStack() as stack:
        for _ in range(FILES // 3):
            stack.enter_context(socket.create_connection((server.host, server.port), timeout=30))
        refused = httpx.post(json=ASK, **asked)
    assert refusal(refused) == (503, "overloaded")
    assert (refused.headers["Retry-After"], refused.headers["Connection"]) == ("1", "close")
    for _ in range(20):  # what was closed is noticed soon
        if (again := httpx.post(json=ASK, **asked)).status_code == 200:
            break
        time.sleep(0.2)
    assert again.status_code == 200


def test_a_body_that_never_comes_is_refused(server) -> None:
    with socket.create_connection((server.host, server.port), timeout=30) as one:
        one.sendall(search_of("second", 50, b"{"))
        answer = whole(one)
    assert b"400" in answer.split(b"\r\n")[0]
    assert b"body_too_slow" in answer


def test_headers_in_one_packet_are_bounded(server) -> None:
    long = httpx.get(f"{server.url}/v1/health", headers={"x-padding": "a" * 17_000})
    assert refusal(long) == (431, "headers_too_large")
    assert httpx.get(f"{server.url}/v1/health", headers={"x-padding": "a" * 9_000}).is_success
    many = httpx.get(f"{server.url}/v1/health", headers=[("a", "")] * 3_500)
    assert refusal(many) == (431, "headers_too_large")


def test_two_lengths_of_a_body_are_refused_and_the_connection_ends(server) -> None:
    smuggled = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=30) as one:
        chunked = "Transfer-Encoding: chunked\r\n"
        one.sendall(search_of("second", 40, b"0\r\n\r\n" + smuggled, chunked))
        answer = whole(one)
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1
    assert b"invalid_request" in answer


def test_slow_bodies_of_one_address_leave_room_for_others(server) -> None:
    with contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection((server.host, server.port), timeout=30))
            for _ in range(45)
        ]
        for one in slow:
            one.sendall(search_of("flood", 50, b"{"))
        time.sleep(1)
        refused = 0
        for one in slow:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                refused += b" 503 " in one.recv(4096).split(b"\r\n")[0]
        assert refused == len(slow) - 32
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=other) as client:
            found = client.post(f"{server.url}/v1/search", json=ASK, headers=headers("second"))
        assert found.status_code == 200


def served(client: Any, url: str = "") -> float:
    """Count the searches that were answered."""
    text = client.get(f"{url}/metrics", timeout=20, headers=headers("second")).text
    found = re.search(r'rag_requests_total\{.*route="search",status="200".*\} ([\d.]+)', text)
    return float(found[1]) if found else 0.0


def test_work_of_clients_who_hung_up_is_dropped(server) -> None:
    def begin() -> socket.socket:
        body = json.dumps({**ASK, "top_k": 100, "budget": {"timeout_s": 20}}).encode()
        one = socket.create_connection((server.host, server.port), timeout=20)
        one.sendall(search_of("flood", len(body), body))
        return one

    before = served(httpx, server.url)
    for one in [begin() for _ in range(40)]:
        one.close()
    time.sleep(2)
    assert served(httpx, server.url) - before < 20


def test_a_taken_port_is_said_and_nothing_listens(server, small_store, cache_dir) -> None:
    environment = {**os.environ, "DOCSTOKG_CACHE_DIR": str(cache_dir)}
    command = [sys.executable, "-c", CODE, "serve", "--port", server.port]
    done = ran(*command, timeout=60, env=environment)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{server.port}" in done.stderr
    assert "listening" not in done.stderr.replace("cannot listen", "")


def test_what_was_begun_is_finished(small_store, cache_dir) -> None:
    serving = Serving(small_store, cache_dir)
    httpx.post(f"{serving.url}/v1/search", json=ASK, timeout=30)

    async def run() -> list[int]:
        async with httpx.AsyncClient(base_url=serving.url, timeout=30) as client:
            asked = [asyncio.create_task(client.post("/v1/search", json=ASK)) for _ in range(4)]
            await asyncio.sleep(0.05)
            serving.process.send_signal(signal.SIGTERM)
            return [(await one).status_code for one in asked]

    assert asyncio.run(run()) == [200] * 4
    assert serving.stop() in (0, -signal.SIGTERM)
