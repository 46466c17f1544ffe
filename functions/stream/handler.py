"""Entry point of `POST /v1/answer/stream`."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import cast

from docstokg.contracts import Json
from docstokg.contracts.envelope import Reply
from docstokg.entry import entry_point
from docstokg.usecases.answer_checks import checks_of
from docstokg.usecases.live import EVENT_HEADERS, LiveReply, event_frame
from docstokg.usecases.problems import replied
from docstokg.wiring import Handler, Wiring
from docstokg_functions.stream.request import edge_of, envelope_of
from docstokg_functions.stream.runtime import Exchange


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    workflow, store, telemetry = wiring.workflow(), wiring.response_cache(), wiring.telemetry
    checks = checks_of(wiring.embedder(), wiring.knowledge_graph(), wiring.settings.domains)

    def handler(event: Json, context: object) -> Json:
        exchange, edge = cast(Exchange, context), edge_of(event)
        if exchange.is_begun:  # a retry after a refused credential: keep the events sent
            return {}
        exchange.headers = EVENT_HEADERS | edge["headers"]
        envelope = envelope_of(event, edge["namespaces"])
        if isinstance(envelope, Reply):
            reply = envelope
        else:
            live = LiveReply(checks, telemetry, lambda *event: exchange.send(event_frame(*event)))
            with ThreadPoolExecutor(1, thread_name_prefix="execution") as executor:
                running = executor.submit(replied, workflow.run, envelope, telemetry)
                live.listen(
                    envelope.request_id, store, lambda time_s: not wait([running], time_s)[1]
                )
            reply = running.result()
            live.finish(reply, "answer")
        headers = {"Content-Type": "application/json"} | reply.headers | edge["headers"]
        return {"statusCode": reply.statusCode, "headers": headers, "body": reply.body}

    return handler


__getattr__ = entry_point(build, globals())
