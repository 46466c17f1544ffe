"""Entry point: traces and their clean-up."""

from docstokg.contracts import Json
from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring
from docstokg_functions.record.record import record, remove_expired

CLEAN_UP = "remove_expired_traces"
TRACE_DAYS = 30


def build(wiring: Wiring) -> Handler:
    """Return the handler: `record` for SQS records, `remove_expired` for the job CLEAN_UP."""
    store, telemetry = wiring.trace_store(), wiring.telemetry

    def handler(event: Json, context: object) -> Json:
        if event.get("job") == CLEAN_UP:
            return remove_expired(TRACE_DAYS, store, telemetry)
        return record(event["Records"], store, telemetry)

    return handler


__getattr__ = entry_point(build, globals())
