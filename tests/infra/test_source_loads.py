"""Loads that changes of the bucket start: the real function, a real machine and moto's AWS."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from docstokg.errors import DocsToKGError, Misconfigured
from docstokg.ports import LoadRun
from docstokg_functions.documents.source_loads import (
    JOB,
    LONGEST_S,
    MOST_REMOVED,
    PREFIX,
    WAITS_S,
)
from docstokg_local.cli import index_jobs
from tests.infra.test_bucket_jobs import BUCKET, PASSES, REGION, Deployment
from tests.ingest_runner import run_ingest, stage_functions

FUNCTION = f"arn:aws:lambda:{REGION}:123456789012:function:docstokg-dev-documents:live"
CALLED = SimpleNamespace(invoked_function_arn=FUNCTION)
GROUP = "docstokg-dev-ingest"


class Changes(Deployment):
    """The documents function with a bucket, a machine, and schedules that a test makes due."""

    def __init__(self, folder: Path, session: Any) -> None:
        super().__init__(folder, PASSES)
        self.scheduler = session.client("scheduler")
        self.scheduler.create_schedule_group(Name=GROUP)

    def notify(self, *keys: str) -> None:
        """Deliver S3 events about objects, as the queue does."""
        records = [{"messageId": key, "body": changed(key)} for key in keys]
        assert self.handler({"Records": records}, CALLED) == {}

    def waiting(self) -> dict[str, dict[str, Any]]:
        """Schedules by namespace."""
        names = [schedule["Name"] for schedule in self.scheduler.list_schedules()["Schedules"]]
        return {name: self.scheduler.get_schedule(Name=name, GroupName=GROUP) for name in names}

    def due(self) -> dict[str, Any]:
        """Return the event of the schedule of the namespace `default`."""
        return dict(json.loads(self.waiting()["default"]["Target"]["Input"]))

    def fire(self) -> dict[str, Any]:
        """Let the time of the schedule come: the service calls its target, and deletes it."""
        target = self.waiting()["default"]["Target"]
        assert target["Arn"] == FUNCTION
        self.scheduler.delete_schedule(Name="default", GroupName=GROUP)
        return self.handler(json.loads(target["Input"]), CALLED)

    def load(self, run_id: str) -> dict[str, Any]:
        """Run the stages of a run; return its report."""
        objects = self.wiring.object_store()
        functions = stage_functions(self.wiring)
        execution = run_ingest(functions, objects, self.run_input(run_id))
        assert execution.status == "SUCCEEDED", execution
        return dict(json.loads(objects.get(f"runs/{run_id}/report.json")))

    def started(self) -> list[str]:
        executions = self.states.list_executions(stateMachineArn=self.arn)["executions"]
        return [execution["name"] for execution in executions]


def changed(key: str) -> str:
    event = {"source": "aws.s3", "detail": {"bucket": {"name": BUCKET}, "object": {"key": key}}}
    return json.dumps(event)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give moto, on a loaded machine, more than the two seconds of a request."""
    monkeypatch.setattr("docstokg.adapters.aws.stepfunctions_runs.TIME_S", 60.0)


@pytest.fixture
def changes(aws: Any, patient: None, tmp_path: Path) -> Iterator[Changes]:
    changes = Changes(tmp_path, aws)
    yield changes
    changes.wiring.close()


def set_clocks(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    """Set the clocks of the function and of its scheduler to this epoch second."""
    clock = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(now, zone))
    monkeypatch.setattr("docstokg.adapters.aws.stepfunctions_runs.datetime", clock)
    ours = SimpleNamespace(time=lambda: now)
    monkeypatch.setattr("docstokg_functions.documents.source_loads.time", ours)


def test_changes_without_a_pause_start_a_load(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.notify("sources/default/a.md")
    first = changes.due()
    for _ in range(20):
        due = changes.due()
        set_clocks(monkeypatch, due["at"] - 2)
        changes.notify("sources/default/a.md")
    assert due["first"] == first["first"]
    assert due["at"] - first["first"] == LONGEST_S


def test_a_failed_load_is_scheduled_again(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the event that Step Functions sends, not for a load by hand or one that was stopped."""
    runs = changes.wiring.load_runs()
    assert runs is not None
    for attempt in range(len(WAITS_S) + 1):
        run_id = f"{PREFIX}default-{attempt:x}"
        arguments = {"namespace": "default", "attempt": attempt}
        run = LoadRun(arguments, True, True)
        monkeypatch.setattr(type(runs), "find", lambda self, name, run=run: run)
        body = json.dumps({"detail": {"executionArn": "arn:x", "name": run_id, "status": "FAILED"}})
        changes.handler({"Records": [{"body": body}]}, CALLED)
        event = changes.due()
        if attempt < len(WAITS_S):
            assert event["attempt"] == attempt + 1
            assert 0 <= event["at"] - time.time() - WAITS_S[attempt] + 5 <= 5
    assert "load_given_up" in changes.lines[-1]
    changes.handler({"Records": [{"body": body.replace("sources-default-3", "by-hand")}]}, CALLED)
    assert changes.due() == event


def test_changes_of_one_quiet_period_start_one_load(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.notify("sources/default/a.md")
    first = changes.waiting()["default"]
    set_clocks(monkeypatch, changes.due()["at"] - 1)
    changes.notify("sources/default/b.md", "sources/default/c/d.md", "sources/other/a.md")
    waiting = changes.waiting()
    assert sorted(waiting) == ["default", "other"]
    assert waiting["default"]["ScheduleExpression"] > first["ScheduleExpression"]
    assert waiting["default"]["ActionAfterCompletion"] == "DELETE"
    role = waiting["default"]["Target"]["RoleArn"]
    assert role == changes.wiring.settings.load_schedule_role
    assert changes.started() == []
    assert changes.fire() == {"run_id": changes.started()[0]}
    (name,) = changes.started()
    assert name.startswith("sources-default-")
    assert changes.run_input(name) == {
        "run_id": name,
        "kind": "load",
        "namespace": "default",
        "bucket": BUCKET,
        "prefix": "sources/default/",
        "sync": True,
        "max_removed": MOST_REMOVED,
        "remove": [],
        "attempt": 0,
    }
    assert list(changes.waiting()) == ["other"]
    job = changes.job(name)
    assert (job["namespace"], job["state"]) == ("default", "running")


def test_changes_during_a_load_are_loaded_after_it(changes: Changes) -> None:
    changes.notify("sources/default/a.md")
    changes.fire()
    (first,) = changes.started()
    changes.notify("sources/default/b.md")
    assert changes.fire() == {"postponed": True}
    assert changes.started() == [first]
    changes.states.stop_execution(executionArn=changes.execution(first))
    event = changes.due()
    assert changes.handler(event | {"at": event["at"] + 1}, CALLED)["run_id"] != first
    assert len(changes.started()) == 2


def test_other_loads_do_not_block_a_load(
    changes: Changes,
) -> None:
    changes.send("load", {"documents": [{"doc_id": "x.md", "text": "X"}]}, "sources-other")
    for namespace in ("a", "a-b"):
        assert "run_id" in changes.handler({"job": JOB, "namespace": namespace}, CALLED)
    assert len(changes.started()) == 3


@pytest.mark.parametrize(
    "key",
    [
        "sources/x.md", "sources/default/", "sources//x.md", "sources/def%20ault/x.md",
        "sources/Default/x.md", f"sources/{'n' * 64}/x.md", "sources/../x.md", "x.md", "",
    ],
)  # fmt: skip
def test_keys_without_namespace_are_refused_and_logged_once(changes: Changes, key: str) -> None:
    changes.notify(key, "sources/default/a.md")
    assert list(changes.waiting()) == ["default"]
    (line,) = [entry for line in changes.lines if "event" in (entry := json.loads(line))]
    assert (line["event"], line["key"]) == ("source_ignored", key)


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"detail": {"object": null}}', "7"])
def test_a_message_of_another_shape_is_refused_once(changes: Changes, body: str) -> None:
    assert changes.handler({"Records": [{"body": body}]}, CALLED) == {}
    assert not changes.waiting()
    assert "source_ignored" in changes.lines[0]


def test_a_lost_scheduler_leaves_messages_in_the_queue(changes: Changes) -> None:
    changes.scheduler.delete_schedule_group(Name=GROUP)
    with pytest.raises(DocsToKGError):
        changes.notify("sources/default/a.md")


def test_a_removed_object_removes_its_document(changes: Changes) -> None:
    """The loads run on the definition of the machine, over the stages and a laptop's stores."""
    objects = changes.wiring.object_store()

    def load() -> dict[str, Any]:
        run_id = changes.fire()["run_id"]
        report = changes.load(run_id)
        changes.states.stop_execution(executionArn=changes.execution(run_id))
        return report

    names = [f"{letter}.md" for letter in "abc"]
    for name in names:
        objects.put(f"sources/default/{name}", f"# {name}\n\nThe weir was rebuilt.".encode())
        changes.notify(f"sources/default/{name}")
    assert load()["loaded"] == 3
    objects.delete("sources/default/b.md")
    time.sleep(1)  # names of runs contain the second
    changes.notify("sources/default/b.md")
    assert load()["removed"] == 1
    documents = changes.wiring.register().find("default", names)
    assert sorted(document.doc_id for document in documents) == ["a.md", "c.md"]


@pytest.fixture
def ending(credentials: None, patient: None, tmp_path: Path) -> Iterator[Changes]:
    """As `changes`, with a machine whose executions end at once."""
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        changes = Changes(tmp_path, boto3.session.Session(region_name=REGION))
        yield changes
        changes.wiring.close()


def test_many_deletions_wait_for_agreement(
    ending: Changes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """15 of 60 documents: the job says so, with the command that agrees; then they are removed."""
    changes = ending
    objects = changes.wiring.object_store()
    names = [f"{number:02}.md" for number in range(60)]
    for name in names:
        objects.put(f"sources/default/{name}", f"# {name}\n\nWeir {name} was rebuilt.".encode())
    changes.notify("sources/default/00.md")
    first = changes.fire()["run_id"]
    assert changes.load(first)["loaded"] == 60
    assert changes.finished_job(first)["state"] == "done"
    for name in names[:15]:
        objects.delete(f"sources/default/{name}")
    time.sleep(1)  # names of runs contain the second
    changes.notify("sources/default/00.md")
    second = changes.fire()["run_id"]
    report = changes.load(second)
    assert (report["removed"], report["kept_back_count"]) == (0, 15)
    job = changes.finished_job(second)
    assert job["state"] == "needs_agreement"
    assert f'make index-job JOB="agree {second}"' in job["reason"]
    monkeypatch.setattr("docstokg.wiring.Wiring", lambda settings: changes.wiring)
    time.sleep(1)
    index_jobs.agree(second)
    third = capsys.readouterr().out.split()[0]
    assert changes.load(third)["removed"] == 15
    documents = changes.wiring.register().find("default", names)
    assert sorted(document.doc_id for document in documents) == names[15:]
    with pytest.raises(Misconfigured, match="kept no document"):
        index_jobs.agree(first)
