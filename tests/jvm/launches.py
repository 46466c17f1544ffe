"""How each server is started: its settings file, its command, its account."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.builders import ran
from tests.jvm.processes import enterable, free_port
from tests.jvm.programs import DATA, Engine, ServiceError, pinned

SERVER_ACCOUNT: Final = "nobody"  # OpenSearch refuses to run as root


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Parts of a server: programs, its folder, a JDK, a port, its heap."""

    programs: Path
    home: Path
    java: Path
    port: int
    heap_mb: int
    extra: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of a server with its variables and account, and how to log in."""

    command: Sequence[str]
    env: Mapping[str, str]
    log: Path
    account: str | None
    user: str
    password: str


def opensearch_launch(spec: LaunchSpec) -> Launch:
    """Write OpenSearch's settings into its home and give its command."""
    programs, home = spec.programs, spec.home
    account = SERVER_ACCOUNT if os.geteuid() == 0 else None
    if account and not enterable(home):
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
        "http.port": str(spec.port),
        "transport.port": str(free_port()),
        "discovery.type": "single-node",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        "action.auto_create_index": "false",
        # A small heap is nearly full of garbage most of the time; requests must not fail for it.
        "indices.breaker.total.use_real_memory": "false",
        **spec.extra,
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
        str(spec.java), f"-Xms{spec.heap_mb}m", f"-Xmx{spec.heap_mb}m", "-XX:+UseSerialGC",
        "-XX:-UsePerfData", "-XX:+AutoCreateSharedArchive",
        f"-XX:SharedArchiveFile={tmp}/classes.jsa", "-Xlog:cds=off", "-Xlog:cds+dynamic=off",
        "-Dfile.encoding=UTF-8", f"-Djava.io.tmpdir={tmp}", "-Djava.awt.headless=true",
        "-Djna.nosys=true", f"-Djna.tmpdir={tmp}", "-Dlog4j.shutdownHookEnabled=false",
        "-Dlog4j2.disable.jmx=true", "-Dio.netty.noUnsafe=true",
        "-Dio.netty.noKeySetOptimization=true", f"-Dopensearch.path.home={programs}",
        f"-Dopensearch.path.conf={config}", "-Dopensearch.distribution.type=tar",
        "-Dopensearch.bundled_jdk=false", "--enable-native-access=ALL-UNNAMED", "-cp",
        f"{programs}/lib/*", "org.opensearch.bootstrap.OpenSearch",
    ]  # fmt: skip
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp), "LANG": "C.UTF-8"}
    return Launch(command, env, logs / "console.log", account, "", "")


def neo4j_launch(spec: LaunchSpec) -> Launch:
    """Write Neo4j's settings into its home, set its password once, give its command."""
    programs, home, java = spec.programs, spec.home, spec.java
    pins = pinned(Engine.NEO4J)
    for name in ("conf", "data", "logs", "run", "plugins", "import", "licenses", "tmp"):
        (home / name).mkdir(exist_ok=True)
    settings = {
        **pins["settings"],
        "server.bolt.listen_address": f"127.0.0.1:{spec.port}",
        "server.bolt.advertised_address": f"127.0.0.1:{spec.port}",
        "server.memory.heap.initial_size": f"{spec.heap_mb}m",
        "server.memory.heap.max_size": f"{spec.heap_mb}m",
        "server.memory.pagecache.size": "128m",
        **spec.extra,
    }
    (home / "conf" / "neo4j.conf").write_text(
        "".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8"
    )
    classpath = ["-cp", f"{programs}/lib/*", "--enable-native-access=ALL-UNNAMED"]
    env = {
        "PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "NEO4J_HOME": str(home),
        "NEO4J_CONF": str(home / "conf"),
    }  # fmt: skip
    secret = home / "password"
    if not secret.exists():
        secret.touch(0o600)
        # Hexadecimal: a password that begins with a dash is an option to the tool that sets it.
        secret.write_text(secrets.token_hex(16), "utf-8")
    password = secret.read_text("utf-8").strip()
    databases = home / "data" / "databases" / "system"
    if not databases.exists():
        tool = ["-Xmx128m", *classpath, "org.neo4j.cli.AdminTool"]
        done = ran(java, *tool, "dbms", "set-initial-password", password, env=env)
        if done.returncode != 0:
            reason = (done.stderr or done.stdout).replace(password, "***")[-500:]
            raise ServiceError(f"neo4j: the password could not be set: {reason}")
    command = [
        str(java),
        f"-Xms{spec.heap_mb}m",
        f"-Xmx{spec.heap_mb}m",
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
    return Launch(command, env, home / "logs" / "console.log", None, "neo4j", password)
