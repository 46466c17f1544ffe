"""Standard machines on engines that share no code with ours: sfnx's own runner and moto's.

sfnx knows batches by count, tolerated failures and what a failed child stands for, one child after
another; its authors measured it on AWS. moto 5.2.5 reads buckets and runs children side by side,
but parses no ItemBatcher and no ToleratedFailurePercentage, takes a ResultWriter's Parameters only,
calls a child that failed a null that succeeded, cannot list an empty prefix and names an
object's ETag otherwise than AWS does.
What it cannot do is taken out of `ingest.asl.json` before both run it.
"""

import copy
import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sfnx import testing as sfnx

from docstokg_local.engine.engine import Standard, StateMachine
from tests.infra.test_engines import second_engine
from tests.workflow.machines import BUCKET, LISTED, MemoryBucket, definition, mapped, run, task
from tests.workflow.test_ingest_machine import ASL, STAGES, Stages, folder_of

pytestmark = [
    pytest.mark.xdist_group("engines"),
    pytest.mark.filterwarnings("ignore"),
]
POISONED = type("Poisoned", (Exception,), {})
PASS = {"Type": "Pass", "End": True}


def poisoned(fails: set[int]) -> Callable[[Any], Any]:
    def work(item: Any) -> Any:
        numbers = item["Items"] if isinstance(item, dict) else [item]
        if fails & set(numbers):
            raise sfnx.Failure("Poisoned", "")
        return item

    return work


@given(
    count=st.integers(0, 12),
    fails=st.sets(st.integers(0, 11), max_size=6),
    batch=st.none() | st.integers(1, 5),
    tolerated_count=st.integers(0, 4),
    tolerated_share=st.integers(0, 100),
)
def test_batches_and_tolerated_failures_are_those_of_sfnx(
    count: int, fails: set[int], batch: int | None, tolerated_count: int, tolerated_share: int
) -> None:
    fields: dict[str, Any] = {"Items": list(range(count)), "MaxConcurrency": 3}
    fields["ToleratedFailureCount"] = tolerated_count
    fields["ToleratedFailurePercentage"] = tolerated_share
    if batch is not None:
        fields["ItemBatcher"] = {"MaxItemsPerBatch": batch, "BatchInput": {"x": 1}}
    machine = mapped({"Work": task("F")}, **fields)
    work = poisoned(fails)

    def reply(call: Any) -> Any:
        return {"Payload": work(call.arguments["Payload"]), "StatusCode": 200}

    expected = sfnx.run(definition(M=machine), None, reply)

    def ours(item: Any) -> Any:
        try:
            return work(item)
        except sfnx.Failure:
            raise POISONED from None

    done = run({"M": machine}, {"F": ours})
    if done.error is not None:
        with pytest.raises(sfnx.Failure) as failure:
            _ = expected.output
        assert failure.value.error == done.error
    else:
        assert list(map(_without_cause, done.output)) == list(map(_without_cause, expected.output))


def _without_cause(result: Any) -> Any:
    return {k: v for k, v in result.items() if k != "Cause"} if isinstance(result, dict) else result


class Moto:
    """Runs a Standard machine in moto, over a bucket there."""

    def __init__(self, engine: Any) -> None:
        import boto3

        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        self._engine = engine
        self._s3 = boto3.client("s3", region_name="eu-central-1", **keys)
        place = {"LocationConstraint": "eu-central-1"}
        self._s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)

    def fill(self, bucket: MemoryBucket) -> None:
        """Make the bucket there hold what the one here holds."""
        for listed in self._s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
            self._s3.delete_object(Bucket=BUCKET, Key=listed["Key"])
        for key, body in bucket.objects.items():
            self._s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def run(self, machine: dict[str, Any], functions: dict[str, Any], given_input: Any) -> Any:
        """Give (status, output or error)."""
        self._engine.steps = functions
        text = json.dumps(machine)
        for name in functions:
            arn = f"arn:aws:lambda:eu-central-1:123456789012:function:{name}"
            text = text.replace(f"${{{name}}}", arn)
        client = self._engine._client
        made = client.create_state_machine(
            name=str(uuid.uuid4()), roleArn=self._engine._role, definition=text, type="STANDARD"
        )
        arn = client.start_execution(
            stateMachineArn=made["stateMachineArn"], input=json.dumps(given_input)
        )["executionArn"]
        while (seen := client.describe_execution(executionArn=arn))["status"] == "RUNNING":
            time.sleep(0.01)
        done = seen["status"] == "SUCCEEDED"
        return seen["status"], json.loads(seen["output"]) if done else seen.get("error")


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with second_engine() as engine:
        yield Moto(engine)


SELECTED = {
    "i": "{% $states.context.Map.Item.Index %}",
    "k": "{% $states.context.Map.Item.Value.Key %}",
    "n": "{% $states.context.Map.Item.Value.Size %}",
}
LOOP = {
    "Start": {"Type": "Pass", "Assign": {"n": 0}, "Next": "Turn"},
    "Turn": {**task(), "Assign": {"n": "{% $n + 1 %}"}, "Next": "More?"},
    "More?": {
        "Type": "Choice",
        "Choices": [{"Condition": "{% $n < 4 %}", "Next": "Turn"}],
        "Default": "Done",
    },
    "Done": {"Type": "Pass", "Output": "{% $n %}", "End": True},
}
del LOOP["Turn"]["End"]
BRANCHES = [
    {"StartAt": "A", "States": {"A": task()}},
    {"StartAt": "B", "States": {"B": {"Type": "Pass", "Output": 2, "End": True}}},
]
CATCH = [
    {"ErrorEquals": ["States.ALL"], "Output": {"e": "{% $states.errorOutput.Error %}"}, "Next": "C"}
]
TABLE: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "objects": ({"M": mapped(ItemReader=LISTED, ItemSelector=SELECTED)}, lambda item: item),
    "one at a time": (
        {"M": mapped(ItemReader=LISTED, ItemSelector=SELECTED, MaxConcurrency=1)},
        lambda item: item["n"],
    ),
    "items": ({"M": mapped(Items="{% $states.input.l %}")}, lambda n: n + 1),
    "no items": ({"M": mapped(Items=[])}, lambda n: n),
    "no array": ({"M": mapped(Items="{% $states.input.x %}")}, lambda n: n),
    "inline": (
        {
            "M": {
                "Type": "Map",
                "Items": [3, 1, 2],
                "ItemSelector": {"v": "{% $states.context.Map.Item.Value %}"},
                "ItemProcessor": {"StartAt": "A", "States": {"A": task()}},
                "End": True,
            }
        },
        lambda item: item["v"] * 2,
    ),
    "parallel": ({"P": {"Type": "Parallel", "Branches": BRANCHES, "End": True}}, lambda _: "a"),
    "a branch fails": (
        {
            "P": {"Type": "Parallel", "Branches": BRANCHES, "Catch": CATCH, "End": True},
            "C": PASS,
        },
        lambda _: 1 // 0,
    ),
    "an iteration fails": (
        {
            "M": {
                "Type": "Map",
                "Items": [1],
                "ItemProcessor": {"StartAt": "A", "States": {"A": task()}},
                "Catch": CATCH,
                "End": True,
            },
            "C": PASS,
        },
        lambda _: 1 // 0,
    ),
    "a loop": (LOOP, lambda _: None),
    "fail": ({"F": {"Type": "Fail", "Error": "{% 'My' & $states.input.x %}"}}, lambda _: None),
    "wait": ({"W": {"Type": "Wait", "Seconds": "{% 0 %}", "End": True}}, lambda _: None),
}


@pytest.mark.parametrize("name", TABLE)
def test_both_engines_give_the_same(name: str, moto: Moto) -> None:
    states, function = TABLE[name]
    bucket = MemoryBucket({f"in/{n:03}": b"x" * n for n in range(100 if name == "objects" else 9)})
    if "ItemReader" in json.dumps(states):
        moto.fill(bucket)
    execution_input = {"l": [1, 2, 3], "x": 7}
    second = moto.run(definition(**states), {"F": function}, execution_input)
    done = run(states, {"F": function}, execution_input, buckets={BUCKET: bucket})
    assert (done.status, done.error if done.error else done.output) == second


def without_what_moto_lacks(etag: str) -> dict[str, Any]:
    """The file itself, but: batches of one object made by the selector, and no result files."""
    machine = copy.deepcopy(ASL)
    for stage in ("Read", "Compute", "Write"):
        state = machine["States"][stage]
        batcher, selector = state.pop("ItemBatcher"), state.pop("ItemSelector")
        selector["ETag"] = selector["ETag"].replace(".Etag", f".{etag}")
        state["ItemSelector"] = {"BatchInput": batcher["BatchInput"], "Items": [selector]}
        del state["ResultWriter"], state["Assign"]
        state.pop("ToleratedFailurePercentage", None)
    return machine


@pytest.mark.parametrize(
    ("count", "broken", "rounds"),
    [(1, {}, 3), (12, {}, 2), (3, {"book": "ValueError"}, 1)],
)
def test_both_engines_load_the_same(
    count: int, broken: dict[str, Any], rounds: int, moto: Moto
) -> None:
    execution_input = {"run_id": "run-1", "namespace": "ns", "bucket": BUCKET, "sync": False}
    execution_input |= {"max_removed": 0, "remove": [], "prefix": "sources/ns/"}
    first, second = folder_of(count), folder_of(count)
    for stages in (first, second):
        stages.broken, stages.rounds = broken, rounds
    standard = Standard({BUCKET: first.bucket}, lambda _: None)
    machine = StateMachine(without_what_moto_lacks("Etag"), first.table(), standard=standard)
    done = machine.execute(execution_input)

    moto.fill(second.bucket)
    put = second.bucket.put

    def put_there_too(key: str, body: bytes, *, if_absent: bool = False) -> bool:
        moto._s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        return put(key, body, if_absent=if_absent)

    second.bucket.put = put_there_too  # type: ignore[method-assign]
    functions = {name: (lambda p, f=f: f(p, None)) for name, f in second.table().items()}
    status, output = moto.run(without_what_moto_lacks("ETag"), functions, execution_input)
    assert (done.status, done.error if done.error else done.output) == (status, output)
    assert first.store == second.store
    assert first.bucket.objects == second.bucket.objects
    for stage in STAGES:
        assert _sorted(first, stage) == _sorted(second, stage)


def _sorted(stages: Stages, stage: str) -> list[str]:
    payloads = copy.deepcopy(stages.payloads[stage])
    for payload in payloads:
        if payload.get("error"):
            del payload["error"]["Cause"]
    return sorted(json.dumps(payload, sort_keys=True) for payload in payloads)
