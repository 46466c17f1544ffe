"""Requests of the command line."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer
from ulid import ULID

from docstokg.contracts import Json
from docstokg.contracts.envelope import Envelope
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.request import padded
from docstokg.contracts.routes import RouteName
from docstokg.domain.deadline import Deadline
from docstokg.ports import Workflow
from docstokg_local.cli.printing import echo, print_json
from docstokg_local.cli.receipts import save_receipt
from docstokg_local.server.authentication import EVERYBODY

if TYPE_CHECKING:
    from docstokg.wiring import Wiring
    from docstokg_local.engine.workflow import LocalWorkflow

SYNTHESIS_TOKENS = 512
AUTO = "auto"
INFO_S = 5.0
Shown = Literal["all", "answer", "json"]


class Outcome(NamedTuple):
    """Result of a request: a RAGResponse if `status` is 200, else a problem."""

    status: int
    body: Json


def submit(workflow: Workflow, request: Json, route: RouteName = "answer") -> Outcome:
    """Run one request through the whole state machine, without acl restrictions."""
    reply = workflow.run(envelope_of(request, route))
    return Outcome(reply.statusCode, json.loads(reply.body))


def envelope_of(request: Json, route: RouteName) -> Envelope:
    """Return the envelope of a request, with a new id and all rights."""
    body = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return Envelope.of(route, str(ULID()), EVERYBODY, body)


def _ask_live(wiring: "Wiring", workflow: "LocalWorkflow", request: Json) -> Outcome:
    from docstokg_local.cli.display import as_it_comes
    from docstokg_local.server.live import listening

    envelope = envelope_of(request, "answer")
    with (
        as_it_comes() as show_event,
        workflow.listening(envelope.request_id, listening(wiring)(show_event)),
    ):
        reply = workflow.run(envelope)
    return Outcome(reply.statusCode, json.loads(reply.body))


def request_of(fields: Json, options: Json, filters: Sequence[str], graph: bool) -> Json:
    """Return the RAGRequest; options that are not None override the file's `fields`.

    Raises `typer.BadParameter` without a query or for a wrong filter.
    """
    request = {**fields, **{name: value for name, value in options.items() if value is not None}}
    if "query" not in request:
        raise typer.BadParameter("pass a QUESTION, or --request FILE with a query")
    if isinstance(request["query"], str):
        request["query"] = padded(request["query"])
    if filters:
        request["filter"] = {**_mapping(request, "filter"), **filter_of(filters)}
    if not graph:
        request["kg_expansion"] = {**_mapping(request, "kg_expansion"), "enabled": False}
    return request


def with_answer(request: Json, model: str) -> Json:
    """Return the request with an answer by this model, with `max_tokens_gen` if unset."""
    synthesis = {**_mapping(request, "synthesis"), "enabled": True, "model": model}
    budget = {"max_tokens_gen": SYNTHESIS_TOKENS, **_mapping(request, "budget")}
    return {**request, "synthesis": synthesis, "budget": budget}


def with_time(request: Json, most_s: float) -> Json:
    """Return the request with the maximum time limit, unless set or the model is built-in."""
    if _mapping(request, "synthesis").get("model", EXTRACTIVE) == EXTRACTIVE:
        return request
    return {**request, "budget": {"timeout_s": most_s, **_mapping(request, "budget")}}


def filter_of(pairs: Sequence[str]) -> dict[str, list[Any]]:
    """Parse `KEY=VALUE` options; numbers and Booleans match as text and as JSON values.

    Raise `typer.BadParameter` for others.
    """
    filters: dict[str, list[Any]] = {}
    for text in pairs:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            hint = "e.g. --filter doc_id=handbook.md"
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE, {hint}", param_hint="--filter")
        filters.setdefault(key.strip(), []).extend(_readings(value))
    return filters


def _readings(value: str) -> list[Any]:
    try:
        parsed = json.loads(value, parse_constant=str)
    except ValueError:
        return [value]
    return [value, parsed] if isinstance(parsed, bool | int | float) else [value]


def with_a_model(wiring: "Wiring") -> tuple["Wiring", str]:
    """Choose a model: a configured one, else a local server's, else the built-in one.

    Prints it; returns the wiring for it and its name.
    """
    from docstokg.wiring import Wiring
    from docstokg_local.cli.local_models import local_servers

    settings, access = wiring.settings, wiring.model_access()
    model, location = next(iter(access.remote(settings.models)), EXTRACTIVE), ""
    if model == EXTRACTIVE and (servers := local_servers()):
        server = servers[0]
        model, location = f"gateway/{server.models[0]}", f" ({server.name} at {server.base_url})"
        updates = {"llm_base_url": server.base_url, "models": (*settings.models, model)}
        updates["llm_fallback_model"] = settings.llm_fallback_model or EXTRACTIVE
        wiring = Wiring(settings.model_copy(update=updates), wiring.telemetry)
    echo(f"answered by {model}{location}", err=True)
    return wiring, model


def ask_and_show(
    wiring: "Wiring",
    request: Json,
    form: Shown,
    max_citations: int,
    receipt: Path | None = None,
) -> bool:
    """Ask and print the result, with at most `max_citations`; return whether there is one.

    With "answer": an answer; else, a response. Errors are printed on standard error with remedies.
    `receipt`: file of the response, else `LoadError`.
    """
    from docstokg_local.cli.display import show_answer
    from docstokg_local.engine.workflow import LocalWorkflow

    if form != "json" and (missing := _no_store(wiring)):
        echo(f"docstokg: {missing}", err=True)
        return False
    workflow = LocalWorkflow(wiring)
    timed = with_time(request, wiring.settings.max_timeout_s)
    is_watched = form != "json" and sys.stderr.isatty()
    outcome = _ask_live(wiring, workflow, timed) if is_watched else submit(workflow, timed)
    if receipt and outcome.status == 200:
        save_receipt(receipt, outcome.body)
    if form == "json":
        print_json(outcome.body)
        return outcome.status == 200
    if outcome.status != 200:
        _show_failure(wiring, outcome)
        return False
    if form == "all":
        show_answer(outcome.body, max_citations)
    if not outcome.body["citations"]:
        namespace = outcome.body["metadata"]["namespace"]
        loaded = sorted(wiring.search_index().info(Deadline.after(INFO_S)).namespaces)
        if namespace not in loaded and not request.get("namespaces"):
            echo(
                f"namespace {namespace} is empty; loaded namespaces: {', '.join(loaded)}", err=True
            )
        elif request.get("filter"):
            hint = "no passage matches the filter; `docstokg list --documents` lists the documents"
            echo(hint, err=True)
    return form == "all" or _say_answer(outcome.body)


def _show_failure(wiring: "Wiring", outcome: Outcome) -> None:
    from docstokg_local.cli.display import show_problem
    from docstokg_local.cli.doctor import examine

    parts = examine(wiring) if outcome.status == 503 else []
    faults = [part for part in parts if part.state == "missing"]
    for part in faults:
        echo(f"{part.part}: {part.message} -> {part.remedy}", err=True)
    if not faults:
        show_problem(outcome.body)


def _say_answer(body: Json) -> bool:
    from docstokg_local.cli.display import without_general

    if body["answer"]:
        echo(body["answer"])
        return True
    for warning in without_general(body["warnings"]):
        echo(f"docstokg: {warning}", err=True)
    echo("docstokg: there is no answer; omit --answer-only to see the passages", err=True)
    return False


def _no_store(wiring: "Wiring") -> str | None:
    from docstokg.wiring import sqlite_path

    path = sqlite_path(wiring.settings.index_url)
    if path is None or path.exists():
        return None
    return (
        f"nothing is loaded: {path} does not exist. Load data with `docstokg load FOLDER` or "
        "`docstokg demo`, or choose another store with --index"
    )


def _mapping(fields: Json, key: str) -> Json:
    value = fields.get(key)
    return value if isinstance(value, dict) else {}
