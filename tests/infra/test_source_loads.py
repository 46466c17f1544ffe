"""Loads that changes of the bucket start: the real function, a real machine and moto's AWS."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docstokg.errors import DocsToKGError
from docstokg_functions.documents.source_loads import JOB, MOST_REMOVED, QUIET_S
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

    def say(self, *keys: str) -> None:
        """Deliver S3 events about objects, as the queue does."""
        records = [{"messageId": key, "body": changed(key)} for key in keys]
        assert self.handler({"Records": records}, CALLED) == {}

    def waiting(self) -> dict[str, dict[str, Any]]:
        """Schedules by namespace."""
        names = [one["Name"] for one in self.scheduler.list_schedules()["Schedules"]]
        return {name: self.scheduler.get_schedule(Name=name, GroupName=GROUP) for name in names}

    def fire(self, namespace: str = "default") -> dict[str, Any]:
        """Let the time of a schedule come: the service calls its target, and deletes it."""
        target = self.waiting()[namespace]["Target"]
        assert target["Arn"] == FUNCTION
        self.scheduler.delete_schedule(Name=namespace, GroupName=GROUP)
        return self.handler(json.loads(target["Input"]), CALLED)

    def started(self) -> list[str]:
        found = self.states.list_executions(stateMachineArn=self.arn)["executions"]
        return [one["name"] for one in found]


def changed(key: str) -> str:
    event = {"source": "aws.s3", "detail": {"bucket": {"name": BUCKET}, "object": {"key": key}}}
    return json.dumps(event)


@pytest.fixture
def changes(aws: Any, tmp_path: Path) -> Iterator[Changes]:
    found = Changes(tmp_path, aws)
    yield found
    found.wiring.close()


def test_changes_of_one_quiet_period_start_one_load(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.say("sources/default/a.md")
    first = changes.waiting()["default"]
    later = datetime.now(UTC) + timedelta(seconds=QUIET_S - 1)
    clock = SimpleNamespace(now=lambda zone: later)
    monkeypatch.setattr("docstokg.adapters.aws.stepfunctions_runs.datetime", clock)
    changes.say("sources/default/b.md", "sources/default/c/d.md", "sources/other/a.md")
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
    assert changes.given(name) == {
        "run_id": name,
        "kind": "load",
        "namespace": "default",
        "bucket": BUCKET,
        "prefix": "sources/default/",
        "sync": True,
        "max_removed": MOST_REMOVED,
        "remove": [],
    }
    assert list(changes.waiting()) == ["other"]
    told = json.loads(changes.ask("job", {"id": name}).body)
    assert (told["namespace"], told["state"]) == ("default", "running")


def test_changes_during_a_load_are_loaded_after_it(changes: Changes) -> None:
    changes.say("sources/default/a.md")
    changes.fire()
    (first,) = changes.started()
    changes.say("sources/default/b.md")
    assert changes.fire() == {"postponed": True}
    assert changes.started() == [first]
    changes.states.stop_execution(
        executionArn=changes.arn.replace(":stateMachine:", ":execution:") + f":{first}"
    )
    event = json.loads(changes.waiting()["default"]["Target"]["Input"])
    assert changes.handler(event | {"at": event["at"] + 1}, CALLED)["run_id"] != first
    assert len(changes.started()) == 2


def test_loads_of_other_namespaces_and_posted_documents_are_not_in_the_way(
    changes: Changes,
) -> None:
    changes.ask("load", {"documents": [{"doc_id": "x.md", "text": "X"}]}, "sources-other")
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
def test_a_key_without_a_namespace_is_refused_once_with_a_line(changes: Changes, key: str) -> None:
    changes.say(key, "sources/default/a.md")
    assert list(changes.waiting()) == ["default"]
    (line,) = [one for line in changes.lines if "event" in (one := json.loads(line))]
    assert (line["event"], line["key"]) == ("source_ignored", key)


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"detail": {"object": null}}', "7"])
def test_a_message_of_another_shape_is_refused_once(changes: Changes, body: str) -> None:
    assert changes.handler({"Records": [{"body": body}]}, CALLED) == {}
    assert not changes.waiting()
    assert "source_ignored" in changes.lines[0]


def test_a_lost_scheduler_leaves_the_messages_in_the_queue(changes: Changes) -> None:
    changes.scheduler.delete_schedule_group(Name=GROUP)
    with pytest.raises(DocsToKGError):
        changes.say("sources/default/a.md")


def test_a_removed_object_leads_to_the_removal_of_its_document(changes: Changes) -> None:
    """The loads run on the definition of the machine, over the stages and a laptop's stores."""
    objects, functions = changes.wiring.object_store(), stage_functions(changes.wiring)

    def load() -> dict[str, Any]:
        run_id = changes.fire()["run_id"]
        ended = run_ingest(functions, objects, changes.given(run_id))
        assert ended.status == "SUCCEEDED", ended
        changes.states.stop_execution(
            executionArn=changes.arn.replace(":stateMachine:", ":execution:") + f":{run_id}"
        )
        return dict(json.loads(objects.get(f"runs/{run_id}/report.json")))

    names = [f"{letter}.md" for letter in "abc"]
    for name in names:
        objects.put(f"sources/default/{name}", f"# {name}\n\nThe weir was rebuilt.".encode())
        changes.say(f"sources/default/{name}")
    assert load()["loaded"] == 3
    objects.delete("sources/default/b.md")
    time.sleep(1)  # names of runs contain the second
    changes.say("sources/default/b.md")
    assert load()["removed"] == 1
    there = changes.wiring.register().find("default", names)
    assert sorted(one.doc_id for one in there) == ["a.md", "c.md"]
