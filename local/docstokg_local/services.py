"""A real OpenSearch and a real Neo4j on this machine, because only the real ones break really."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from docstokg.errors import DocsToKGError, Unavailable
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg_local.printing import say

DATA: Final = Path(__file__).parent / "services_data"
DEFAULT_CACHE: Final = Path.home() / ".cache" / "docstokg"
ROOT_CACHE: Final = Path("/var/cache/docstokg")  # the server's own account may not enter /root
SERVER_ACCOUNT: Final = "nobody"  # OpenSearch refuses to run as root
DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
MIN_JAVA: Final = 21
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 30.0
WARM_SECONDS: Final = 90.0
PORT_SECONDS: Final = 5.0  # a killed server's last threads still hold its port for a moment
TEST_PORTS: Final = range(20_000, 30_000)  # below what systems give to outgoing connections

Report = Callable[[str], None]


class Which(StrEnum):
    """The two servers."""

    OPENSEARCH = "opensearch"
    NEO4J = "neo4j"


DEFAULT_PORTS: Final[Mapping[Which, int]] = {Which.OPENSEARCH: 19200, Which.NEO4J: 17687}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server: where it listens, how to log in, which process it is."""

    url: str
    user: str
    password: str
    pid: int


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What a home folder holds now: `up`, `silent` (alive, not answering) or `down`."""

    which: Which
    state: str
    home: Path
    endpoint: Endpoint | None


class ServiceError(Exception):
    """The server cannot be started or stopped here; the message says what to do about it."""


def start(
    which: Which,
    home: Path,
    *,
    cache: Path = DEFAULT_CACHE,
    port: int | None = None,
    heap_mb: int = 512,
    java_home: Path | None = None,
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
    with _lock(home / ".lock"):
        record = _read_record(home)
        if record is not None and _alive(record):
            _wait_until_ready(which, home, record, report)
            return _endpoint(which, record)
        chosen = port or (record["port"] if record else DEFAULT_PORTS[which])
        if not _port_closes(chosen, PORT_SECONDS):
            raise ServiceError(
                f"port {chosen} on 127.0.0.1 is taken by another process; "
                f"choose another with --port or stop that process"
            )
        java = find_java(java_home)
        programs = fetch(which, services_folder(cache), report)
        setup = _Setup(programs, home, java, chosen, heap_mb, dict(extra or {}))
        launch = _opensearch_launch(setup) if which is Which.OPENSEARCH else _neo4j_launch(setup)
        report(f"{which}: starting on 127.0.0.1:{chosen}")
        pid = _spawn(launch, home)
        record = {
            "pid": pid,
            "born": _born(pid),
            "port": chosen,
            "user": launch.user,
            "password": launch.password,
        }
        _write_record(home, record)
        _wait_until_ready(which, home, record, report)
        return _endpoint(which, record)


def stop(which: Which, home: Path, *, kill: bool = False, report: Report = lambda _: None) -> bool:
    """End exactly the process recorded in `home`; False when none runs.

    `kill` skips the graceful end (Neo4j takes 12 s for it). Raises `ServiceError` when the
    process outlives even SIGKILL.
    """
    record = _read_record(home)
    if record is None or not _alive(record):
        return False
    pid = int(record["pid"])
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)  # a stopped process cannot end gracefully
        os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
    if not _gone(record, STOP_SECONDS):
        report(f"{which}: process {pid} did not end in {STOP_SECONDS:.0f} s, killing it")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not _gone(record, STOP_SECONDS):
            raise ServiceError(f"{which}: process {pid} does not end")
    return True


def status(which: Which, home: Path) -> ServiceState:
    """Say what runs in `home` now; never start anything."""
    record = _read_record(home)
    if record is None or not _alive(record):
        return ServiceState(which, "down", home, None)
    state = "up" if _ready(which, int(record["port"])) else "silent"
    return ServiceState(which, state, home, _endpoint(which, record))


def services_folder(cache: Path) -> Path:
    """Name the folder of programs and default homes: `cache`/services where servers can read it.

    As root the OpenSearch server runs as another account, which cannot enter /root: then the
    folder is `ROOT_CACHE`/services.
    """
    cache.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0 and not _enterable(cache):
        return ROOT_CACHE / "services"
    return cache.resolve() / "services"


def default_home(which: Which, cache: Path = DEFAULT_CACHE) -> Path:
    """Name the home folder that `make services` uses."""
    return services_folder(cache) / "homes" / which


def missing(which: Which, cache: Path = DEFAULT_CACHE, java_home: Path | None = None) -> str | None:
    """Say in one sentence why the server cannot run here, or None; download nothing."""
    try:
        find_java(java_home)
    except ServiceError as error:
        return str(error)
    if not _fetched(which, services_folder(cache)) and shutil.which("mvn") is None:
        return f"{which} is not downloaded yet and Maven (mvn) is not on the PATH"
    return None


# --- programs ---------------------------------------------------------------------------------


def find_java(java_home: Path | None = None) -> Path:
    """Find the `java` of a JDK >= 21: the given one, else the newest; or raise `ServiceError`."""
    homes: list[Path] = [java_home] if java_home else []
    if not homes:
        on_path = shutil.which("java")
        homes = [Path(on_path).resolve().parent.parent] if on_path else []
        for pattern in (
            "/usr/lib/jvm/*",
            "/opt/java/*",
            "/opt/homebrew/opt/openjdk*",
            "/Library/Java/JavaVirtualMachines/*/Contents/Home",
            f"{Path.home()}/.sdkman/candidates/java/*",
        ):
            homes += sorted(Path("/").glob(pattern.lstrip("/")))
    found: list[tuple[int, str]] = []
    for folder in homes:
        java = folder / "bin" / "java"
        if java.exists() and (major := _java_major(folder)) >= MIN_JAVA:
            found.append((major, str(java)))
    if not found:
        raise ServiceError(
            f"no JDK {MIN_JAVA} or newer found; install one (for instance the package "
            f"openjdk-21-jdk-headless or Temurin 25) or name it with --java-home"
        )
    return Path(max(found)[1])


def _java_major(folder: Path) -> int:
    release = folder / "release"
    text = release.read_text("utf-8", "replace") if release.exists() else ""
    if match := re.search(r'JAVA_VERSION="(\d+)', text):
        return int(match.group(1))
    asked = subprocess.run(  # a distribution may ship no release file
        [folder / "bin" / "java", "-version"], capture_output=True, text=True, check=False
    )
    match = re.search(r'version "(\d+)', asked.stderr)
    return int(match.group(1)) if match else 0


def fetch(which: Which, folder: Path, report: Report) -> Path:
    """Give the folder with the server's programs, downloaded through Maven the first time."""
    target = _programs(which, folder)
    if _fetched(which, folder):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / f".{which}.lock"):
        if _fetched(which, folder):  # another process fetched it while this one waited
            return target
        if shutil.which("mvn") is None:
            raise ServiceError(
                f"{which} is not in {folder} and Maven (mvn) is not on the PATH; "
                f"install Maven, or copy a filled {folder.name} folder from another machine"
            )
        part = target.with_name(target.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        report(f"{which}: downloading {_pinned(which)['version']} (once, about 100 to 150 MB)")
        if which is Which.OPENSEARCH:
            _fetch_opensearch(part, report)
        else:
            _fetch_neo4j(part, report)
        for path in (part, *part.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        (target / ".complete").touch()
    return target


def _pinned(which: Which) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / f"{which}.json").read_text("utf-8"))
    return loaded


def _programs(which: Which, folder: Path) -> Path:
    pins = {name: value for name, value in _pinned(which).items() if name != "settings"}
    text = json.dumps(pins, sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]  # other pins, other folder
    return folder / f"{which}-{_pinned(which)['version']}-{mark}"


def _fetched(which: Which, folder: Path) -> bool:
    return (_programs(which, folder) / ".complete").exists()


def _maven(pom: str, goal: str, work: Path, report: Report) -> None:
    (work / "pom.xml").write_text(pom, "utf-8")
    log = work / "maven.log"
    with log.open("w", encoding="utf-8") as sink:
        running = subprocess.Popen(
            ["mvn", "-B", "-Dstyle.color=never", "-f", work / "pom.xml", *goal.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
        assert running.stdout is not None
        files, told = 0, time.monotonic()
        with running.stdout as lines:
            for line in lines:
                sink.write(line)
                files += "Downloaded from" in line and ".jar" in line
                if time.monotonic() - told > 5:
                    told = time.monotonic()
                    report(f"  {files} archives so far")
        code = running.wait()
    if code != 0:
        last = [line for line in log.read_text("utf-8").splitlines() if "ERROR" in line][:3]
        raise ServiceError(
            f"the download failed (mvn exit {code}, log {log}): {' '.join(last) or 'no message'}"
        )


def _fetch_opensearch(part: Path, report: Report) -> None:
    pins = _pinned(Which.OPENSEARCH)

    def items(goal: str) -> str:
        rows = []
        for folder, coordinates in pins[goal].items():
            for coordinate in coordinates:
                group, artifact, version, *kind = coordinate.format(**pins["versions"]).split(":")
                rows.append(
                    f"<artifactItem><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
                    f"<version>{version}</version><type>{kind[0] if kind else 'jar'}</type>"
                    f"<outputDirectory>{part / folder}</outputDirectory></artifactItem>"
                )
        return "".join(rows)

    def execution(goal: str) -> str:
        return (
            f"<execution><id>{goal}</id><phase>package</phase><goals><goal>{goal}</goal></goals>"
            f"<configuration><markersDirectory>{part / 'markers'}</markersDirectory>"
            f"<artifactItems>{items(goal)}</artifactItems></configuration></execution>"
        )

    group, artifact, version = DEPENDENCY_PLUGIN.split(":")
    _maven(
        "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
        "<artifactId>opensearch-home</artifactId><version>1</version><packaging>pom</packaging>"
        f"<build><plugins><plugin><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><executions>{execution('copy')}{execution('unpack')}"
        "</executions></plugin></plugins></build></project>",
        "package",
        part,
        report,
    )
    version = pins["versions"]["server"]
    for folder, (name, main, extended) in pins["descriptors"].items():
        # The module archives carry no descriptor: it is written by the server's own build.
        (part / folder / "plugin-descriptor.properties").write_text(
            f"name={name}\ndescription={name}\nversion={version}\nopensearch.version={version}\n"
            f"java.version={MIN_JAVA}\nclassname={main}\nextended.plugins={extended}\n"
            "has.native.controller=false\n",
            "utf-8",
        )
    # k-NN only offers transport-grpc an extension, and that module is not published: not needed.
    descriptor = part / "plugins" / "opensearch-knn" / "plugin-descriptor.properties"
    text = descriptor.read_text("utf-8")
    descriptor.write_text(
        re.sub(r"(?m)^extended\.plugins=.*$", "extended.plugins=lang-painless", text), "utf-8"
    )
    for name in ("bin", "config", "extensions"):  # looked at, and created when absent
        (part / name).mkdir()


def _fetch_neo4j(part: Path, report: Report) -> None:
    group, artifact, version = _pinned(Which.NEO4J)["coordinate"].split(":")
    _maven(
        "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
        "<artifactId>neo4j-home</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies><dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency></dependencies></project>",
        f"-Dmaven.artifact.threads=10 {DEPENDENCY_PLUGIN}:copy-dependencies "
        f"-DincludeScope=runtime -DoutputDirectory={part / 'lib'}",
        part,
        report,
    )


# --- launching --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Setup:
    programs: Path
    home: Path
    java: Path
    port: int
    heap_mb: int
    extra: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Launch:
    command: Sequence[str]
    env: Mapping[str, str]
    log: Path
    account: str | None
    user: str
    password: str


def _opensearch_launch(setup: _Setup) -> _Launch:
    programs, home = setup.programs, setup.home
    account = SERVER_ACCOUNT if os.geteuid() == 0 else None
    if account and not _enterable(home):
        raise ServiceError(
            f"OpenSearch does not run as root, and the account {account} cannot enter {home}; "
            f"choose a home below a folder that others may enter"
        )
    config, logs, tmp, data = (home / name for name in ("config", "logs", "tmp", "data"))
    for folder in (config, logs, tmp, data):
        folder.mkdir(exist_ok=True)
    shutil.copy(DATA / "log4j2.properties", config)
    settings = {
        "cluster.name": "docstokg",
        "node.name": "local",
        "path.data": str(data),
        "path.logs": str(logs),
        "network.host": "127.0.0.1",
        "http.port": str(setup.port),
        "transport.port": str(free_port()),
        "discovery.type": "single-node",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        "action.auto_create_index": "false",
        # A small heap is nearly full of garbage most of the time; requests must not fail for it.
        "indices.breaker.total.use_real_memory": "false",
        **setup.extra,
    }
    (config / "opensearch.yml").write_text(
        "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items()), "utf-8"
    )
    if account:
        owner = pwd.getpwnam(account)
        for folder in (config, logs, tmp, data):
            for path in (folder, *folder.rglob("*")):
                os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    command = [
        str(setup.java),
        f"-Xms{setup.heap_mb}m",
        f"-Xmx{setup.heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-XX:+AutoCreateSharedArchive",
        f"-XX:SharedArchiveFile={tmp}/classes.jsa",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        "-Dfile.encoding=UTF-8",
        f"-Djava.io.tmpdir={tmp}",
        "-Djava.awt.headless=true",
        "-Djna.nosys=true",
        f"-Djna.tmpdir={tmp}",
        "-Dlog4j.shutdownHookEnabled=false",
        "-Dlog4j2.disable.jmx=true",
        "-Dio.netty.noUnsafe=true",
        "-Dio.netty.noKeySetOptimization=true",
        f"-Dopensearch.path.home={programs}",
        f"-Dopensearch.path.conf={config}",
        "-Dopensearch.distribution.type=tar",
        "-Dopensearch.bundled_jdk=false",
        "--enable-native-access=ALL-UNNAMED",
        "-cp",
        f"{programs}/lib/*",
        "org.opensearch.bootstrap.OpenSearch",
    ]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp), "LANG": "C.UTF-8"}
    return _Launch(command, env, logs / "console.log", account, "", "")


def _neo4j_launch(setup: _Setup) -> _Launch:
    programs, home, java = setup.programs, setup.home, setup.java
    pins = _pinned(Which.NEO4J)
    for name in ("conf", "data", "logs", "run", "plugins", "import", "licenses", "tmp"):
        (home / name).mkdir(exist_ok=True)
    settings = {
        **pins["settings"],
        "server.bolt.listen_address": f"127.0.0.1:{setup.port}",
        "server.bolt.advertised_address": f"127.0.0.1:{setup.port}",
        "server.memory.heap.initial_size": f"{setup.heap_mb}m",
        "server.memory.heap.max_size": f"{setup.heap_mb}m",
        "server.memory.pagecache.size": "128m",
        **setup.extra,
    }
    (home / "conf" / "neo4j.conf").write_text(
        "".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8"
    )
    classpath = ["-cp", f"{programs}/lib/*", "--enable-native-access=ALL-UNNAMED"]
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NEO4J_HOME": str(home),
        "NEO4J_CONF": str(home / "conf"),
    }
    secret = home / "password"
    if not secret.exists():
        secret.touch(0o600)
        secret.write_text(secrets.token_urlsafe(18), "utf-8")
    password = secret.read_text("utf-8").strip()
    databases = home / "data" / "databases" / "system"
    if not databases.exists():
        done = subprocess.run(
            [
                str(java),
                "-Xmx128m",
                *classpath,
                "org.neo4j.cli.AdminTool",
                "dbms",
                "set-initial-password",
                password,
            ],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            told = (done.stderr or done.stdout).replace(password, "***")[-500:]
            raise ServiceError(f"neo4j: the password could not be set: {told}")
    command = [
        str(java),
        f"-Xms{setup.heap_mb}m",
        f"-Xmx{setup.heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-OmitStackTraceInFastThrow",
        "-Dfile.encoding=UTF-8",
        f"-Djava.io.tmpdir={home / 'tmp'}",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djdk.nio.maxCachedBufferSize=1024",
        "-Dlog4j2.disable.jmx=true",
        "-Dlog4j.layout.jsonTemplate.maxStringLength=32768",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/java.io=ALL-UNNAMED",
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        "--add-modules=jdk.incubator.vector",
        "--sun-misc-unsafe-memory-access=allow",
        *classpath,
        pins["main"],
        f"--home-dir={home}",
        f"--config-dir={home}/conf",
        "--console-mode",
    ]
    return _Launch(command, env, home / "logs" / "console.log", None, "neo4j", password)


def _spawn(launch: _Launch, home: Path) -> int:
    """Start detached from this process, so that it neither dies with it nor waits for it."""
    launch.log.unlink(missing_ok=True)
    account = pwd.getpwnam(launch.account) if launch.account else None
    begun = subprocess.run(
        [
            "/bin/sh",
            "-c",
            '(exec "$@") >"$0" 2>&1 </dev/null & echo $!',
            str(launch.log),
            *launch.command,
        ],
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


def _wait_until_ready(which: Which, home: Path, record: Mapping[str, Any], report: Report) -> None:
    begun = told = time.monotonic()
    while not _ready(which, int(record["port"])):
        now = time.monotonic()
        if not _alive(record):
            raise ServiceError(f"{which} ended while starting:\n{_tail(home)}")
        if now - begun > START_SECONDS:
            raise ServiceError(f"{which} is not up after {now - begun:.0f} s:\n{_tail(home)}")
        if now - told > 3:
            told = now
            report(f"{which}: waiting for it to answer, {now - begun:.0f} s")
        time.sleep(0.1)
    waited = time.monotonic() - begun
    report(f"{which}: up on 127.0.0.1:{record['port']}, process {record['pid']}, {waited:.1f} s")


def _tail(home: Path) -> str:
    log = home / "logs" / "console.log"
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else ["(no log)"]
    return "\n".join(lines[-25:])


# --- looking at processes and ports -----------------------------------------------------------


def _ready(which: Which, port: int) -> bool:
    if which is Which.OPENSEARCH:
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


def _port_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _port_closes(port: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while _port_open(port):
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


def _born(pid: int) -> str:
    """Tell this process from a later one with the same number; "" when it is gone."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text("utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return ""
        return "" if fields[0] in {"Z", "X"} else fields[19]
    asked = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()


def _alive(record: Mapping[str, Any]) -> bool:
    return bool(record["born"]) and _born(int(record["pid"])) == record["born"]


def _gone(record: Mapping[str, Any], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not _alive(record):
            return True
        time.sleep(0.05)
    return False


def _enterable(folder: Path) -> bool:
    """Tell whether any account may enter `folder`: it and all above grant x to others."""
    real = folder.resolve()
    return all(path.stat().st_mode & 0o001 for path in (real, *real.parents))


def _record_path(home: Path) -> Path:
    return home / "server.json"


def _read_record(home: Path) -> dict[str, Any] | None:
    path = _record_path(home)
    if not path.exists():
        return None
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


def _write_record(home: Path, record: Mapping[str, Any]) -> None:
    path = _record_path(home)
    fresh = path.with_suffix(".new")
    fresh.touch(0o600)
    fresh.write_text(json.dumps(record), "utf-8")
    fresh.replace(path)


def _endpoint(which: Which, record: Mapping[str, Any]) -> Endpoint:
    scheme = "http" if which is Which.OPENSEARCH else "bolt"
    return Endpoint(
        url=f"{scheme}://127.0.0.1:{record['port']}",
        user=str(record["user"]),
        password=str(record["password"]),
        pid=int(record["pid"]),
    )


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# --- the command ------------------------------------------------------------------------------


def warm_up(which: Which, endpoint: Endpoint, report: Report) -> None:
    """Run the product's own queries: the first of a fresh server take longer than a request may."""
    from docstokg.adapters.neo4j import Neo4jGraph
    from docstokg.adapters.opensearch import OpenSearchIndex

    port: OpenSearchIndex | Neo4jGraph
    if which is Which.OPENSEARCH:
        name = Settings.from_environment(os.environ).index_name
        port = OpenSearchIndex(url=endpoint.url, name=name, telemetry=Telemetry(level="ERROR"))
    else:
        port = Neo4jGraph(
            url=endpoint.url,
            user=endpoint.user,
            password=endpoint.password,
            telemetry=Telemetry(level="ERROR"),
        )
    begun = time.monotonic()
    try:
        while (left := WARM_SECONDS - (time.monotonic() - begun)) > 0:
            try:
                port.warm(left)
            except Unavailable:  # it accepts connections before its database is open
                time.sleep(0.5)
                continue
            report(f"{which}: warm after {time.monotonic() - begun:.1f} s")
            return
        report(f"{which}: not warm after {WARM_SECONDS:.0f} s; its first answers may come late")
    except DocsToKGError as error:
        report(f"{which}: not warm, its first answers may come late: {error}")
    finally:
        port.close()


def settings_lines(which: Which, home: Path, endpoint: Endpoint) -> Sequence[str]:
    """Write shell lines that point DocsToKG at the server; the password stays in its file."""
    if which is Which.OPENSEARCH:
        return [f"export DOCSTOKG_INDEX_URL={endpoint.url}"]
    return [
        f"export DOCSTOKG_GRAPH_URL={endpoint.url}",
        f"export DOCSTOKG_GRAPH_USER={endpoint.user}",
        f'export DOCSTOKG_GRAPH_PASSWORD="$(cat {home / "password"})"',
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do `start`, `stop` or `status`; settings go to stdout, progress to stderr."""
    parser = argparse.ArgumentParser(prog="python -m docstokg_local.services", description=__doc__)
    parser.add_argument("action", choices=["start", "stop", "status"])
    parser.add_argument("which", nargs="*", type=Which, help="opensearch, neo4j; default: both")
    configured = Path(Settings.from_environment(os.environ).cache_dir).expanduser()
    parser.add_argument("--cache-dir", type=Path, default=configured)
    parser.add_argument("--home", type=Path, help="folder for data and settings of one server")
    parser.add_argument("--port", type=int)
    parser.add_argument("--heap-mb", type=int, default=512)
    parser.add_argument("--java-home", type=Path)
    given = parser.parse_intermixed_args(arguments)
    chosen = given.which or list(Which)
    if len(chosen) > 1 and (given.home or given.port):
        parser.error("--home and --port go with one server")

    def report(line: str) -> None:
        say(line, err=True)

    bad = False
    for which in chosen:
        home = given.home or default_home(which, given.cache_dir)
        try:
            if given.action == "start":
                endpoint = start(
                    which,
                    home,
                    cache=given.cache_dir,
                    port=given.port,
                    heap_mb=given.heap_mb,
                    java_home=given.java_home,
                    report=report,
                )
                warm_up(which, endpoint, report)
                say("\n".join(settings_lines(which, home, endpoint)))
            elif given.action == "stop":
                report(f"{which}: {'stopped' if stop(which, home, report=report) else 'was down'}")
            else:
                seen = status(which, home)
                bad |= seen.state != "up"
                report(f"{which}: {seen.state} ({home})")
                if seen.endpoint:
                    say("\n".join(settings_lines(which, home, seen.endpoint)))
        except ServiceError as error:
            report(f"{which}: {error}")
            bad = True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
