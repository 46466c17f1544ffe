"""Documents sent to a deployment: its machine's stages end in the content of a laptop's job."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docstokg.contracts.documents import JobOrder, PostedDocument
from docstokg.contracts.envelope import Caller
from docstokg.loading.run.document_job import run_job
from docstokg.ports import LoadRun
from docstokg_functions.documents.bucket_jobs import BucketJobs
from docstokg_local.loading.stores import stores_of
from tests.run_stages import Stages, run_stages
from tests.unit.test_stages import NS, Place, document

ADA = Caller(sub="ada", namespaces=(NS,), groups=("hr",), load=(NS,))
BOB = Caller(sub="bob", namespaces=(NS,), load=(NS,))
PAGE = "<h1>Cologne</h1><p>The University of Cologne measures water in Düren.</p>"


class Started:
    """Notes the runs that are begun."""

    def __init__(self) -> None:
        self.arguments: dict[str, Mapping[str, Any]] = {}

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.arguments[name] = arguments

    def find(self, name: str) -> LoadRun | None:
        arguments = self.arguments.get(name)
        return None if arguments is None else LoadRun(arguments, True, False)

    def unfinished(self) -> Mapping[str, float]:
        return {}


def order(job_id: str, caller: Caller, kind: str = "load", **fields: Any) -> JobOrder:
    return JobOrder(job_id=job_id, kind=kind, caller=caller, namespace=NS, **fields)


def both(place: Place, laptop: Place, order: JobOrder) -> tuple[Any, Any]:
    """Run a job through the bucket's stages and as a local job; return both reports."""
    runs = Started()
    jobs = BucketJobs(place.objects, runs, "b")
    assert jobs.add(order)
    stages = Stages(place.wiring, dict(runs.arguments[order.job_id]))
    run_stages(stages, place.objects, twice=True)
    wiring = laptop.wiring()
    done = run_job(order, stores_of(wiring))
    wiring.close()
    assert place.digest() == laptop.digest()
    job = jobs.get(order.job_id)
    assert job is not None
    return job, done


def outcome(job: Any) -> tuple[Any, ...]:
    rejected = {(r.doc_id, r.reason) for r in job.rejected}
    return job.state, job.loaded, job.removed, rejected, job.notes


def test_uploads_are_added_replaced_and_removed(tmp_path: Path) -> None:
    place, laptop = Place(tmp_path / "cloud"), Place(tmp_path)
    html = base64.b64encode(PAGE.encode("latin-1")).decode()
    rows = b"<table><tr><th>" + b"x" * 2_000 + b"<th>b" + b"<tr><td>1<td>2" * 3_000
    swollen = base64.b64encode(rows).decode()
    documents = (
        PostedDocument(
            doc_id="a.md", text=document(3), title="Own", acl=("hr",), metadata={"k": 1}
        ),
        PostedDocument(doc_id="b/page", content=html, media_type="text/html"),
        PostedDocument(doc_id=".hidden", text="Essen has a pump."),
        PostedDocument(doc_id="bad.txt", text="NUL \0"),
        PostedDocument(doc_id="swollen", content=swollen, media_type="text/html"),
    )
    others = (
        PostedDocument(doc_id="a.md", text="Mine."),
        PostedDocument(doc_id="b/page", text="# Trier\n\nIn Trier."),
    )
    orders = [
        order("1", ADA, documents=documents),
        order("2", ADA, documents=documents[:1]),
        order("3", BOB, documents=others, replace=True),
        order("4", BOB, kind="delete", doc_id="a.md"),
        order("5", ADA, kind="delete", doc_id="a.md"),
    ]
    loaded = []
    for job in orders:
        cloud, local = both(place, laptop, job)
        assert outcome(cloud) == outcome(local), job.job_id
        loaded.append((cloud.loaded, cloud.removed, len(cloud.rejected)))
        assert (job.job_id == "1") == (cloud.notes == ("b/page: read as cp1252",))
    assert loaded[:4] == [(3, 0, 2), (0, 0, 1), (1, 0, 1), (0, 0, 1)]
    assert loaded[4][1:] == (1, 0)
