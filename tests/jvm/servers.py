"""A real OpenSearch and a real Neo4j on this machine, because only the real ones break really."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Unavailable
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg_local.cli.printing import echo
from tests.jvm.launches import Launch, LaunchSpec, neo4j_launch, opensearch_launch
from tests.jvm.processes import alive, born, ends_within, enterable, free_port, port_closes, ready
from tests.jvm.programs import Engine, Report, ServiceError, fetch, fetched, find_java, locked

__all__ = ["Endpoint", "Engine", "ServiceError", "free_port", "start", "status", "stop"]

DEFAULT_CACHE: Final = Path.home() / ".cache" / "docstokg"
ROOT_CACHE: Final = Path("/var/cache/docstokg")  # the server's own account may not enter /root
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 30.0
WARM_SECONDS: Final = 90.0
PORT_SECONDS: Final = 5.0  # a killed server's last threads still hold its port for a moment

DEFAULT_PORTS: Final[Mapping[Engine, int]] = {Engine.OPENSEARCH: 19200, Engine.NEO4J: 17687}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server: where it listens, how to log in, which process it is."""

    url: str
    user: str
    password: str
    pid: int


@dataclass(frozen=True, slots=True)
class ServiceState:
    """State of a home folder: `up`, `silent` (alive, not answering) or `down`."""

    state: str
    endpoint: Endpoint | None


def start(
    engine: Engine,
    home: Path,
    *,
    cache: Path = DEFAULT_CACHE,
    port: int | None = None,
    heap_mb: int = 512,
    extra: Mapping[str, str] | None = None,
    report: Report = lambda _line: None,
) -> Endpoint:
    """Start the server kept in `home`, or return it when it already answers.

    `cache` is DocsToKG's cache folder; the programs are downloaded once into its `services`
    folder and shared by every home. `port` defaults to the one used last in this home, then to
    `DEFAULT_PORTS`. `extra` adds lines to the server's own settings file. Raises `ServiceError`.
    """
    home.mkdir(parents=True, exist_ok=True)
    home = home.resolve()
    with locked(home / ".lock"):
        record = _read_record(home)
        if record is not None and alive(record):
            _wait_until_ready(engine, home, record, report)
            return _endpoint(engine, record)
        chosen = port or (record["port"] if record else DEFAULT_PORTS[engine])
        if not port_closes(chosen, PORT_SECONDS):
            raise ServiceError(
                f"port {chosen} on 127.0.0.1 is taken by another process; stop that process"
            )
        java = find_java()
        programs = fetch(engine, services_folder(cache), report)
        spec = LaunchSpec(programs, home, java, chosen, heap_mb, extra or {})
        launch = opensearch_launch(spec) if engine is Engine.OPENSEARCH else neo4j_launch(spec)
        report(f"{engine}: starting on 127.0.0.1:{chosen}")
        pid = _spawn(launch, home)
        record = {
            "pid": pid,
            "born": born(pid),
            "port": chosen,
            "user": launch.user,
            "password": launch.password,
        }
        _write_private(_record_path(home), record)
        _wait_until_ready(engine, home, record, report)
        return _endpoint(engine, record)


def stop(
    engine: Engine, home: Path, *, kill: bool = False, report: Report = lambda _: None
) -> bool:
    """End exactly the process recorded in `home`; False when none runs.

    `kill` skips the graceful end (Neo4j takes 12 s for it). Raises `ServiceError` when the
    process outlives even SIGKILL.
    """
    record = _read_record(home)
    if record is None or not alive(record):
        return False
    pid = int(record["pid"])
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)  # a stopped process cannot end gracefully
        os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
    if not ends_within(record, STOP_SECONDS):
        report(f"{engine}: process {pid} did not end in {STOP_SECONDS:.0f} s, killing it")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not ends_within(record, STOP_SECONDS):
            raise ServiceError(f"{engine}: process {pid} does not end")
    return True


def status(engine: Engine, home: Path) -> ServiceState:
    """Say what runs in `home` now; never start anything."""
    record = _read_record(home)
    if record is None or not alive(record):
        return ServiceState("down", None)
    state = "up" if ready(engine, int(record["port"])) else "silent"
    return ServiceState(state, _endpoint(engine, record))


def services_folder(cache: Path) -> Path:
    """Name the folder of programs and default homes: `cache`/services where servers can read it.

    As root the OpenSearch server runs as another account, which cannot enter /root: then the
    folder is `ROOT_CACHE`/services.
    """
    cache.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0 and not enterable(cache):
        return ROOT_CACHE / "services"
    return cache.resolve() / "services"


def missing(engine: Engine, cache: Path) -> str | None:
    """Say in one sentence why the server cannot run here, or None; download nothing."""
    try:
        find_java()
    except ServiceError as error:
        return str(error)
    if not fetched(engine, services_folder(cache)) and shutil.which("mvn") is None:
        return f"{engine} is not downloaded yet and Maven (mvn) is not on the PATH"
    return None


def _spawn(launch: Launch, home: Path) -> int:
    """Start detached from this process, so that it neither dies with it nor waits for it."""
    launch.log.unlink(missing_ok=True)
    account = pwd.getpwnam(launch.account) if launch.account else None
    shell = ["/bin/sh", "-c", '(exec "$@") >"$0" 2>&1 </dev/null & echo $!']
    begun = subprocess.run(
        [*shell, str(launch.log), *launch.command],
        cwd=home,
        env=dict(launch.env),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )
    return int(begun.stdout)


def _wait_until_ready(
    engine: Engine, home: Path, record: Mapping[str, Any], report: Report
) -> None:
    begun = reported_at = time.monotonic()
    while not ready(engine, int(record["port"])):
        now = time.monotonic()
        if not alive(record):
            raise ServiceError(f"{engine} ended while starting:\n{_tail(home)}")
        if now - begun > START_SECONDS:
            raise ServiceError(f"{engine} is not up after {now - begun:.0f} s:\n{_tail(home)}")
        if now - reported_at > 3:
            reported_at = now
            report(f"{engine}: waiting for it to answer, {now - begun:.0f} s")
        time.sleep(0.1)
    waited = time.monotonic() - begun
    report(f"{engine}: up on 127.0.0.1:{record['port']}, process {record['pid']}, {waited:.1f} s")


def _tail(home: Path) -> str:
    log = home / "logs" / "console.log"
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else ["(no log)"]
    return "\n".join(lines[-25:])


def _record_path(home: Path) -> Path:
    return home / "server.json"


def _read_record(home: Path) -> dict[str, Any] | None:
    path = _record_path(home)
    if not path.exists():
        return None
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


def _write_private(path: Path, record: Mapping[str, Any]) -> None:
    """Replace a file that only its owner may read: it holds a password."""
    fresh = path.with_suffix(".new")
    fresh.touch(0o600)
    fresh.write_text(json.dumps(record), "utf-8")
    fresh.replace(path)


def _endpoint(engine: Engine, record: Mapping[str, Any]) -> Endpoint:
    scheme = "http" if engine is Engine.OPENSEARCH else "bolt"
    return Endpoint(
        url=f"{scheme}://127.0.0.1:{record['port']}",
        user=str(record["user"]),
        password=str(record["password"]),
        pid=int(record["pid"]),
    )


def warm_up(engine: Engine, endpoint: Endpoint, report: Report) -> None:
    """Run the product's own queries: the first of a fresh server take longer than a request may."""
    from docstokg.adapters.neo4j.graph import Neo4jGraph
    from docstokg.adapters.opensearch.index import OpenSearchIndex

    port: OpenSearchIndex | Neo4jGraph
    telemetry = Telemetry(level="ERROR")
    if engine is Engine.OPENSEARCH:
        name = Settings.from_environment(os.environ).index_name
        port = OpenSearchIndex(url=endpoint.url, name=name, telemetry=telemetry)
    else:
        login: dict[str, Any] = {"user": endpoint.user, "password": endpoint.password}
        port = Neo4jGraph(url=endpoint.url, telemetry=telemetry, **login)
    begun, deadline = time.monotonic(), Deadline.after(WARM_SECONDS)
    try:
        while not deadline.is_over():
            try:
                port.warm(deadline)
            except Unavailable:  # it accepts connections before its database is open
                time.sleep(0.5)
                continue
            report(f"{engine}: warm after {time.monotonic() - begun:.1f} s")
            return
        report(f"{engine}: not warm after {WARM_SECONDS:.0f} s; its first answers may come late")
    except DocsToKGError as error:
        report(f"{engine}: not warm, its first answers may come late: {error}")
    finally:
        port.close()


def settings_lines(engine: Engine, home: Path, endpoint: Endpoint) -> Sequence[str]:
    """Write shell lines that point DocsToKG at the server; the password stays in its file."""
    if engine is Engine.OPENSEARCH:
        return [f"export DOCSTOKG_INDEX_URL={endpoint.url}"]
    return [
        f"export DOCSTOKG_GRAPH_URL={endpoint.url}",
        f"export DOCSTOKG_GRAPH_USER={endpoint.user}",
        f'export DOCSTOKG_GRAPH_PASSWORD="$(cat {home / "password"})"',
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do `start`, `stop` or `status`; settings go to stdout, progress to stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.jvm.servers", description=__doc__)
    parser.add_argument("action", choices=["start", "stop", "status"])
    parser.add_argument("engine", nargs="*", type=Engine, help="opensearch, neo4j; default: both")
    cache = Path(Settings.from_environment(os.environ).cache_dir).expanduser()
    options = parser.parse_intermixed_args(arguments)

    def report(line: str) -> None:
        echo(line, err=True)

    bad = False
    for engine in options.engine or list(Engine):
        home = services_folder(cache) / "homes" / engine
        try:
            if options.action == "start":
                endpoint = start(engine, home, cache=cache, report=report)
                warm_up(engine, endpoint, report)
                echo("\n".join(settings_lines(engine, home, endpoint)))
            elif options.action == "stop":
                was_up = stop(engine, home, report=report)
                report(f"{engine}: {'stopped' if was_up else 'was down'}")
            else:
                seen = status(engine, home)
                bad |= seen.state != "up"
                report(f"{engine}: {seen.state} ({home})")
                if seen.endpoint:
                    echo("\n".join(settings_lines(engine, home, seen.endpoint)))
        except ServiceError as error:
            report(f"{engine}: {error}")
            bad = True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
