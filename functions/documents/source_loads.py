"""Loads of `sources/NAMESPACE/` after changes or by schedule."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docstokg.contracts.request import NAMESPACE_PATTERN
from docstokg.observability import Telemetry
from docstokg.ports import LoadRuns

JOB = "load_sources"
# Seconds without a change before a load; a schedule is up to a minute late.
QUIET_S = 60
# Latest start after the first change that is not loaded, with the schedule's minute.
LONGEST_S = 600 - QUIET_S
# Waits before a failed load is tried again.
WAITS_S = (300, 900, 2_700)
FAILED = ("FAILED", "TIMED_OUT")
# Deleted documents that a load removes even if they are over 20 % of the namespace.
MOST_REMOVED = 10
PREFIX = "sources-"


@dataclass
class SourceLoads:
    """At most one such load per namespace; changes during one cause another."""

    _runs: LoadRuns
    _bucket: str
    _telemetry: Telemetry

    def changed(self, messages: Sequence[Mapping[str, Any]], function: str) -> None:
        """Schedule loads of the namespaces in S3 events, and failed loads again.

        A load starts after a minute without a change, and at the latest 10 minutes after the first.
        Keys without a namespace are logged and skipped. `messages`: of the queue, which delivers
        them again after an error. `function`: ARN that the schedule calls.
        """
        details = [_detail(message["body"]) for message in messages]
        for detail in details:
            if "executionArn" in detail:
                self._try_again(str(detail.get("name")), function)
        keys = [detail for detail in details if "executionArn" not in detail]
        for namespace in dict.fromkeys(map(self._namespace, keys)):
            if namespace:
                self._postpone(namespace, function)

    def load(self, event: Mapping[str, Any], function: str) -> dict[str, Any]:
        """Start the load of a namespace, or postpone it while another runs.

        Returns `run_id`, or `postponed`.
        """
        namespace, now = event["namespace"], int(time.time())
        name, attempt = f"{PREFIX}{namespace}", event.get("attempt", 0)
        if any(run.rpartition("-")[0] == name for run in self._runs.unfinished()):
            first = event.get("first", now)
            self._call_at(now + QUIET_S, namespace, function, first=first, attempt=attempt)
            return {"postponed": True}
        run_id = f"{name}-{event.get('at') or now:x}"
        arguments = {
            "run_id": run_id,
            "kind": "load",
            "namespace": namespace,
            "bucket": self._bucket,
            "prefix": f"sources/{namespace}/",
            "sync": True,
            "max_removed": MOST_REMOVED,
            "remove": [],
            "attempt": attempt,
        }
        if self._runs.find(run_id) is None:
            self._runs.start(run_id, arguments)
        return {"run_id": run_id}

    def _postpone(self, namespace: str, function: str) -> None:
        now = int(time.time())
        at, first, attempt = now + QUIET_S, now, 0
        due = self._runs.scheduled(namespace)
        if due is not None and due["at"] <= now:
            # Its call may be late, and would be lost: the next schedule has the same name.
            if "postponed" in self.load(due, function):
                return
        elif due is not None:
            first, attempt = due.get("first", now), due.get("attempt", 0)
            # Neither the longest wait nor that of a failed load becomes longer or shorter.
            at = due["at"] if attempt else min(at, max(due["at"], first + LONGEST_S))
        self._call_at(at, namespace, function, first=first, attempt=attempt)

    def _try_again(self, run_id: str, function: str) -> None:
        run = self._runs.find(run_id)
        if run is None or not run.failed or not run_id.startswith(PREFIX):
            return
        attempt, namespace = run.arguments.get("attempt", 0), run.arguments["namespace"]
        if attempt >= len(WAITS_S):
            self._telemetry.count("ingest_given_up_total")
            self._telemetry.log("ERROR", "load_given_up", run_id=run_id, namespace=namespace)
            return
        now = int(time.time())
        at = now + WAITS_S[attempt]
        self._call_at(at, namespace, function, first=now, attempt=attempt + 1)

    def _call_at(self, at: int, namespace: str, function: str, **arguments: int) -> None:
        event = {"job": JOB, "namespace": namespace, "at": at, **arguments}
        self._runs.call_later(namespace, at - time.time(), function, event)

    def _namespace(self, detail: Mapping[str, Any]) -> str:
        try:
            key = str(detail["object"]["key"])
        except (KeyError, TypeError):
            key = ""
        namespace, _, name = key.removeprefix("sources/").partition("/")
        if not name or re.fullmatch(NAMESPACE_PATTERN, namespace) is None:
            self._telemetry.log("WARNING", "source_ignored", key=key[:200])
            return ""
        return namespace


def _detail(body: str) -> dict[str, Any]:
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError):
        return {}
    return detail if isinstance(detail, dict) else {}
