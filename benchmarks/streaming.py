"""Streamed answers of a model with ten tokens per second, and clients that disconnect.

    python -m benchmarks.streaming [--questions 10] [--leavers 200] [--at-once 10]

Starts `docstokg serve` over a small corpus and a model server that streams a word a tenth of a
second. Prints median times to the citations, the first checked sentence and the end; whether
sentences and repairs equal the answer; and the model calls, threads and sockets that remain after
clients disconnect after the first sentence.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx

from tests.streaming_model import StreamingModel, streaming

COMPANY = Path(__file__).parent / "own_company"
ANSWER = (
    "Full-time staff have 28 days of paid holiday [1]. Part-time staff have the same, in "
    "proportion to their hours [1]. Up to six days may be carried into the next year [1]. They "
    "lapse at the end of March [1]. The notice period is one month in the first two years [2]."
)
ASKED = {
    "query": "How many days of holiday do full-time staff have?",
    "synthesis": {"enabled": True, "model": "gateway/tiny"},
    "budget": {"max_tokens_gen": 400, "timeout_s": 25},
}


def main() -> None:
    """Start both servers, ask, and disconnect."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--questions", type=int, default=10)
    arguments.add_argument("--leavers", type=int, default=200)
    arguments.add_argument("--at-once", type=int, default=10)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, streaming(StreamingModel(ANSWER)) as model:
        model.piece_s = 0.1
        store = f"sqlite:///{folder}/store.sqlite"
        stores = ["--index", store, "--graph", store]
        command = [str(Path(sys.executable).with_name("docstokg"))]
        subprocess.run([*command, "load", str(COMPANY), *stores, "--yes"], check=True)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        variables = {
            "DOCSTOKG_LLM_BASE_URL": model.url,
            "DOCSTOKG_MODELS": "gateway/tiny,extractive",
        }
        server = subprocess.Popen(
            [*command, "serve", "--port", str(port), "--workers", "1", *stores],
            env={**os.environ, **variables},
        )
        try:
            _wait(port)
            _times(port, options.questions)
            for _ in range(2):  # thread pools grow once
                _leave(port, server.pid, model, options.leavers, options.at_once)
        finally:
            server.terminate()
            server.wait(60)


def _wait(port: int) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/v1/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit("the server did not start")


def _times(port: int, count: int) -> None:
    rows = []
    for _ in range(count):
        began = time.perf_counter()
        seen: dict[str, float] = {}
        texts: dict[int, str] = {}
        repairs, answer, name = 0, "", ""
        headers = {"Accept": "text/event-stream"}
        url = f"http://127.0.0.1:{port}/v1/answer"
        with httpx.stream("POST", url, json=ASKED, headers=headers, timeout=60) as reply:
            for line in reply.iter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                    seen.setdefault(name, time.perf_counter() - began)
                elif line.startswith("data: "):
                    value = json.loads(line[6:])
                    repairs += name == "repair"
                    if name in ("sentence", "repair"):
                        texts[value["index"]] = value["text"]
                    elif name == "response":
                        answer = value["answer"]
        same = "".join(texts[place] for place in sorted(texts)) == answer == ANSWER
        rows.append((seen["citations"], seen["sentence"], seen["response"], repairs, same))
    for place, name in enumerate(("citations", "first sentence", "end")):
        print(f"{name}: median {statistics.median(row[place] for row in rows):.2f} s")
    print(f"repairs {sum(row[3] for row in rows)}; equal {sum(row[4] for row in rows)} of {count}")


def _leave(port: int, pid: int, model: StreamingModel, count: int, at_once: int) -> None:
    body = json.dumps(ASKED).encode()
    head = (
        f"POST /v1/answer HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    refused = 0
    lock = threading.Lock()

    def leave(_: int) -> None:
        nonlocal refused
        with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
            connection.sendall(head + body)
            seen = b""
            while b"event: sentence" not in seen:
                part = connection.recv(65536)
                seen += part
                if not part or seen.startswith(b"HTTP/1.1 503"):
                    with lock:
                        refused += 1
                    return

    remaining, before = model.left, _open(pid)
    with ThreadPoolExecutor(at_once) as clients:
        list(clients.map(leave, range(count)))
    began = time.perf_counter()
    while model.open_calls and time.perf_counter() - began < 30:
        time.sleep(0.05)
    waited = time.perf_counter() - began
    time.sleep(6)  # kept-alive connections end
    print(
        f"{count} left, {refused} refused; calls cut off {model.left - remaining}, open "
        f"{model.open_calls} after {waited:.2f} s; threads, sockets {before} -> {_open(pid)}"
    )


def _open(pid: int) -> tuple[int, int]:
    """Return the number of threads and sockets of a process."""
    links = [str(Path(entry.path).readlink()) for entry in os.scandir(f"/proc/{pid}/fd")]
    threads = len(list(os.scandir(f"/proc/{pid}/task")))
    return threads, sum(link.startswith("socket:") for link in links)


if __name__ == "__main__":
    main()
