"""Loads of `sources/NAMESPACE/` after changes or by schedule."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from docstokg.contracts.request import NAMESPACE_PATTERN
from docstokg.observability import Telemetry
from docstokg.ports import LoadRuns

JOB = "load_sources"
# Seconds without a change before a load; a schedule is up to a minute late.
QUIET_S = 60
# Deleted documents that a load removes even if they are over 20 % of the namespace.
MOST_REMOVED = 10


class SourceLoads:
    """At most one such load per namespace; changes during one cause another."""

    def __init__(self, runs: LoadRuns, bucket: str, telemetry: Telemetry) -> None:
        self._runs, self._bucket, self._telemetry = runs, bucket, telemetry

    def changed(self, messages: Sequence[Mapping[str, Any]], function: str) -> None:
        """Postpone the loads of the namespaces in S3 events; log and skip keys without one.

        `messages`: of the queue, which delivers them again after an error. `function`: ARN that the
        schedule calls.
        """
        for namespace in dict.fromkeys(self._namespace(message["body"]) for message in messages):
            if namespace:
                self._postpone(namespace, function)

    def load(self, event: Mapping[str, Any], function: str) -> dict[str, Any]:
        """Start the load of a namespace, or postpone it while another runs.

        Returns `run_id`, or `postponed`.
        """
        namespace = event["namespace"]
        name = f"sources-{namespace}"
        if any(run.rpartition("-")[0] == name for run in self._runs.unfinished()):
            self._postpone(namespace, function)
            return {"postponed": True}
        run_id = f"{name}-{event.get('at') or int(time.time()):x}"
        arguments = {
            "run_id": run_id,
            "kind": "load",
            "namespace": namespace,
            "bucket": self._bucket,
            "prefix": f"sources/{namespace}/",
            "sync": True,
            "max_removed": MOST_REMOVED,
            "remove": [],
        }
        self._runs.start(run_id, arguments)
        return {"run_id": run_id}

    def _postpone(self, namespace: str, function: str) -> None:
        event = {"job": JOB, "namespace": namespace, "at": int(time.time()) + QUIET_S}
        self._runs.call_later(namespace, QUIET_S, function, event)

    def _namespace(self, body: str) -> str:
        try:
            key = str(json.loads(body)["detail"]["object"]["key"])
        except (ValueError, KeyError, TypeError):
            key = ""
        namespace, _, name = key.removeprefix("sources/").partition("/")
        if not name or re.fullmatch(NAMESPACE_PATTERN, namespace) is None:
            self._telemetry.log("WARNING", "source_ignored", key=key[:200])
            return ""
        return namespace
