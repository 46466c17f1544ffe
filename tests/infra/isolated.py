"""Run processes in a network namespace, and report their DNS queries, connections and files.

    unshare -rnm python -m tests.infra.isolated PLAN.json

The plan names environment variables and processes, of which two run at the same time: each has
`argv`, `seconds` (0: until it ends), `repeat` (start it again until the time is over) and
`until_query` (stop it at the first query). The resolver of the namespace is a socket on loopback
that records each query and answers that the name does not exist. With strace the report also lists
connections outside loopback and the files opened for writing.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CALLS = "connect,sendto,sendmsg,sendmmsg,open,openat,openat2,creat"
ADDRESS = re.compile(r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\("|inet_pton\(AF_INET6, ")([^"]+)"')
OPENED = re.compile(r'(?:open|openat|creat)\((?:AT_FDCWD, |\d+, )?"([^"]+)", ([A-Z_|]+)')
WRITING = re.compile(r"O_(WRONLY|RDWR|CREAT|APPEND)")


def isolation() -> list[str]:
    """Return the command that starts a process in a new network and mount namespace."""
    return ["unshare", "--map-root-user", "--net", "--mount"]


def run(plan: dict[str, Any], commands_dir: Path) -> dict[str, list[str]]:
    """Run the processes of a plan at the same time and return the report."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    resolver = commands_dir / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", encoding="ascii")
    subprocess.run(
        ["mount", "--bind", str(resolver), "/etc/resolv.conf"],
        check=True,
    )
    queries: list[str] = []
    answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    answering.bind(("127.0.0.1", 53))
    threading.Thread(target=_resolve, args=(answering, queries), daemon=True).start()
    # Nothing is inherited: on a CI machine (CI, a proxy) the vendor's telemetry is silent.
    environment = plan["environment"]
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(
                _run_process, process, environment, commands_dir / f"{number}.trace", queries
            )
            for number, process in enumerate(plan["processes"])
        ]
        outcomes = [job.result() for job in jobs]
    traces = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(commands_dir.glob("*.trace*"))
    )
    return {
        "queries": queries,
        "connections": sorted(_outside(traces)),
        "files": sorted(_traced_files(traces)),
        "failures": [text for text in outcomes if text],
    }


def _resolve(answering: socket.socket, queries: list[str]) -> None:
    while True:
        query, client = answering.recvfrom(4096)
        labels, position = [], 12
        while query[position]:
            labels.append(query[position + 1 : position + 1 + query[position]].decode("ascii"))
            position += 1 + query[position]
        queries.append(".".join(labels))
        answering.sendto(query[:2] + b"\x81\x83" + query[4:], client)


def _run_process(
    process: dict[str, Any], environment: dict[str, str], trace: Path, queries: list[str]
) -> str:
    """Return the error output of a process that failed, else an empty string."""
    strace = shutil.which("strace")
    prefix = [strace, "-f", "--seccomp-bpf", "-qq", "-e", f"trace={CALLS}"] if strace else []
    end = time.monotonic() + process["seconds"]
    for number in range(10_000):
        target = ["-o", f"{trace}{number}"] if strace else []
        child = subprocess.Popen(
            [*prefix, *target, *process["argv"]],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        endless = process["repeat"] or not process["seconds"]
        while True:
            try:
                _, errors = child.communicate(timeout=None if endless else 1)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > end or (process["until_query"] and queries):
                    os.killpg(child.pid, signal.SIGTERM)
                    child.communicate()
                    return ""
        if child.returncode:
            return errors.decode("utf-8", "replace")[-2000:]
        if not process["repeat"] or time.monotonic() > end:
            return ""
    return ""


def _outside(traces: str) -> set[str]:
    """Return the addresses outside loopback; a UDP socket bound to port 0 sends no packet."""
    return {
        f"{address}:{port}"
        for port, address in ADDRESS.findall(traces)
        if not address.startswith(("127.", "::1", "::ffff:127.")) and port != "0"
    }


def _traced_files(traces: str) -> set[str]:
    """Return the paths opened for writing, apart from devices and this process's own `/proc`."""
    return {
        path
        for path, flags in OPENED.findall(traces)
        if WRITING.search(flags) and not path.startswith(("/dev/", "/proc/"))
    }


if __name__ == "__main__":
    chosen = Path(sys.argv[1])
    print(json.dumps(run(json.loads(chosen.read_text(encoding="utf-8")), chosen.parent)))
