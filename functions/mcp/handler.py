"""Entry point of `POST /mcp`."""

from typing import Any

from docstokg.contracts.envelope import Envelope
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring
from docstokg_functions.mcp.protocol import answer
from docstokg_functions.mcp.tools import offered_tools


def writer(wiring: Wiring) -> str | None:
    """Name who writes answers: the first model that can be asked here, else the built-in one."""
    models = wiring.settings.models
    remote = wiring.model_access().remote(models)
    if remote:
        return remote[0]
    return EXTRACTIVE if EXTRACTIVE in models else None


def build(wiring: Wiring) -> Handler:
    """Make the handler over the routes that are there: in this process, or deployed beside it."""
    tools = offered_tools(
        wiring.workflow(),
        wiring.check_function(),
        wiring.traverse_function(),
        wiring.documents_function(),
        writer(wiring),
    )
    without_walks = tuple(tool for tool in tools if tool.route != "traverse")

    cursor_key = wiring.cursor_key()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        walks = wiring.current_settings().feature_traversal_tool
        reply = answer(
            Envelope.model_validate(event),
            tools=tools if walks else without_walks,
            cursor_key=cursor_key,
            telemetry=wiring.telemetry,
        )
        return reply.model_dump(mode="json")

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
