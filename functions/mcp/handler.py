"""Entry point of `POST /mcp`."""

from collections.abc import Callable

from docstokg.contracts import Json
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.routes import RouteName
from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring
from docstokg_functions.mcp.protocol import answer
from docstokg_functions.mcp.tools import TOOLS, Service


def writer(wiring: Wiring) -> str | None:
    """Return the answering model: the first available remote one, the built-in one, or None."""
    models = wiring.settings.models
    remote = wiring.model_access().remote(models)
    if remote:
        return remote[0]
    return EXTRACTIVE if EXTRACTIVE in models else None


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    run = wiring.workflow().run
    runs: dict[RouteName, Callable[[Envelope], Reply]] = {"search": run, "answer": run}
    if check := wiring.route_function("check"):
        runs["check"] = check.run
    if documents := wiring.route_function("documents"):
        runs |= dict.fromkeys(("documents", "namespaces", "passage"), documents.run)
    if walks := wiring.route_function("traverse"):
        runs["traverse"] = walks.run
    public_url = wiring.settings.public_url
    service = Service(runs, writer(wiring), wiring.telemetry, public_url)

    def handler(event: Json, context: object) -> Json:
        hidden = "" if wiring.current_settings().traverses else "traverse"
        tools = [tool for tool in TOOLS if tool.route in runs and tool.route != hidden]
        reply = answer(Envelope.model_validate(event), tools=tools, service=service)
        return reply.model_dump(mode="json")

    return handler


__getattr__ = entry_point(build, globals())
