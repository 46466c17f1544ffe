"""Distributed Maps: what is read, how it is batched, what fails, and what the writer writes."""

import json
import threading
import time
from typing import Any

import pytest
from sfnx.testing import Unsupported

from docstokg.domain.budget import STATE_LIMIT_BYTES
from docstokg_local.engine.engine import Standard, StateMachine
from docstokg_local.engine.results import STATUSES
from tests.workflow.machines import (
    BUCKET,
    LISTED,
    WRITER,
    MemoryBucket,
    definition,
    mapped,
    run,
    task,
)

KEYS_SELECTED = {"ItemSelector": {"key": "{% $states.context.Map.Item.Value.Key %}"}}


def bucket_of(count: int) -> MemoryBucket:
    return MemoryBucket({f"in/{n:05}": b"x" * (n % 7) for n in range(count)} | {"other/1": b""})


def results(bucket: MemoryBucket) -> dict[str, list[dict[str, Any]]]:
    """Read every record by status, through the manifest alone."""
    (manifest,) = (json.loads(bucket.get(k)) for k in bucket.objects if k.endswith("manifest.json"))
    assert manifest["DestinationBucket"] == BUCKET
    assert manifest["MapRunArn"].startswith("arn:aws:states:")
    assert set(manifest["ResultFiles"]) == set(STATUSES)
    records: dict[str, list[dict[str, Any]]] = {status: [] for status in STATUSES}
    for status, files in manifest["ResultFiles"].items():
        for place, file in enumerate(files):
            assert file["Key"].endswith(f"/{status}_{place}.json")
            body = bucket.get(file["Key"])
            assert len(body) == file["Size"]
            records[status] += json.loads(body)
    return records


@pytest.mark.parametrize("count", [0, 1, 2, 2001])
def test_every_object_is_read_page_after_page(count: int) -> None:
    bucket = bucket_of(count)
    seen: list[str] = []
    done = run(
        {"M": mapped(ItemReader=LISTED, ResultWriter=WRITER)},
        {"F": lambda item: seen.append(item["Key"]) or {"n": item["Size"]}},
        buckets={BUCKET: bucket},
    )
    assert done.status == "SUCCEEDED"
    assert sorted(seen) == [f"in/{n:05}" for n in range(count)]
    assert bucket.pages == -(-count // 1000) + 1
    details = done.output["ResultWriterDetails"]
    assert details["Bucket"] == BUCKET
    assert details["Key"] in bucket.objects
    records = results(bucket)
    assert len(records["SUCCEEDED"]) == count
    assert not records["FAILED"] and not records["PENDING"]
    for record in records["SUCCEEDED"]:
        item = json.loads(record["Input"])
        assert json.loads(record["Output"]) == {"n": item["Size"]}
        assert set(item) == {"Etag", "Key", "LastModified", "Size", "StorageClass"}
        assert item["Etag"].startswith('"')
        assert (record["Status"], record["RedriveStatus"]) == ("SUCCEEDED", "NOT_REDRIVABLE")
        assert record["InputDetails"] == record["OutputDetails"] == {"Included": True}
        assert record["StartDate"] <= record["StopDate"]


@pytest.mark.parametrize(
    ("kind", "body"), [("JSON", b'[{"a": 1}, {"a": 2}]'), ("JSONL", b'{"a": 1}\n\n{"a": 2}\n')]
)
def test_a_list_in_an_object_is_read_as_json_or_lines(kind: str, body: bytes) -> None:
    reader = {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": kind},
        "Arguments": {"Bucket": BUCKET, "Key": "{% $states.input.key %}"},
    }
    double = {"F": lambda item: item["a"] * 2}
    machine = {"M": mapped(ItemReader=reader)}
    done = run(machine, double, {"key": "l"}, buckets={BUCKET: MemoryBucket({"l": body})})
    assert done.output == [2, 4]
    for broken in ({"l": b"{"}, {"l": b'{"a": 1}' if kind == "JSON" else b"1 2"}, {}):
        failed = run(machine, double, {"key": "l"}, buckets={BUCKET: MemoryBucket(broken)})
        assert (failed.status, failed.error) == ("FAILED", "States.ItemReaderFailed")
    reader["ReaderConfig"] = {"InputType": kind, "MaxItems": 1}
    assert run(
        machine, double, {"key": "l"}, buckets={BUCKET: MemoryBucket({"l": body})}
    ).output == [2]


def test_a_bucket_that_is_not_there_can_be_caught() -> None:
    caught = [{"ErrorEquals": ["States.ItemReaderFailed"], "Next": "Done"}]
    states = {"M": mapped(ItemReader=LISTED, Catch=caught), "Done": {"Type": "Succeed"}}
    assert run(states, {"F": id}).output["Error"] == "States.ItemReaderFailed"
    caught[0]["ErrorEquals"] = ["States.ResultWriterFailed"]
    states["M"] = mapped(Items=[], ResultWriter=WRITER, Catch=caught)
    assert run(states, {"F": id}).output["Error"] == "States.ResultWriterFailed"


def test_batches_hold_at_most_so_many_items_and_carry_their_input() -> None:
    batches: list[dict[str, Any]] = []
    done = run(
        {
            "M": mapped(
                ItemReader=LISTED,
                **KEYS_SELECTED,
                ItemBatcher={"MaxItemsPerBatch": 40, "BatchInput": {"run": "{% $states.input %}"}},
            )
        },
        {"F": lambda batch: batches.append(batch) or len(batch["Items"])},
        {"run_id": "r"},
        buckets={BUCKET: bucket_of(81)},
    )
    assert done.output == [40, 40, 1]
    assert all(batch["BatchInput"] == {"run": {"run_id": "r"}} for batch in batches)
    first = min(batches, key=lambda batch: batch["Items"][0]["key"])
    assert first["Items"] == [{"key": f"in/{n:05}"} for n in range(40)]


@pytest.mark.parametrize(("most", "sizes"), [(60, [3, 3, 1]), (59, [3, 3, 1]), (58, [2, 2, 2, 1])])
def test_a_batch_is_as_large_as_its_bytes_let_it_be(most: int, sizes: list[int]) -> None:
    # {"BatchInput":1,"Items":[]} is 27 bytes, an item ten, a comma one: three items make 59.
    items = ["12345678"] * 7
    batcher = {"MaxInputBytesPerBatch": most, "BatchInput": 1}
    inputs: list[dict[str, Any]] = []
    done = run(
        {"M": mapped(Items=items, ItemBatcher=batcher)},
        {"F": lambda batch: inputs.append(batch) or len(batch["Items"])},
    )
    assert done.output == sizes
    assert max(len(json.dumps(i, separators=(",", ":"))) for i in inputs) <= most


def test_a_selector_reads_variables_index_and_value_and_a_child_reads_none_of_it() -> None:
    child = {"Look": {"Type": "Pass", "Output": "{% $exists($v) ? 'seen' : $states.input %}"}}
    child["Look"]["End"] = True
    selector = {
        "i": "{% $states.context.Map.Item.Index %}",
        "v": "{% $v & $states.context.Map.Item.Value %}",
    }
    states = {
        "P": {"Type": "Pass", "Assign": {"v": "x"}, "Next": "M"},
        "M": mapped(child, Items="{% $states.input.l %}", ItemSelector=selector),
    }
    done = run(states, execution_input={"l": ["a", "b"]})
    assert done.output == [{"i": 0, "v": "xa"}, {"i": 1, "v": "xb"}]


def test_members_of_an_object_are_items_with_a_key() -> None:
    child = {"P": {"Type": "Pass", "End": True}}
    done = run({"M": mapped(child, Items={"a": 1, "b": 2})})
    assert done.output == [{"Key": "a", "Value": 1}, {"Key": "b", "Value": 2}]


class Counter:
    """Counts how many calls are in flight, and waits until `meet` of them are."""

    def __init__(self, meet: int) -> None:
        self.meet, self.now, self.most = meet, 0, 0
        self._changed = threading.Condition()

    def __call__(self, item: Any) -> Any:
        with self._changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self.meet, timeout=20)
        time.sleep(0.002)
        with self._changed:
            self.now -= 1
        return item


@pytest.mark.parametrize(
    ("written", "at_once", "most"), [(3, 8, 3), (0, 4, 4), (9, 2, 2), (1, 8, 1), ("{% 2 %}", 8, 2)]
)
def test_as_many_children_run_at_once_as_both_limits_say(
    written: Any, at_once: int, most: int
) -> None:
    counter = Counter(most)
    machine = {"M": mapped(Items=list(range(30)), MaxConcurrency=written)}
    done = run(machine, {"F": counter}, at_once=at_once)
    assert done.output == list(range(30))
    assert counter.most == most


def some_fail(*bad: int) -> Any:
    def work(item: Any) -> Any:
        numbers = item["Items"] if isinstance(item, dict) else [item]
        if set(numbers) & set(bad):
            raise ValueError(f"poisoned {numbers}")
        return item

    return work


@pytest.mark.parametrize(
    ("tolerated", "fails", "ends"),
    [
        ({}, (3,), False),
        ({}, (), True),
        ({"ToleratedFailureCount": 2}, (3, 4), True),
        ({"ToleratedFailureCount": 2}, (3, 4, 5), False),
        ({"ToleratedFailurePercentage": 20}, (3, 4), True),
        ({"ToleratedFailurePercentage": 20}, (3, 4, 5), False),
        ({"ToleratedFailurePercentage": 100}, tuple(range(10)), True),
        ({"ToleratedFailureCount": 1, "ToleratedFailurePercentage": 90}, (1, 2), False),
    ],
)
def test_more_failures_than_tolerated_fail_the_map(
    tolerated: dict[str, Any], fails: tuple[int, ...], ends: bool
) -> None:
    bucket = MemoryBucket()
    catch = [{"ErrorEquals": ["States.ExceedToleratedFailureThreshold"], "Next": "Late"}]
    states = {
        "M": mapped(
            Items=list(range(10)), ResultWriter=WRITER, Catch=catch, **tolerated, MaxConcurrency=1
        ),
        "Late": {"Type": "Pass", "Output": "late", "End": True},
    }
    done = run(states, {"F": some_fail(*fails)}, buckets={BUCKET: bucket})
    assert done.status == "SUCCEEDED"
    assert (done.output != "late") is ends
    records = results(bucket)
    if ends:
        assert len(records["FAILED"]) == len(fails)
        assert len(records["SUCCEEDED"]) == 10 - len(fails)
    for record in records["FAILED"]:
        assert record["Error"] == "ValueError"
        assert record["RedriveStatus"] == "REDRIVABLE"
        assert f"poisoned [{record['Input']}]" in json.loads(record["Cause"])["errorMessage"]
        assert "Output" not in record


def test_no_child_begins_once_more_failed_than_is_tolerated() -> None:
    calls: list[int] = []
    failed = run(
        {"M": mapped(Items=list(range(50)), MaxConcurrency=1)},
        {"F": lambda n: calls.append(n) or some_fail(3)(n)},
    )
    assert (failed.status, failed.error) == ("FAILED", "States.ExceedToleratedFailureThreshold")
    # One more may have been begun before the failure was counted.
    assert len(calls) <= 5


def test_a_failed_batch_counts_every_item_of_it() -> None:
    machine = {
        "M": mapped(
            Items=list(range(10)), ItemBatcher={"MaxItemsPerBatch": 5}, ToleratedFailureCount=4
        )
    }
    assert run(machine, {"F": some_fail(0)}).error == "States.ExceedToleratedFailureThreshold"
    machine["M"]["ToleratedFailureCount"] = 5
    done = run(machine, {"F": some_fail(0)})
    assert done.output[0]["Status"] == "FAILED"
    assert done.output[1] == {"Items": [5, 6, 7, 8, 9]}


@pytest.mark.parametrize("over", [0, 1])
def test_an_item_over_the_limit_ends_the_execution_past_every_catch(over: int) -> None:
    text = "x" * (STATE_LIMIT_BYTES - 2 + over)
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "M2"}]
    reader = {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": "JSON"},
        "Arguments": {"Bucket": BUCKET, "Key": "l"},
    }
    states = {
        "M": mapped(
            {"P": {"Type": "Pass", "Output": 1, "End": True}}, ItemReader=reader, Catch=catch
        ),
        "M2": {"Type": "Pass", "End": True},
    }
    bucket = MemoryBucket({"l": json.dumps([text]).encode()})
    done = run(states, buckets={BUCKET: bucket})
    assert done.error == ("States.DataLimitExceeded" if over else None)
    states["M"]["ItemBatcher"] = {"MaxItemsPerBatch": 2}
    assert run(states, buckets={BUCKET: bucket}).error == "States.DataLimitExceeded"


def test_a_result_over_the_limit_fails_its_child_and_only_that() -> None:
    """No Catch in the child sees it; what the parent sees is a child that failed."""
    inner = {
        "Work": task(Catch=[{"ErrorEquals": ["States.ALL"], "Next": "Saved"}]),
        "Saved": {"Type": "Pass", "Output": "saved", "End": True},
    }
    large = "x" * STATE_LIMIT_BYTES
    machine = {"M": mapped(inner, Items=[0, 1], ToleratedFailurePercentage=50)}
    done = run(machine, {"F": lambda n: large if n else n})
    assert done.output[0] == 0
    assert done.output[1]["Error"] == "States.DataLimitExceeded"


def test_results_together_over_the_limit_need_a_writer() -> None:
    large = "x" * (STATE_LIMIT_BYTES // 2)
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "P"}]
    machine = {
        "M": mapped(Items=[0, 1], Catch=catch),
        "P": {"Type": "Pass", "End": True},
    }
    assert run(machine, {"F": lambda _: large}).error == "States.DataLimitExceeded"
    machine["M"]["ResultWriter"] = WRITER
    bucket = MemoryBucket()
    assert run(machine, {"F": lambda _: large}, buckets={BUCKET: bucket}).status == "SUCCEEDED"
    assert [json.loads(r["Output"]) for r in results(bucket)["SUCCEEDED"]] == [large, large]


def test_a_full_result_file_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstokg_local.engine.results.FILE_BYTES", 2000)
    bucket = MemoryBucket()
    run(
        {"M": mapped(Items=list(range(20)), ResultWriter=WRITER)},
        {"F": lambda n: n},
        buckets={BUCKET: bucket},
    )
    assert sorted(int(r["Output"]) for r in results(bucket)["SUCCEEDED"]) == list(range(20))
    assert sum("SUCCEEDED_" in key for key in bucket.objects) > 3


def test_a_map_is_tried_again_as_a_whole_and_each_try_writes_its_own_results() -> None:
    bucket, calls = MemoryBucket(), []

    def fails_first(item: int) -> int:
        calls.append(item)
        if len(calls) == 1:
            raise ValueError
        return item

    retry = [{"ErrorEquals": ["States.ExceedToleratedFailureThreshold"], "MaxAttempts": 1}]
    machine = {"M": mapped(Items=[7], ResultWriter=WRITER, Retry=retry)}
    assert run(machine, {"F": fails_first}, buckets={BUCKET: bucket}).status == "SUCCEEDED"
    assert calls == [7, 7]
    assert sum(key.endswith("manifest.json") for key in bucket.objects) == 2


def test_a_childs_own_retry_and_catch_work_inside_it() -> None:
    calls: list[int] = []

    def work(n: int) -> int:
        calls.append(n)
        if n == 1 or calls.count(n) == 1:
            raise ValueError(n)
        return n

    inner = {
        "Work": task(
            Retry=[{"ErrorEquals": ["ValueError"], "MaxAttempts": 2}],
            Catch=[{"ErrorEquals": ["States.ALL"], "Output": "lost", "Next": "End"}],
        ),
        "End": {"Type": "Succeed"},
    }
    done = run({"M": mapped(inner, Items=[0, 1, 2])}, {"F": work})
    assert done.output == [0, "lost", 2]
    assert sorted(calls) == [0, 0, 1, 1, 1, 2, 2]


def test_a_child_knows_itself_as_an_execution_of_its_own() -> None:
    inner = {
        "P": {
            "Type": "Pass",
            "Output": {
                "input": "{% $states.context.Execution.Input %}",
                "id": "{% $states.context.Execution.Id %}",
            },
            "End": True,
        }
    }
    done = run({"M": mapped(inner, Items=["a", "b"], Label="L")}, execution_input={"whole": 1})
    assert [child["input"] for child in done.output] == ["a", "b"]
    assert len({child["id"] for child in done.output}) == 2
    assert ":execution:machine/L:" in done.output[0]["id"]


def test_progress_is_told_child_by_child() -> None:
    told: list[tuple[str, int, int]] = []
    machine = {"M": mapped(Items=[0, 1, 2], ToleratedFailurePercentage=100, MaxConcurrency=1)}
    run(machine, {"F": some_fail(1)}, progress=lambda *line: told.append(line))
    assert told == [("M", 0, 0), ("M", 1, 0), ("M", 2, 1), ("M", 3, 1)]


def test_who_leaves_ends_a_map_between_two_tasks() -> None:
    left = threading.Event()
    calls: list[int] = []

    def work(payload: Any, _: object) -> Any:
        calls.append(payload)
        left.set()
        return payload

    machine = StateMachine(
        definition(M=mapped(Items=list(range(100)), MaxConcurrency=1)),
        {"F": work},
        standard=Standard(),
    )
    assert machine.execute(None, gone=left.is_set).status == "TIMED_OUT"
    assert calls == [0]


@pytest.mark.parametrize(
    "fields",
    [
        {"ItemReader": {**LISTED, "Resource": "arn:aws:states:::s3:headObject"}},
        {"ItemReader": {**LISTED, "ReaderConfig": {"InputType": "CSV"}}},
        {"ItemReader": {**LISTED, "ReaderConfig": {"Transformation": "LOAD_AND_FLATTEN"}}},
        {"ResultWriter": {**WRITER, "WriterConfig": {"OutputType": "JSONL"}}},
    ],
)
def test_what_would_run_otherwise_than_in_aws_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        run({"M": mapped(**fields)}, {"F": id})


def test_an_express_machine_has_no_distributed_map() -> None:
    with pytest.raises(Unsupported, match="Express"):
        StateMachine(definition(M=mapped()), {"F": lambda payload, _: payload})
