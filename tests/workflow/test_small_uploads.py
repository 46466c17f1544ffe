"""A small upload takes one task per function, and gives the same stores as the maps."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts import Json
from docstokg.contracts.documents import JobOrder, PostedDocument
from docstokg.contracts.envelope import Caller
from docstokg.ports import LoadRun
from docstokg_functions.documents.bucket_jobs import FEW, SMALL_BYTES, BucketJobs
from docstokg_local.engine.engine import Execution
from tests.ingest_runner import run_ingest, stage_functions
from tests.unit.test_stages import Place, document

Fault = Callable[[str, Json], None]
LOADER = Caller(sub="s", namespaces=("*",), groups=("*",), load=("*",))


class Runs:
    """Executions over real handlers; `fault` may raise before a task, given function and event."""

    def __init__(self, place: Place, small: bool = True, fault: Fault | None = None) -> None:
        self._place, self._small, self._fault = place, small, fault
        self.given: Json = {}
        self.called: list[str] = []
        self.ends: list[Execution] = []

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.given = {**arguments, "small": arguments["small"] and self._small}
        wiring = self._place.wiring()
        called = {
            name: self._called(name, handler) for name, handler in stage_functions(wiring).items()
        }
        try:
            self.ends.append(run_ingest(called, self._place.objects, self.given))
        finally:
            wiring.close()

    def _called(self, name: str, handler: Any) -> Any:
        def call(event: Json, context: object) -> Any:
            self.called.append(name)
            if self._fault is not None:
                self._fault(name, event)
            return handler(event, context)

        return call

    def stop(self, name: str) -> None:
        raise AssertionError("nothing is stopped")

    def find(self, name: str) -> LoadRun | None:
        failed = [end.status != "SUCCEEDED" for end in self.ends]
        return LoadRun(self.given, True, failed != [False])

    def unfinished(self) -> Mapping[str, float]:
        return {}


def order(job: str, *documents: PostedDocument, **fields: Any) -> JobOrder:
    kind = "load" if documents else "delete"
    usual = {"job_id": job, "kind": kind, "caller": LOADER, "namespace": "default"}
    return JobOrder.model_validate({**usual, "documents": documents, **fields})


UPLOAD = order("one", PostedDocument(doc_id="a.md", text=document(1)))


def sent(place: Place, upload: JobOrder, **how: Any) -> tuple[Runs, tuple[str, ...]]:
    """Run an upload; return its run and the states."""
    runs = Runs(place, **how)
    jobs = BucketJobs(place.objects, runs, "b")
    assert jobs.add(upload)
    job = jobs.get(upload.job_id)
    (ended,) = runs.ends
    assert job is not None and job.state == "done", (ended.error, ended.cause)
    return runs, ended.states


def three(place: Place, **how: Any) -> list[tuple[Runs, tuple[str, ...]]]:
    """A document, two more of which one is unreadable, and a removal."""
    others = PostedDocument(doc_id="b.md", text=document(2)), PostedDocument(doc_id="c", text="\0")
    orders = (UPLOAD, order("two", *others), order("three", doc_id="a.md"))
    return [sent(place, upload, **how) for upload in orders]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Place, Place]:
    return Place(tmp_path / "few"), Place(tmp_path / "maps")


def test_an_upload_takes_a_third_of_the_transitions(places: tuple[Place, Place]) -> None:
    few, maps = places
    short, long = three(few), three(maps, small=False)
    assert few.digest() == maps.digest()
    expected = zip(short, long, (4, 4, 2), (3, 3, 1), strict=True)
    for (run, states), (other, other_states), transitions, functions in expected:
        assert (len(states), len(run.called)) == (transitions, functions)
        assert 3 * len(states) <= len(other_states), other_states
        assert len(other.called) <= 6
        run_id = run.given["run_id"]
        reports = [json.loads(p.objects.get(f"runs/{run_id}/report.json")) for p in places]
        assert reports[0] == reports[1]
    assert [row["doc_id"] for row in few.report("two")["rejected"]] == ["c"]
    inbox = [entry.key for place in places for entry in place.objects.list("inbox/")]
    assert inbox == ["inbox/default/two/b.md"] * 2


@pytest.mark.parametrize("error", ["Runtime.ExitError", "Lambda.TooManyRequestsException"])
@pytest.mark.parametrize("function", ["Read", "Names", "Close"])
def test_what_fails_once_is_done_by_the_maps(
    places: tuple[Place, Place], function: str, error: str
) -> None:
    few, maps = places
    failed: list[str] = []

    def fault(name: str, event: Json) -> None:
        if name == f"Ingest{function}Function" and not failed:
            failed.append(name)
            raise type(error, (Exception,), {})("once")

    _, states = sent(few, UPLOAD, fault=fault)
    sent(maps, UPLOAD, small=False)
    assert failed
    assert few.digest() == maps.digest()
    assert ("Read" if function == "Read" else "Compute") in states


def test_uploads_wait_for_other_loads_of_their_namespace(tmp_path: Path) -> None:
    place, tries = Place(tmp_path / "few"), 3
    lease = "runs/leases/default.json"
    holder = json.dumps({"run_id": "other", "until": time.time() + 600}).encode()
    place.objects.put(lease, holder)

    def fault(name: str, event: Json) -> None:
        nonlocal tries
        if event["stage"] == "resolve":
            tries -= 1
            if not tries:
                place.objects.delete(lease)

    run, states = sent(place, UPLOAD, fault=fault)
    assert states[:5] == ("Begin", "ReadFew", "NamesFew", "StoreFew", "Resolve")
    assert "IngestEncodeFunction" not in run.called
    assert not place.objects.list(lease)


def test_a_long_run_continues_in_further_tasks(
    places: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, maps = places
    over = iter([True])
    monkeypatch.setattr("docstokg.loading.run.stages._finish", _once_unfinished(over))
    _, states = sent(few, UPLOAD)
    assert states[-3:] == ("Close", "Closed?", "Loaded")
    sent(maps, UPLOAD, small=False)
    assert few.digest() == maps.digest()


def _once_unfinished(over: Any) -> Callable[..., Any]:
    from docstokg.contracts.ingest import IngestCursor
    from docstokg.loading.run import stages

    finish = stages._finish

    def unfinished(*arguments: Any) -> Any:
        if next(over, False):
            return IngestCursor(step="stale", after="")
        return finish(*arguments)

    return unfinished


@pytest.mark.parametrize(
    ("documents", "small"),
    [
        ([10] * FEW, True),
        ([10] * (FEW + 1), False),
        ([SMALL_BYTES], True),
        ([SMALL_BYTES, 1], False),
    ],
)
def test_larger_uploads_go_by_the_maps(tmp_path: Path, documents: list[int], small: bool) -> None:
    class Begun(Runs):
        def start(self, name: str, arguments: Mapping[str, Any]) -> None:
            self.given = dict(arguments)

    place = Place(tmp_path)
    runs = Begun(place)
    sizes = enumerate(documents)
    posted = [PostedDocument(doc_id=f"{n}.md", text="x" * size) for n, size in sizes]
    assert BucketJobs(place.objects, runs, "b").add(order("one", *posted))
    assert runs.given["small"] is small
