"""Processes and ports of this machine: who lives, who listens, what others may enter."""

from __future__ import annotations

import contextlib
import http.client
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.jvm.programs import Engine

TEST_PORTS: Final = range(20_000, 30_000)  # below what systems give to outgoing connections


def ready(engine: Engine, port: int) -> bool:
    """Tell whether the server answers: a health request, or the Bolt handshake."""
    if engine is Engine.OPENSEARCH:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            line.request("GET", "/_cluster/health?wait_for_status=yellow&timeout=1s")
            return line.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            line.close()
    try:  # the Bolt handshake: magic, four proposed versions; the server answers with one
        with socket.create_connection(("127.0.0.1", port), timeout=2) as bolt:
            bolt.sendall(bytes.fromhex("6060b017 00080805 00020404 00000003 00000000"))
            return len(bolt.recv(4)) == 4
    except OSError:
        return False


def port_open(port: int) -> bool:
    """Tell whether something listens on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def port_closes(port: int, seconds: float) -> bool:
    """Wait until nothing listens any more."""
    until = time.monotonic() + seconds
    while port_open(port):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def free_port() -> int:
    """Find a loopback port that nothing listens on now."""
    while True:
        port = secrets.choice(TEST_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def born(pid: int) -> str:
    """Tell this process from a later one with the same number; "" when it is gone."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text("utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return ""
        return "" if fields[0] in {"Z", "X"} else fields[19]
    result = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return result.stdout.strip()


def alive(record: Mapping[str, Any]) -> bool:
    """Tell whether the recorded process, and no later one of its number, lives."""
    return bool(record["born"]) and born(int(record["pid"])) == record["born"]


def ends_within(record: Mapping[str, Any], seconds: float) -> bool:
    """Wait until the recorded process has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not alive(record):
            return True
        time.sleep(0.05)
    return False


def enterable(folder: Path) -> bool:
    """Tell whether any account may enter `folder`: it and all above grant x to others."""
    real = folder.resolve()
    return all(path.stat().st_mode & 0o001 for path in (real, *real.parents))
