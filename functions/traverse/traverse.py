"""`POST /v1/traverse`, and the neighbourhood of an answer's citations (verbosity graph)."""

import base64
import binascii
import hashlib
import json

from docstokg.contracts.response import DegradedReason, FieldProblem, GraphBudget, GraphView
from docstokg.contracts.state import Caller, Grounded, Reply
from docstokg.contracts.traverse import (
    Caps,
    Explain,
    Frontier,
    Scoring,
    TraverseEnvelope,
    TraverseRequest,
    TraverseResponse,
)
from docstokg.errors import DocsToKGError, InvalidCursor
from docstokg.observability import Telemetry
from docstokg.ports import Embedder, KnowledgeGraph, SearchIndex
from docstokg.usecases.intake import invalid, parse_body
from docstokg.usecases.problems import problem_reply
from docstokg.usecases.run import Run, graph_reason
from functions.traverse.call_budget import CallBudget, caller_hash
from functions.traverse.walk import LABELS, Walk, Walked, reason_of, walk_graph

MAX_DEPTH = 5
MAX_NODES = 200
TIME_S = 2.0
RESERVE_S = 0.5
SEED_CITATIONS = 10
SEED_ENTITIES = 10
VIEW_DEPTH = 2
VIEW_NODES = 60


def traverse(
    envelope: TraverseEnvelope,
    *,
    graph: KnowledgeGraph,
    index: SearchIndex,
    embedder: Embedder | None,
    budget: CallBudget,
    telemetry: Telemetry,
    enabled: bool,
    now_s: float,
) -> Reply:
    """Give the TraverseResponse as a reply, or the problem: 400, 403, 404, 413, 429, 503."""
    if not enabled:
        detail = "Traversal is switched off on this server."
        return problem_reply(404, "not_found", detail, envelope.request_id)
    request = parse_body(envelope.body_b64, TraverseRequest, envelope.request_id)
    if isinstance(request, Reply):
        return request
    problems, labels = _labels(request)
    offset = 0
    try:
        offset = _offset(request)
    except InvalidCursor as error:
        problems.append(FieldProblem(path="$.cursor", code="invalid_cursor", message=str(error)))
    if problems:
        return invalid(problems, envelope.request_id)
    if not envelope.caller.may_read(request.namespace):
        detail = f"Namespace {request.namespace!r} is not granted to this caller."
        return problem_reply(403, "namespace_not_granted", detail, envelope.request_id)
    wait_s = budget.spend(envelope.caller.sub, now_s)
    if wait_s > 0:
        return _refused("traverse", envelope.request_id, envelope.caller.sub, wait_s, telemetry)
    asked = _walk(request, envelope.caller, labels)
    try:
        found = walk_graph(
            asked, graph=graph, index=index, embedder=embedder, telemetry=telemetry, time_s=TIME_S
        )
    except DocsToKGError as error:
        reason = reason_of(error)
        telemetry.log("ERROR", "traverse_failed", request_id=envelope.request_id, reason=reason)
        detail = "The graph did not answer in time."
        if reason != "kg_timeout":
            detail = "The graph cannot be read."
        return problem_reply(503, reason, detail, envelope.request_id)
    count(telemetry, found)
    response = _response(request, asked, found, offset)
    telemetry.count("rag_requests_total", route="traverse", status="200")
    telemetry.log(
        "INFO",
        "request",
        request_id=envelope.request_id,
        route="traverse",
        namespace=request.namespace,
        status=200,
        nodes=len(found.nodes),
        expanded=found.expanded,
        pruned=found.pruned,
        degraded_reasons=list(found.degraded),
    )
    return Reply(
        statusCode=200,
        body=response.model_dump_json(),
        headers={"Content-Type": "application/json"},
    )


def _refused(
    route: str, request_id: str, caller: str, wait_s: float, telemetry: Telemetry
) -> Reply:
    telemetry.log(
        "WARNING",
        "audit",
        action="graph_budget_refused",
        request_id=request_id,
        caller=caller_hash(caller),
    )
    telemetry.count("rag_requests_total", route=route, status="429")
    detail = "This caller's graph walks of this minute are spent."
    return problem_reply(
        429,
        "graph_budget_exceeded",
        detail,
        request_id,
        headers={"Retry-After": str(max(1, round(wait_s + 0.5)))},
    )


def _labels(request: TraverseRequest) -> tuple[list[FieldProblem], tuple[str, ...]]:
    """Read the label allow-list; a label the server does not allow is a problem."""
    if request.label_whitelist is None:
        return [], LABELS
    known = {label.casefold(): label for label in LABELS}
    problems = [
        FieldProblem(
            path=f"$.label_whitelist[{place}]",
            code="label_not_allowed",
            message=f"must be one of {', '.join(LABELS)}",
        )
        for place, label in enumerate(request.label_whitelist)
        if label.casefold() not in known
    ]
    wanted = {known.get(label.casefold(), "") for label in request.label_whitelist}
    return problems, tuple(label for label in LABELS if label in wanted)


def _walk(request: TraverseRequest, caller: Caller, labels: tuple[str, ...]) -> Walk:
    topics = request.filters.topic
    depth = min(MAX_DEPTH, request.max_depth)
    return Walk(
        query=request.query,
        scope=caller.scope(request.namespace, {"topic": topics} if topics is not None else None),
        seeds=request.seed_ids,
        direction=request.direction,
        max_depth=depth,
        soft_depth=depth,
        max_nodes=MAX_NODES,
        frontier=request.frontier,
        labels=labels,
        relations=_folded(request.rel_whitelist),
        entities=_folded(request.filters.entity),
    )


def _folded(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(name.casefold() for name in names)


def _response(
    request: TraverseRequest, asked: Walk, found: Walked, offset: int
) -> TraverseResponse:
    nodes, edges = found.view()
    size = min(MAX_NODES, request.max_nodes)
    page = nodes[offset : offset + size]
    shown = {node.id for node in page}
    further = offset + size < len(nodes)
    warnings = []
    if found.unknown:
        warnings.append(f"Seeds that are not in the graph: {', '.join(found.unknown[:10])}")
    return TraverseResponse(
        nodes=page,
        edges=tuple(edge for edge in edges if edge.src in shown or edge.dst in shown),
        explain=Explain(
            scoring=Scoring(embedding=found.embedding, **request.frontier.model_dump()),
            caps=Caps(
                max_depth=asked.max_depth,
                max_nodes=asked.max_nodes,
                time_s=TIME_S,
                labels=asked.labels,
                relations=asked.relations,
            ),
            expanded=found.expanded,
            pruned=found.pruned,
            skipped=found.skipped,
            depth_reached=found.depth_reached,
            degraded_reasons=tuple(found.degraded),
        ),
        cursor=_cursor(request, offset + size) if further else None,
        warnings=tuple(warnings),
    )


def _request_hash(request: TraverseRequest) -> str:
    body = request.model_dump_json(exclude={"cursor"})
    return hashlib.sha256(body.encode("utf-8")).hexdigest()[:24]


def _cursor(request: TraverseRequest, offset: int) -> str:
    """Make the opaque cursor of a page: (request hash, offset); the walk is recomputed."""
    text = json.dumps([_request_hash(request), offset])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _offset(request: TraverseRequest) -> int:
    """Read a cursor; `InvalidCursor` when it belongs to another request or is forged."""
    if request.cursor is None:
        return 0
    wrong = InvalidCursor("must be the cursor of a response to this same request")
    try:
        padded = request.cursor + "=" * (-len(request.cursor) % 4)
        stored = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise wrong from None
    match stored:
        case [str(digest), int(offset)] if digest == _request_hash(request) and offset > 0:
            return offset
    raise wrong


def view_of_citations(
    run: Run,
    grounded: Grounded,
    *,
    graph: KnowledgeGraph,
    index: SearchIndex,
    embedder: Embedder | None,
    budget: CallBudget,
) -> tuple[GraphView | None, tuple[DegradedReason, ...]] | Reply:
    """Walk from the citations and the question's entities; (view, degraded reasons), or a 429.

    The caller's `limits.graph` narrows depth, nodes and relations; the server's caps always win.
    """
    plan, limits = run.plan, run.plan.graph_limits
    wait_s = budget.spend(plan.caller_sub, run.clock())
    if wait_s > 0:
        return _refused(plan.route, plan.request_id, plan.caller_sub, wait_s, run.telemetry)
    hard = min(MAX_DEPTH, (limits and limits.max_depth_hard) or VIEW_DEPTH)
    asked = Walk(
        query=plan.query,
        scope=run.scope,
        seeds=(
            *(citation.uuid for citation in grounded.citations[:SEED_CITATIONS]),
            *(seed.id for seed in grounded.seeds[:SEED_ENTITIES]),
        ),
        direction="both",
        max_depth=hard,
        soft_depth=min(hard, (limits and limits.max_depth_soft) or hard),
        max_nodes=min(MAX_NODES, (limits and limits.max_nodes_hard) or VIEW_NODES),
        frontier=Frontier(),
        relations=_folded(limits.rel_whitelist) if limits is not None else None,
    )
    time_s = run.left_s(TIME_S, RESERVE_S)
    found = run.attempt(
        "graph_view",
        lambda: walk_graph(
            asked,
            graph=graph,
            index=index,
            embedder=embedder,
            telemetry=run.telemetry,
            time_s=time_s,
        ),
        graph_reason,
    )
    if found is None:
        return None, tuple(run.degraded)
    count(run.telemetry, found)
    nodes, edges = found.view()
    view = GraphView(
        nodes=nodes,
        edges=edges,
        budget=GraphBudget(
            expanded=found.expanded,
            pruned=found.pruned,
            skipped=found.skipped,
            depth_reached=found.depth_reached,
        ),
    )
    return view, tuple(found.degraded)


def count(telemetry: Telemetry, found: Walked) -> None:
    """Report what a walk spent."""
    telemetry.count("graph_expand_nodes_total", found.expanded)
    telemetry.count("graph_pruned_nodes_total", found.pruned)
    telemetry.count("graph_depth_histogram", found.depth_reached)
