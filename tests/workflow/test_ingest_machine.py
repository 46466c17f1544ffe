"""`ingest.asl.json` on the local engine: what each stage gets, what a failure of each leaves."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.budget import STATE_LIMIT_BYTES, json_bytes
from docstokg_local.engine.engine import Execution, Standard, StateMachine
from docstokg_local.engine.ingest_machine import IngestMachine
from tests.workflow.machines import BUCKET, MemoryBucket

DEFINITION = Path(__file__).resolve().parents[2] / "statemachine" / "ingest.asl.json"
ASL = json.loads(DEFINITION.read_text("utf-8"))
STAGES = ("read", "encode", "names", "book", "write", "close")
RETRYABLE = ("Unavailable", "CircuitOpen", "Timeout", "QuotaExceeded", "Refused")


Stage = Callable[[dict[str, Any]], dict[str, Any]]


def fails(name: str, message: str = "") -> None:
    raise type(name, (Exception,), {})(message)


class Stages:
    """Six stages over a bucket: they count words, and keep every payload they get.

    `broken` names, by stage, what is raised: "Error" for good, ("Error", n) for the first n calls.
    `poisoned` keys end whoever opens them as a lack of memory does.
    """

    def __init__(self, bucket: MemoryBucket) -> None:
        self.bucket = bucket
        self.payloads: dict[str, list[dict[str, Any]]] = {stage: [] for stage in STAGES}
        self.broken: dict[str, str | tuple[str, int]] = {}
        self.poisoned: set[str] = set()
        self.rounds = 1
        self.store: dict[str, int] = {}
        self._lock = threading.Lock()

    def table(self) -> dict[str, Callable[[dict[str, Any], object], dict[str, Any]]]:
        """Give the functions under the names the file has for them."""
        return {f"Ingest{stage.title()}Function": self._call(stage) for stage in STAGES}

    def _call(self, stage: str) -> Callable[[dict[str, Any], object], dict[str, Any]]:
        work: Stage = getattr(self, stage)

        def call(payload: dict[str, Any], _: object) -> dict[str, Any]:
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

    def _folder(self, payload: dict[str, Any]) -> str:
        return f"runs/{payload['run']['run_id']}"

    def read(self, payload: dict[str, Any]) -> dict[str, Any]:
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

    def _shard(self, payload: dict[str, Any]) -> tuple[str, dict[str, int]]:
        (item,) = payload["items"]
        return item["Key"].rsplit("/", 1)[1], json.loads(self.bucket.get(item["Key"]))

    def encode(self, payload: dict[str, Any]) -> dict[str, Any]:
        shard, words = self._shard(payload)
        vectors = json.dumps({key: -count for key, count in words.items()}).encode()
        self.bucket.put(f"{self._folder(payload)}/vectors/{shard}", vectors)
        return {"shard": shard}

    def names(self, payload: dict[str, Any]) -> dict[str, Any]:
        shard, words = self._shard(payload)
        self.bucket.put(f"{self._folder(payload)}/names/{shard}", json.dumps(list(words)).encode())
        return {"shard": shard}

    def _rounds(self, payload: dict[str, Any]) -> dict[str, Any]:
        turn = (payload["cursor"] or 0) + 1
        return {"done": True} if turn >= self.rounds else {"done": False, "cursor": turn}

    def book(self, payload: dict[str, Any]) -> dict[str, Any]:
        return self._rounds(payload)

    def write(self, payload: dict[str, Any]) -> dict[str, Any]:
        shard, words = self._shard(payload)
        vectors = json.loads(self.bucket.get(f"{self._folder(payload)}/vectors/{shard}"))
        assert self.bucket.get(f"{self._folder(payload)}/names/{shard}")
        assert vectors == {key: -count for key, count in words.items()}
        self.store |= words
        return {"shard": shard}

    def close(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {"done": True} if payload["failed"] else self._rounds(payload)


def ran(stages: Stages, waits: list[float] | None = None, **more: Any) -> Execution:
    """Run the machine; no try waits, but how long it would have is noted."""
    namespace, run_id = "ns", "run-1"
    execution_input = {
        **{"run_id": run_id, "namespace": namespace, "bucket": BUCKET, "sync": False},
        **{"max_removed": 0, "remove": [], "prefix": f"sources/{namespace}/", **more},
    }
    pause = ([] if waits is None else waits).append
    standard = Standard({BUCKET: stages.bucket}, pause)
    machine = StateMachine.from_file(DEFINITION, stages.table(), standard=standard)
    return machine.execute(execution_input, name=run_id)


def folder_of(count: int) -> Stages:
    bodies = {f"sources/ns/d{n:04}.txt": b"word " * (n % 5) for n in range(count)}
    return Stages(MemoryBucket({**bodies, "sources/other/d.txt": b"not ours"}))


@pytest.mark.parametrize("count", [0, 1, 2, 41, 2001])
def test_every_object_of_the_prefix_reaches_the_store_once(count: int) -> None:
    stages = folder_of(count)
    done = ran(stages)
    assert (done.status, done.output) == ("SUCCEEDED", {"done": True})
    assert stages.store == {f"sources/ns/d{n:04}.txt": n % 5 for n in range(count)}
    batches = -(-count // 40)
    calls = {stage: len(payloads) for stage, payloads in stages.payloads.items()}
    each = {"read": batches, "encode": batches, "names": batches, "write": batches}
    assert calls == {**each, "book": 1, "close": 1}
    for payload in stages.payloads["read"]:
        assert payload["stage"] == "read"
        for item in payload["items"]:
            assert set(item) == {"Key", "Size", "ETag"}
            assert '"' not in item["ETag"]
    (closing,) = stages.payloads["close"]
    assert closing["failed"] is False
    for stage in ("read", "compute", "write"):
        manifest = json.loads(stages.bucket.get(closing["results"][stage]["Key"]))
        assert manifest["ResultFiles"]["FAILED"] == []
        assert closing["results"][stage]["Key"].startswith(f"runs/run-1/results/{stage}/")


def test_a_long_list_to_remove_goes_to_book_and_close_alone() -> None:
    stages = folder_of(45)
    remove = [f"document-{n:06}" for n in range(8000)]
    assert ran(stages, remove=remove).status == "SUCCEEDED"
    assert stages.payloads["close"][0]["run"]["remove"] == remove
    for stage in ("read", "encode", "names", "write"):
        for payload in stages.payloads[stage]:
            assert "remove" not in payload["run"]
            assert payload["run"]["run_id"] == "run-1"
            assert json_bytes(payload) < STATE_LIMIT_BYTES


def test_long_keys_make_smaller_batches() -> None:
    keys = [f"sources/ns/{n:03}{'é' * 500}.txt" for n in range(400)]
    stages = Stages(MemoryBucket(dict.fromkeys(keys, b"one")))
    stages.payloads["read"].clear()
    assert ran(stages, note="x" * 170_000).status == "SUCCEEDED"
    assert sorted(stages.store) == sorted(keys)
    sizes = [len(payload["items"]) for payload in stages.payloads["read"]]
    assert max(sizes) < 40
    assert max(map(json_bytes, stages.payloads["read"])) < 200_000


def test_book_and_close_go_on_from_where_they_stopped() -> None:
    stages = folder_of(3)
    stages.rounds = 4
    assert ran(stages).status == "SUCCEEDED"
    for stage in ("book", "close"):
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
    manifest = json.loads(stages.bucket.get(stages.payloads["close"][0]["results"]["read"]["Key"]))
    assert manifest["ResultFiles"]["FAILED"] == []


@pytest.mark.parametrize("error", RETRYABLE)
def test_a_batch_nobody_could_read_is_in_the_result_files_and_the_rest_loads(error: str) -> None:
    stages = folder_of(80)
    work = stages.read

    def away(payload: dict[str, Any]) -> dict[str, Any]:
        if payload["items"][0]["Key"].endswith("d0000.txt"):
            fails(error)
        return work(payload)

    stages.read = away  # type: ignore[method-assign]
    assert ran(stages).status == "SUCCEEDED"
    assert len(stages.store) == 40
    details = stages.payloads["close"][0]["results"]["read"]
    manifest = json.loads(stages.bucket.get(details["Key"]))
    (file,) = manifest["ResultFiles"]["FAILED"]
    (record,) = json.loads(stages.bucket.get(file["Key"]))
    assert record["Error"] == error
    assert len(json.loads(record["Input"])["Items"]) == 40


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("error", [*RETRYABLE, "Lambda.TooManyRequestsException"])
def test_what_fails_once_is_tried_again_after_a_while(stage: str, error: str) -> None:
    stages = folder_of(3)
    waits: list[float] = []
    stages.broken = {stage: (error, 1)}
    assert ran(stages, waits).status == "SUCCEEDED"
    assert len(stages.store) == 3
    assert len(waits) == 1 and waits[0] >= 2


@pytest.mark.parametrize("stage", ["encode", "names", "book", "write", "close"])
@pytest.mark.parametrize("error", ["Unavailable", "ValueError", "Runtime.ExitError"])
def test_a_stage_that_stays_broken_gives_the_lease_back_and_fails(stage: str, error: str) -> None:
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
    waits: list[float] = []
    stages.broken = {"book": ("Locked", 12)}
    assert ran(stages, waits).status == "SUCCEEDED"
    assert waits[:3] == [30, 45, 67.5]
    assert max(waits) == 300
    book = ASL["States"]["Book"]["Retry"][-1]
    assert book["ErrorEquals"] == ["Locked"]
    assert book["MaxAttempts"] * book["MaxDelaySeconds"] >= 8 * 3600


def test_run_again_it_does_nothing_else() -> None:
    stages = folder_of(50)
    stages.broken = {"write": "Unavailable"}
    assert ran(stages).status == "FAILED"
    stages.broken = {}
    assert ran(stages).status == "SUCCEEDED"
    again = folder_of(50)
    ran(again)
    rows = {k: v for k, v in stages.bucket.objects.items() if "/results/" not in k}
    assert rows == {k: v for k, v in again.bucket.objects.items() if "/results/" not in k}
    assert stages.store == again.store


def every_task(states: dict[str, Any]) -> dict[str, dict[str, Any]]:
    tasks: dict[str, dict[str, Any]] = {}
    for name, state in states.items():
        inner = [*state.get("Branches", ()), state.get("ItemProcessor")]
        for one in filter(None, inner):
            tasks |= every_task(one["States"])
        if state["Type"] == "Task":
            tasks[name] = state
    return tasks


def test_every_task_has_a_time_and_is_tried_again() -> None:
    tasks = every_task(ASL["States"])
    functions = Counter(task["Arguments"]["FunctionName"] for task in tasks.values())
    assert functions == {
        **{f"${{Ingest{stage.title()}Function}}": 1 for stage in STAGES},
        "${IngestReadFunction}": 3,
        "${IngestCloseFunction}": 2,
    }
    for name, task in tasks.items():
        assert task["TimeoutSeconds"] in (360, 960), name
        named = {error for retrier in task["Retry"] for error in retrier["ErrorEquals"]}
        assert {*RETRYABLE, "Lambda.TooManyRequestsException"} <= named, name
        assert "States.ALL" not in named, name
    for name, state in ASL["States"].items():
        if state["Type"] in ("Task", "Map"):
            assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"], name


ARGUMENTS = {
    **{"run_id": "run-1", "namespace": "ns", "bucket": BUCKET, "sync": False},
    **{"max_removed": 0, "remove": [], "prefix": "sources/ns/"},
}


def test_a_run_that_died_goes_on_with_the_batches_it_had_not_done() -> None:
    stages = folder_of(200)
    said: list[str] = []
    machine = IngestMachine(stages.table(), stages.bucket, said.append, at_once=2)
    stages.broken = {"write": "ValueError"}
    assert machine.run(ARGUMENTS).status == "FAILED"
    first = {stage: len(payloads) for stage, payloads in stages.payloads.items()}
    assert first["read"] == first["encode"] == first["names"] == 5
    stages.broken = {}
    assert machine.run(ARGUMENTS).status == "SUCCEEDED"
    assert len(stages.store) == 200
    second = {stage: len(payloads) for stage, payloads in stages.payloads.items()}
    assert {stage: second[stage] - first[stage] for stage in STAGES} == {
        **{"read": 0, "encode": 0, "names": 0, "book": 1, "write": 5, "close": 1}
    }
    manifest = json.loads(stages.bucket.get(stages.payloads["close"][-1]["results"]["read"]["Key"]))
    (file,) = manifest["ResultFiles"]["SUCCEEDED"]
    assert len(json.loads(stages.bucket.get(file["Key"]))) == 5
    # Another run begins every batch, and so does a document that changed.
    stages.bucket.put("sources/ns/d0000.txt", b"a new text of it")
    assert machine.run(ARGUMENTS).status == "SUCCEEDED"
    assert len(stages.payloads["read"]) == 6
    assert stages.store["sources/ns/d0000.txt"] == 5
    assert machine.run({**ARGUMENTS, "run_id": "run-2"}).status == "SUCCEEDED"
    assert len(stages.payloads["read"]) == 11


def test_lines_say_how_far_each_map_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: Stages = folder_of(90)
    said: list[str] = []
    IngestMachine(stages.table(), stages.bucket, said.append).run(ARGUMENTS)
    ends = ["read: 3 batches", "compute: 3 batches", "write: 3 batches"]
    begins = ["read begins", "compute begins", "write begins"]
    assert [line for line in said if line in ends + begins] == [
        line for pair in zip(begins, ends, strict=True) for line in pair
    ]
    stages.broken = {"write": "ValueError"}
    monkeypatch.setattr("docstokg_local.engine.ingest_machine.TOLD_EACH_S", 0)
    said.clear()
    IngestMachine(stages.table(), stages.bucket, said.append).run({**ARGUMENTS, "run_id": "2"})
    assert said[:4] == ["read begins", "read: 1 batch", "read: 2 batches", "read: 3 batches"]
    assert said[-1] == "write: 1 batch, 1 failed"
