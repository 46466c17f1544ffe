"""What every test shares: no network but loopback, no caches of the user, a small loaded store."""

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# Who has no AWS credentials asks the machine's metadata address for some.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
# No test finds or makes a store of the person who runs it.
DATA = tempfile.TemporaryDirectory(prefix="docstokg-data-", ignore_cleanup_errors=True)
os.environ["XDG_DATA_HOME"] = DATA.name

# A property is about values: on a busy machine any example may take seconds.
settings.register_profile("values", deadline=None, max_examples=50)
settings.load_profile("values")

LOOPBACK = {"127.0.0.1", "::1", "localhost", ""}


NEEDED = 5e9
"""Bytes that a whole run writes: bundles for two machines, servers' data, stores."""


def scarcity() -> str:
    """Tell how little room the disk has, where that may be a run's reason to fail; or nothing."""
    free = min(shutil.disk_usage(path).free for path in (tempfile.gettempdir(), Path.cwd()))
    if free >= NEEDED:
        return ""
    return f"{free / 1e9:.1f} GB of disk are free, a whole run writes {NEEDED / 1e9:.0f}: make room"


def pytest_report_header() -> str:
    """Say before the first test that the disk may be too small for all of them."""
    return scarcity()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name contents by their parameter: archives contain the time, and workers compare ids."""
    return argname if isinstance(val, bytes) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of each suite, including set-up."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.line(scarcity(), red=True)
    took: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                suite = "/".join(report.nodeid.split("/")[:2])
                took[suite] = took.get(suite, 0.0) + report.duration
    if took:
        terminalreporter.section("seconds by suite, summed over workers")
        for suite, seconds in sorted(took.items()):
            terminalreporter.line(f"{seconds:8.1f}  {suite}")


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that opens a network connection, even if its code swallows the error."""
    connect = socket.socket.connect
    tried: list[str] = []

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in LOOPBACK:
            tried.append(str(address[0]))
            # Clients close what failed with an OSError, not what failed with this.
            self.close()
            raise AssertionError(f"a test tried to connect to {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    yield
    assert not tried, f"the test tried to connect to {sorted(set(tried))}"


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder of this run, so that no test reads files of an earlier run."""
    return tmp_path_factory.mktemp("cache")


def passage(name: str, title: str, text: str, **fields: Any) -> dict[str, Any]:
    """A line of `chunks.jsonl`, of a document of its own."""
    return {"id": name, "doc_id": f"d-{name}", "title": title, "text": text, **fields}


CORPUS: dict[str, list[dict[str, Any]]] = {
    "chunks.jsonl": [
        passage(
            "seizure",
            "Seizure",
            "Seizures are sudden, uncontrolled electrical events in the brain "
            "(HP:0001250). A seizure may follow a high fever in young children. "
            "Anticonvulsants reduce the frequency of seizures by 50 percent.",
            section="Definition",
            topics=["neurology"],
            metadata={"year": 2020, "tags": ["brain", "acute"]},
        ),
        passage(
            "dravet",
            "Dravet syndrome",
            "Dravet syndrome is a severe epilepsy of infancy. It begins with prolonged "
            "febrile seizures. Most patients carry a variant of SCN1A.",
            topics=["genetics"],
            metadata={"year": 2021},
        ),
        passage(
            "scn1a",
            "SCN1A",
            "SCN1A encodes the alpha subunit of a sodium channel. Loss of function "
            "disturbs inhibitory neurons.",
            metadata={"year": 2019},
        ),
        passage(
            "asthma",
            "Asthma",
            "Asthma is a chronic inflammation of the airways. Wheezing and breathlessness "
            "come in attacks.",
            topics=["pulmonology"],
        ),
        passage(
            "bridge",
            "Golden Gate Bridge",
            "The Golden Gate Bridge spans a strait in California. It opened in 1937.",
        ),
        passage(
            "secret",
            "Trial 77",
            "Trial 77 tested a secret anticonvulsant against seizures. It is not public.",
            acl=["staff"],
        ),
        {
            "id": "plain",
            "doc_id": "d-plain",
            "char_start": 1000,
            "text": "Fever above 38 degrees is common in children. \U0001f600 Most fevers pass.",
        },
    ],
    "entities.jsonl": [
        {"id": identifier, "name": name, "type": kind, **others}
        for identifier, name, kind, others in (
            ("HP:0001250", "Seizure", "Phenotype", {"synonyms": ["Seizures", "Fits"]}),
            ("HP:0002099", "Asthma", "Phenotype", {}),
            ("MONDO:0100135", "Dravet syndrome", "Disease", {}),
            ("HGNC:10585", "SCN1A", "Gene", {}),
        )
    ],
    "relations.jsonl": [
        {
            "source": "MONDO:0100135",
            "type": "has_phenotype",
            "target": "HP:0001250",
            "frequency": "HP:0040280",
            "evidence": {"chunk_id": "dravet", "start": 45, "end": 86},
        },
        {
            "source": "HGNC:10585",
            "type": "causes",
            "target": "MONDO:0100135",
            "evidence": {"chunk_id": "dravet"},
        },
    ],
}


def write_corpus(folder: Path, corpus: dict[str, list[dict[str, Any]]]) -> Path:
    """Write JSON lines files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in corpus.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def load_folder(
    folder: Path,
    store: Path,
    cache_dir: Path,
    *,
    embed: bool = True,
    namespace: str = "default",
    rejects: Any = None,
    **settings: Any,
):
    """Load a folder into one embedded store, or where settings say, as `docstokg load` does.

    `rejects`: a log that gets the rejects and notes.
    """
    from docstokg.loading.context import LoadOptions
    from docstokg.loading.pipeline import load
    from docstokg.loading.read.rejects import RejectLog
    from docstokg.wiring import Wiring
    from docstokg_local.loading.stores import stores_of
    from tests.builders import settings_at

    wiring = Wiring(settings_at(store, **{"cache_dir": cache_dir, **settings}))
    try:
        return load(
            [folder],
            LoadOptions(namespace=namespace, embed=embed),
            stores_of(wiring, embed),
            rejects or RejectLog(None),
        )
    finally:
        wiring.close()


def store_of(
    folder: Path, cache_dir: Path, corpus: dict[str, list[dict[str, Any]]], **options: Any
) -> Path:
    """Write a corpus into a folder and load it into a store beside it, whole; return the store."""
    store = folder / "store.sqlite"
    report = load_folder(write_corpus(folder / "corpus", corpus), store, cache_dir, **options)
    assert report.rejected == 0
    return store


@pytest.fixture(scope="session")
def small_store(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    """The corpus above, loaded with both encoders; read only."""
    return store_of(tmp_path_factory.mktemp("small"), cache_dir, CORPUS)


def copy_of(store: Path, folder: Path) -> Path:
    """Copy a store with what lies beside it; return the copy."""
    for path in store.parent.glob(f"{store.name}*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    return folder / store.name


@pytest.fixture
def copied_store(small_store: Path, tmp_path: Path) -> Path:
    """A store of its own for a test that breaks it."""
    return copy_of(small_store, tmp_path)


@pytest.fixture
def settings_for(cache_dir: Path) -> Callable[..., Any]:
    """Make settings for a store file."""
    from tests.builders import settings_at

    return partial(settings_at, cache_dir=cache_dir)


@pytest.fixture(scope="session")
def models(cache_dir: Path) -> dict[str, Any]:
    """The real encoders, loaded once a run: they hold nothing of a test."""
    from docstokg.settings import Settings
    from docstokg.wiring import Wiring

    wiring = Wiring(Settings(cache_dir=str(cache_dir)))
    return {"embedder": wiring.embedder(), "sparse_encoder": wiring.sparse_encoder()}


@contextmanager
def started(settings: Any, ports: Any = None, write: Callable[[str], object] | None = None) -> Any:
    """The real application; `ports`: ports that are given; `write`: its log."""
    from docstokg.observability import Telemetry
    from docstokg.wiring import Wiring
    from docstokg_local.server.application import application
    from docstokg_local.server.prometheus import PrometheusSink

    sink = PrometheusSink()
    telemetry = Telemetry(sink, write or [].append, reveal=settings.rag_log_snippets)
    wiring = Wiring(settings, telemetry, ports)
    try:
        yield application(wiring, sink)
    finally:
        wiring.close()


@contextmanager
def opened(settings: Any, ports: Any = None, write: Callable[[str], object] | None = None) -> Any:
    """An HTTP client of the application that `started` makes."""
    from starlette.testclient import TestClient

    with (
        started(settings, ports, write) as app,
        closing(TestClient(app, raise_server_exceptions=False)) as client,
    ):
        yield client


@pytest.fixture
def client_for(
    settings_for: Callable[..., Any], models: dict[str, Any]
) -> Iterator[Callable[..., Any]]:
    """Make an HTTP client of the real application over a store file."""
    with ExitStack() as stack:

        def make(store: Path, log: list[str] | None = None, **overrides: Any) -> Any:
            shared = {} if {"embed_provider", "sparse"} & overrides.keys() else models
            write = None if log is None else log.append
            return stack.enter_context(opened(settings_for(store, **overrides), shared, write))

        yield make


@pytest.fixture
def small_client(small_store: Path, client_for: Callable[..., Any]) -> Any:
    """An HTTP client of the real application over the small store, as it is by default."""
    return client_for(small_store)
