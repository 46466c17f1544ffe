"""The loading machine over a bucket of S3's, into OpenSearch and Neo4j: the content of one load."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import neo4j
import pytest

from tests.contract.real import both_stores
from tests.infra.loopback_aws import LoopbackAws, Moto
from tests.jvm.servers import Endpoint, Engine
from tests.services import SERVICES, server
from tests.unit.test_stages import RUN, Place, folder_of
from tests.workflow.ingest_process import run_machine

pytestmark = [*SERVICES]
BUCKET = "documents"
LOADER, PASSWORD = "loader", "a-loaders-own"
REGION = "eu-central-1"


@contextmanager
def loader_of(at: Endpoint) -> Iterator[None]:
    """A third user of the graph, which is the one that stages write it with."""
    with (
        neo4j.GraphDatabase.driver(at.url, auth=(at.user, at.password)) as driver,
        driver.session(database="system") as session,
    ):
        session.run(f"DROP USER {LOADER} IF EXISTS").consume()
        statement = f"CREATE USER {LOADER} SET PASSWORD $password CHANGE NOT REQUIRED"
        session.run(statement, password=PASSWORD).consume()
        yield
        session.run(f"DROP USER {LOADER}").consume()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A bucket behind an address of this machine, which child processes reach as well."""
    moto = Moto()
    moto.session.client("s3").create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    aws = LoopbackAws(moto, start=lambda event: {}, invoke=lambda name, event: b"")
    variables = {
        "AWS_ENDPOINT_URL_S3": aws.url,
        "AWS_ACCESS_KEY_ID": "stages",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    try:
        yield
    finally:
        aws.close()
        moto.close()


@pytest.fixture
def place(bucket: None, tmp_path: Path) -> Iterator[Place]:
    login = {"graph_user": LOADER, "graph_password": PASSWORD}
    folder = tmp_path / "cloud"
    folder.mkdir()
    with (
        loader_of(server(Engine.NEO4J)),
        both_stores(**login, ingest_url=f"s3://{BUCKET}") as settings,
    ):
        (folder / "settings.json").write_text(settings.model_dump_json())
        yield Place(folder, settings)


def test_a_killed_and_resumed_load_has_equal_content(place: Place, tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", 30)
    (tmp_path / "laptop").mkdir()
    laptop = Place(tmp_path / "laptop")
    laptop.load(source)
    wanted = laptop.digest()

    place.upload(source)
    command = [sys.executable, "-m", "tests.workflow.ingest_process", str(tmp_path / "cloud"), RUN]
    execution = subprocess.run(
        [*command, "write", "1", "after"], capture_output=True, timeout=600, check=False
    )
    assert execution.returncode == -signal.SIGKILL, execution.stderr
    _succeeds(place, RUN)
    assert place.digest() == wanted
    report = place.report()
    assert "poisoned.md" in {row["doc_id"] for row in report["rejected"]}

    place.objects.delete("sources/default/part1/report001.md")
    _succeeds(place, "second")
    assert place.report("second")["removed"] == 1
    (source / "part1" / "report001.md").unlink()
    (tmp_path / "fresh").mkdir()
    fresh = Place(tmp_path / "fresh")
    fresh.load(source)
    assert place.digest() == fresh.digest()


def _succeeds(place: Place, run_id: str) -> None:
    execution = run_machine(place, run_id)
    assert execution.status == "SUCCEEDED", (execution.error, execution.cause)
