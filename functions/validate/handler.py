"""Entry point: first step."""

import time

from docstokg.contracts import Json
from docstokg.contracts.chat import CHAT_ROUTES
from docstokg.contracts.envelope import Envelope
from docstokg.contracts.state import Validated
from docstokg.entry import entry_point
from docstokg.usecases.chat import error_reply
from docstokg.usecases.refusals import tell_refusal
from docstokg.wiring import Handler, Wiring
from docstokg_functions.validate.validate import validate


def build(wiring: Wiring) -> Handler:
    """Return the handler."""

    def handler(event: Json, context: object) -> Json:
        envelope = Envelope.model_validate(event["envelope"])
        validated = validate(
            envelope,
            rules=wiring.current_settings(),
            started_at=str(event.get("started_at", "")),
            now_ms=time.time() * 1000,
        )
        if validated.reply:
            tell_refusal(wiring.telemetry, envelope, validated.reply)
            if envelope.route in CHAT_ROUTES:
                validated = Validated(reply=error_reply(validated.reply))
        return validated.model_dump(mode="json")

    return handler


__getattr__ = entry_point(build, globals())
