"""Traces from queue to graph."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from docstokg.contracts.state import TraceMessage
from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Permanent, cause
from docstokg.observability import Telemetry
from docstokg.ports import TraceStore

DAY_MS = 86_400_000


def record(
    records: Sequence[Mapping[str, Any]], store: TraceStore, telemetry: Telemetry
) -> dict[str, list[dict[str, str]]]:
    """Write a batch of SQS records; return the failed ones as `batchItemFailures`."""
    failed: list[str] = []
    messages: dict[str, TraceMessage] = {}
    for item in records:
        try:
            messages[item["messageId"]] = TraceMessage.model_validate_json(item["body"])
        except ValidationError:
            failed.append(item["messageId"])
            telemetry.log("WARNING", "trace_malformed", message_id=item["messageId"])
    try:
        if messages:
            store.write(tuple(messages.values()), Deadline.after(time_budget.WRITE_TRACES_S))
    except Permanent as error:
        telemetry.log("WARNING", "traces_refused", count=len(messages), **cause(error))
        for message_id, message in messages.items():
            try:
                store.write((message,), Deadline.after(time_budget.WRITE_TRACES_S))
            except DocsToKGError as refused:
                failed.append(message_id)
                fields = {"request_id": message.request_id, **cause(refused)}
                telemetry.log("WARNING", "trace_not_written", **fields)
    except DocsToKGError as error:
        failed += list(messages)
        requests = [message.request_id for message in messages.values()]
        telemetry.log("WARNING", "traces_not_written", request_ids=requests, **cause(error))
    telemetry.log("INFO", "traces", written=len(records) - len(failed), failed=len(failed))
    return {"batchItemFailures": [{"itemIdentifier": item} for item in failed]}


def remove_expired(days: int, store: TraceStore, telemetry: Telemetry) -> dict[str, int]:
    """Remove traces older than `days` days; return {"removed": number} and log it."""
    before = int(time.time() * 1000) - days * DAY_MS
    removed = store.remove_before(before, Deadline.after(time_budget.REMOVE_TRACES_S))
    telemetry.log("INFO", "traces_removed", removed=removed)
    return {"removed": removed}
