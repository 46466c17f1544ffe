"""`ingest.asl.json` on sfnx: the input of each stage, and the state after each failure."""

import json
import re
import threading
from collections.abc import Callable

import pytest

from docstokg.contracts import Json
from docstokg_local.engine.engine import Execution
from tests.ingest_runner import DEFINITION, STAGES, run_ingest
from tests.memory_bucket import BUCKET, MemoryBucket

ASL = json.loads(DEFINITION.read_text("utf-8"))
RETRYABLE = ("Unavailable", "CircuitOpen", "Timeout", "QuotaExceeded", "Refused")


Stage = Callable[[Json], Json]


def fails(name: str, message: str = "") -> None:
    raise type(name, (Exception,), {})(message)


class Stages:
    """Six stages over a bucket: they count words, and keep every payload they get.

    `broken` names, by stage, what is raised: "Error" for good, ("Error", n) for the first n calls.
    `poisoned` keys end whoever opens them as a lack of memory does.
    """

    def __init__(self, bucket: MemoryBucket) -> None:
        self.bucket = bucket
        self.payloads: dict[str, list[Json]] = {stage: [] for stage in STAGES}
        self.broken: dict[str, str | tuple[str, int]] = {}
        self.poisoned: set[str] = set()
        self.rounds = 1
        self.store: dict[str, int] = {}
        self._lock = threading.Lock()

    def table(self) -> dict[str, Callable[[Json, object], Json]]:
        """Give the functions under the names the file has for them."""
        return {f"Ingest{stage.title()}Function": self._call(stage) for stage in STAGES}

    def _call(self, stage: str) -> Callable[[Json, object], Json]:
        work: Stage = getattr(self, stage)

        def call(payload: Json, _: object) -> Json:
            with self._lock:
                self.payloads[stage].append(payload)
                calls = len(self.payloads[stage])
            broken = self.broken.get(stage)
            if isinstance(broken, str):
                fails(broken, "secret")
            if isinstance(broken, tuple) and calls <= broken[1]:
                fails(broken[0])
            return work(payload)

        return call

    def _folder(self, payload: Json) -> str:
        return f"runs/{payload['run']['run_id']}"

    def read(self, payload: Json) -> Json:
        keys = [item["Key"] for item in payload["items"]]
        shard = re.sub(r"\W", "-", keys[0])
        folder = self._folder(payload)
        if "crashed" in payload:
            reject = json.dumps({"keys": keys, **payload["crashed"]}).encode()
            self.bucket.put(f"{folder}/rejects/{shard}", reject)
            return {"shard": shard, "documents": 0}
        if self.poisoned & set(keys):
            fails("Runtime.ExitError", "signal: killed")
        words = {key: len(self.bucket.get(key).split()) for key in keys}
        self.bucket.put(f"{folder}/rows/{shard}", json.dumps(words).encode())
        return {"shard": shard, "documents": len(words)}

    def _shard(self, payload: Json) -> tuple[str, dict[str, int]]:
        (item,) = payload["items"]
        return item["Key"].rsplit("/", 1)[1], json.loads(self.bucket.get(item["Key"]))

    def encode(self, payload: Json) -> Json:
        shard, words = self._shard(payload)
        vectors = json.dumps({key: -count for key, count in words.items()}).encode()
        self.bucket.put(f"{self._folder(payload)}/vectors/{shard}", vectors)
        return {"shard": shard}

    def names(self, payload: Json) -> Json:
        shard, words = self._shard(payload)
        self.bucket.put(f"{self._folder(payload)}/names/{shard}", json.dumps(list(words)).encode())
        return {"shard": shard}

    def resolve(self, payload: Json) -> Json:
        turn = (payload["cursor"] or 0) + 1
        return {"done": True} if turn >= self.rounds else {"done": False, "cursor": turn}

    def write(self, payload: Json) -> Json:
        shard, words = self._shard(payload)
        vectors = json.loads(self.bucket.get(f"{self._folder(payload)}/vectors/{shard}"))
        assert self.bucket.get(f"{self._folder(payload)}/names/{shard}")
        assert vectors == {key: -count for key, count in words.items()}
        self.store |= words
        return {"shard": shard}

    def close(self, payload: Json) -> Json:
        return {"done": True} if payload["failed"] else self.resolve(payload)


def ran(stages: Stages) -> Execution:
    run = {"run_id": "run-1", "namespace": "ns", "bucket": BUCKET, "prefix": "sources/ns/"}
    usual = {"sync": False, "max_removed": 0, "remove": []}
    return run_ingest(stages.table(), stages.bucket, {**run, **usual})


def folder_of(count: int) -> Stages:
    bodies = {f"sources/ns/d{n:04}.txt": b"word " * (n % 5) for n in range(count)}
    return Stages(MemoryBucket({**bodies, "sources/other/d.txt": b"not ours"}))


@pytest.mark.parametrize("count", [0, 1, 2, 41, 2001])
def test_every_object_under_the_prefix_is_stored_once(count: int) -> None:
    stages = folder_of(count)
    done = ran(stages)
    assert (done.status, done.output) == ("SUCCEEDED", {"done": True})
    assert stages.store == {f"sources/ns/d{n:04}.txt": n % 5 for n in range(count)}
    batches = -(-count // 40)
    calls = {stage: len(payloads) for stage, payloads in stages.payloads.items()}
    each = {"read": batches, "encode": batches, "names": batches, "write": batches}
    assert calls == {**each, "resolve": 1, "close": 1}
    for payload in stages.payloads["read"]:
        assert payload["stage"] == "read"
        for item in payload["items"]:
            assert set(item) == {"Key", "Size", "ETag"}
            assert '"' not in item["ETag"]
    (closing,) = stages.payloads["close"]
    assert closing["failed"] is False
    for stage in ("read", "compute", "write"):
        assert closing["results"][stage]["Key"].startswith(f"runs/run-1/results/{stage}/")


def test_book_and_close_go_on_where_they_stopped() -> None:
    stages = folder_of(3)
    stages.rounds = 4
    assert ran(stages).status == "SUCCEEDED"
    for stage in ("resolve", "close"):
        assert [payload["cursor"] for payload in stages.payloads[stage]] == [None, 1, 2, 3]


def test_one_poisoned_document_costs_itself_alone() -> None:
    stages = folder_of(100)
    poisoned = {"sources/ns/d0007.txt", "sources/ns/d0055.txt"}
    stages.poisoned = poisoned
    assert ran(stages).status == "SUCCEEDED"
    assert set(stages.store) == {f"sources/ns/d{n:04}.txt" for n in range(100)} - poisoned
    rejects = [json.loads(b) for key, b in stages.bucket.objects.items() if "/rejects/" in key]
    assert {key for reject in rejects for key in reject["keys"]} == poisoned
    assert {reject["Error"] for reject in rejects} == {"Runtime.ExitError"}


@pytest.mark.parametrize("error", RETRYABLE)
def test_a_batch_nobody_could_read_stops_no_other(error: str) -> None:
    stages = folder_of(80)
    work = stages.read

    def away(payload: Json) -> Json:
        if payload["items"][0]["Key"].endswith("d0000.txt"):
            fails(error)
        return work(payload)

    stages.read = away  # type: ignore[method-assign]
    assert ran(stages).status == "SUCCEEDED"
    assert len(stages.store) == 40


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("error", [*RETRYABLE, "Lambda.TooManyRequestsException"])
def test_what_fails_once_is_tried_again(stage: str, error: str) -> None:
    stages = folder_of(3)
    stages.broken = {stage: (error, 1)}
    assert ran(stages).status == "SUCCEEDED"
    assert len(stages.store) == 3
    assert len(stages.payloads[stage]) == 2


@pytest.mark.parametrize("stage", ["encode", "names"])
@pytest.mark.parametrize("error", ["ValueError", "Runtime.ExitError", "States.Timeout"])
def test_a_shard_ending_its_readers_ends_no_run(stage: str, error: str) -> None:
    stages = folder_of(120)
    work = getattr(stages, stage)

    def breaks(payload: Json) -> Json:
        if "d0040" in payload["items"][0]["Key"]:
            fails(error, "no memory")
        return dict(work(payload))

    setattr(stages, stage, breaks)
    stages.write = lambda payload: {}  # type: ignore[method-assign]
    assert ran(stages).status == "SUCCEEDED"
    (lost,) = (key for key in stages.bucket.objects if "/lost/" in key)
    assert lost == "runs/run-1/lost/sources-ns-d0040-txt"
    noted = json.loads(stages.bucket.get(lost))
    assert (noted["Error"], "no memory" in noted["Cause"]) == (error, True)
    others = [p for p in stages.payloads[stage] if "d0040" not in p["items"][0]["Key"]]
    assert len(others) == 2


@pytest.mark.parametrize(
    ("stage", "error"),
    [
        *((stage, "Unavailable") for stage in ("encode", "names", "resolve", "write", "close")),
        *((stage, "ValueError") for stage in ("resolve", "write", "close")),
        *((stage, "Runtime.ExitError") for stage in ("resolve", "write", "close")),
    ],
)
def test_a_broken_stage_fails_and_returns_the_lease(stage: str, error: str) -> None:
    stages = folder_of(3)
    stages.broken = {stage: error}
    done = ran(stages)
    assert done.status == "FAILED"
    within = stage in ("encode", "names", "write")
    threshold = "ExceedToleratedFailureThreshold"
    # A Fail may not name an error of the service's own.
    assert done.error == (threshold if within else error)
    last = stages.payloads["close"][-1]
    assert last["failed"] is True
    assert last["error"]["Error"] == (f"States.{threshold}" if within else error)
    assert (last["results"]["write"] is None) is (stage != "close")
    tries = {"Unavailable": 7, "ValueError": 1, "Runtime.ExitError": 2}[error]
    begun = [p for p in stages.payloads[stage] if not p.get("failed")]
    assert len(begun) == tries


def test_a_run_waits_for_the_load_before_it() -> None:
    stages = folder_of(1)
    stages.broken = {"resolve": ("Locked", 12)}
    assert ran(stages).status == "SUCCEEDED"
    assert len(stages.payloads["resolve"]) == 13
    resolving = ASL["States"]["Resolve"]["Retry"][-1]
    assert resolving["ErrorEquals"] == ["Locked"]
    assert resolving["MaxAttempts"] * resolving["MaxDelaySeconds"] >= 8 * 3600


def every_task(states: Json) -> dict[str, Json]:
    tasks: dict[str, Json] = {}
    for name, state in states.items():
        inner = [*state.get("Branches", ()), state.get("ItemProcessor")]
        for branch in filter(None, inner):
            tasks |= every_task(branch["States"])
        if state["Type"] == "Task":
            tasks[name] = state
    return tasks


def retried(tasks: dict[str, Json]) -> dict[str, Json]:
    """The tasks that call functions and try again; of few documents, a state after them does."""
    small = {name for name in tasks if name.endswith("Few")}
    for name in small:
        assert tasks[name]["Catch"][-1]["Next"] in ("Read", "Compute"), name
    return {name: task for name, task in tasks.items() if name not in {*small, "Lost"}}


def test_every_task_has_a_timeout_and_retries() -> None:
    tasks = every_task(ASL["States"])
    assert tasks["Lost"]["Resource"].endswith("s3:putObject")
    for name, task in retried(tasks).items():
        assert task["TimeoutSeconds"] in (360, 960), name
        named = {error for retrier in task["Retry"] for error in retrier["ErrorEquals"]}
        assert {*RETRYABLE, "Lambda.TooManyRequestsException"} <= named, name
        assert "States.ALL" not in named, name
    for name, state in ASL["States"].items():
        if state["Type"] == "Map":
            # What a task gets is its batch and the run once more, within 262,144 bytes.
            assert state["ItemBatcher"]["MaxInputBytesPerBatch"] <= 200_000, name
        if state["Type"] in ("Task", "Map"):
            assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"], name
