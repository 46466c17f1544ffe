"""The programs of a real OpenSearch and Neo4j: found, or fetched once through Maven."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).parent / "data"
DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
MIN_JAVA: Final = 21

Report = Callable[[str], None]


class Engine(StrEnum):
    """The two servers."""

    OPENSEARCH = "opensearch"
    NEO4J = "neo4j"


class ServiceError(Exception):
    """The server cannot be started or stopped here; the message says what to do about it."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out while a file is held."""
    with path.open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def find_java() -> Path:
    """Find the `java` of the newest JDK >= 21, or raise `ServiceError`."""
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
    installations: list[tuple[int, str]] = []
    for folder in homes:
        java = folder / "bin" / "java"
        if java.exists() and (major := _java_major(folder)) >= MIN_JAVA:
            installations.append((major, str(java)))
    if not installations:
        raise ServiceError(
            f"no JDK {MIN_JAVA} or newer found; install one (for instance the package "
            f"openjdk-21-jdk-headless or Temurin 25)"
        )
    return Path(max(installations)[1])


def _java_major(folder: Path) -> int:
    release = folder / "release"
    text = release.read_text("utf-8", "replace") if release.exists() else ""
    if match := re.search(r'JAVA_VERSION="(\d+)', text):
        return int(match.group(1))
    result = subprocess.run(  # a distribution may ship no release file
        [folder / "bin" / "java", "-version"], capture_output=True, text=True, check=False
    )
    match = re.search(r'version "(\d+)', result.stderr)
    return int(match.group(1)) if match else 0


def fetch(engine: Engine, folder: Path, report: Report) -> Path:
    """Give the folder with the server's programs, downloaded through Maven the first time."""
    target = _programs(engine, folder)
    if fetched(engine, folder):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f".{engine}.lock"):
        if fetched(engine, folder):  # another process fetched it while this one waited
            return target
        if shutil.which("mvn") is None:
            raise ServiceError(
                f"{engine} is not in {folder} and Maven (mvn) is not on the PATH; "
                f"install Maven, or copy a filled {folder.name} folder from another machine"
            )
        part = target.with_name(target.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        report(f"{engine}: downloading {pinned(engine)['version']} (once, about 100 to 150 MB)")
        (_fetch_opensearch if engine is Engine.OPENSEARCH else _fetch_neo4j)(part, report)
        for path in (part, *part.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        (target / ".complete").touch()
    return target


def pinned(engine: Engine) -> dict[str, Any]:
    """Read which versions are fetched, with their hashes."""
    loaded: dict[str, Any] = json.loads((DATA / f"{engine}.json").read_text("utf-8"))
    return loaded


def _programs(engine: Engine, folder: Path) -> Path:
    pins = {name: value for name, value in pinned(engine).items() if name != "settings"}
    text = json.dumps(pins, sort_keys=True)
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]  # other pins, other folder
    return folder / f"{engine}-{pinned(engine)['version']}-{mark}"


def fetched(engine: Engine, folder: Path) -> bool:
    """Tell whether the programs are there, whole."""
    return (_programs(engine, folder) / ".complete").exists()


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
        files, reported_at = 0, time.monotonic()
        with running.stdout as lines:
            for line in lines:
                sink.write(line)
                files += "Downloaded from" in line and ".jar" in line
                if time.monotonic() - reported_at > 5:
                    reported_at = time.monotonic()
                    report(f"  {files} archives so far")
        code = running.wait()
    if code != 0:
        last = [line for line in log.read_text("utf-8").splitlines() if "ERROR" in line][:3]
        raise ServiceError(
            f"the download failed (mvn exit {code}, log {log}): {' '.join(last) or 'no message'}"
        )


def _fetch_opensearch(part: Path, report: Report) -> None:
    pins = pinned(Engine.OPENSEARCH)

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
    group, artifact, version = pinned(Engine.NEO4J)["coordinate"].split(":")
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
