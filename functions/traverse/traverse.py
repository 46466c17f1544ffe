"""`POST /v1/traverse`; graph views."""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.records import Filters
from docstokg.contracts.request import GraphLimits
from docstokg.contracts.response import (
    FieldProblem,
    GraphBudget,
    GraphNode,
    GraphView,
    GraphViewEdge,
)
from docstokg.contracts.state import Grounded, Plan
from docstokg.contracts.traverse import Caps, Explain, Scoring, TraverseRequest, TraverseResponse
from docstokg.domain import base64url, time_budget
from docstokg.domain.answer import notices
from docstokg.domain.budget import (
    GRAPH_VIEW_LIMIT_BYTES,
    STATE_LIMIT_BYTES,
    STATE_MARGIN_BYTES,
    nested_json_bytes,
)
from docstokg.domain.deadline import Deadline
from docstokg.domain.text.words import casefolded
from docstokg.errors import DocsToKGError
from docstokg.observability import Telemetry
from docstokg.ports import SearchIndex
from docstokg.usecases.intake import invalid, namespaces_of, parse_body
from docstokg.usecases.problems import json_reply, problem_reply
from docstokg.usecases.refusals import caller_hash
from docstokg.usecases.run import Begin, Call, Run, graph_reason
from docstokg_functions.traverse.call_budget import CallBudget
from docstokg_functions.traverse.view_cursor import PREFIX, VIEW_FRONTIER, read_cursor, write_cursor
from docstokg_functions.traverse.walk import LABELS, STRUCTURAL, WalkRequest, WalkResult

MAX_DEPTH = 5
MAX_NODES = 200
SEED_CITATIONS = 10
SEED_ENTITIES = 10
# Depth beyond which a view expands only nodes no worse than the previous layer.
SOFT_DEPTH = 3

BY_WEIGHT = "weight of the heaviest relation / heaviest of the layer"

# Types of the edges of passages, folded.
PASSAGE_EDGES = frozenset(name.casefold() for name in STRUCTURAL)

# Walks the graph until a deadline; raises errors of the graph for the seeds.
Walking = Callable[[Call, WalkRequest, Deadline], WalkResult]


def traverse(
    envelope: Envelope,
    *,
    begin: Begin,
    index: SearchIndex,
    walk: Walking,
    budget: CallBudget,
    enabled: bool,
) -> Reply:
    """Return the TraverseResponse as a reply, or a problem: 400, 403, 404, 413, 429, 503."""
    if not enabled:
        detail = "Traversal is switched off on this server."
        return problem_reply(404, "not_found", detail, envelope.request_id)
    request = parse_body(envelope, TraverseRequest)
    if isinstance(request, Reply):
        return request
    names = namespaces_of(envelope, request.requested_namespaces, index, begin)
    if isinstance(names, Reply):
        return names
    view = read_cursor(request.cursor or "") if _is_view(request) else None
    problems, labels = _labels(request)
    offset = _offset(request)
    if problems := problems + _start_problems(request, offset):
        return invalid(problems, envelope.request_id)
    topics = request.filters.topic
    filters: Filters | None = {"topic": topics} if topics is not None else None
    filters = view.filter if view else filters
    call = begin(envelope.request_id, envelope.caller.scope(names[0], filters, *names[1:]))
    wait_s = budget.spend(envelope.caller.sub, call.clock(), call.request_id)
    if wait_s > 0:
        return _refused(call, "traverse", envelope.caller.sub, wait_s)
    walk_request = _walk_request(request, labels)
    if view:
        walk_request = replace(view.walk(), max_nodes=MAX_NODES)
    before: Collection[str] = ()
    try:
        result = walk(call, walk_request, Deadline.after(time_budget.TRAVERSE_S))
        if view:
            before = walk(call, view.walk(), Deadline.after(time_budget.TRAVERSE_S)).nodes
    except DocsToKGError as error:
        call.log("traverse", error, graph_reason, level="ERROR")
        reason = graph_reason(error)
        fault = "did not answer in time" if reason == "kg_timeout" else "cannot be read"
        return problem_reply(503, reason, f"The graph {fault}.", envelope.request_id)
    count(call.telemetry, result)
    counts = {"expanded": result.expanded, "pruned": result.pruned}
    call.answered("traverse", nodes=len(result.nodes), **counts)
    return json_reply(_response(call, request, walk_request, result, offset, before))


def _start_problems(request: TraverseRequest, offset: int) -> list[FieldProblem]:
    problems = []
    if not (request.seed_ids or _is_view(request)):
        # The cursor of an answer's graph contains its seeds.
        message = "must name at least one node"
        problems.append(FieldProblem(path="$.seed_ids", code="missing", message=message))
    if offset < 0:
        message = "must be the cursor of a response to this same request"
        problems.append(FieldProblem(path="$.cursor", code="invalid_cursor", message=message))
    return problems


def _refused(call: Call, route: str, caller: str, wait_s: float) -> Reply:
    identity = {"request_id": call.request_id, "caller": caller_hash(caller)}
    call.telemetry.log("WARNING", "audit", action="graph_budget_refused", **identity)
    call.telemetry.count("rag_requests_total", route=route, status="429")
    code, detail = "graph_budget_exceeded", "This caller's graph walks of this minute are spent."
    retry = {"Retry-After": str(max(1, round(wait_s + 0.5)))}
    return problem_reply(429, code, detail, call.request_id, headers=retry)


def _labels(request: TraverseRequest) -> tuple[list[FieldProblem], tuple[str, ...]]:
    if request.label_whitelist is None:
        return [], LABELS
    labels = {label.casefold(): label for label in LABELS}
    allowed = f"must be one of {', '.join(LABELS)}"
    problems = [
        FieldProblem(path=f"$.label_whitelist[{place}]", code="label_not_allowed", message=allowed)
        for place, label in enumerate(request.label_whitelist)
        if label.casefold() not in labels
    ]
    names = {labels.get(label.casefold(), "") for label in request.label_whitelist}
    return problems, tuple(label for label in LABELS if label in names)


def _walk_request(request: TraverseRequest, labels: tuple[str, ...]) -> WalkRequest:
    depth = min(MAX_DEPTH, request.max_depth)
    return WalkRequest(
        query=request.query,
        seeds=request.seed_ids,
        direction=request.direction,
        max_depth=depth,
        soft_depth=depth,
        max_nodes=MAX_NODES,
        frontier=request.frontier,
        labels=labels,
        relations=casefolded(request.rel_whitelist),
        entities=casefolded(request.filters.entity),
    )


def _response(
    call: Call,
    request: TraverseRequest,
    walk_request: WalkRequest,
    result: WalkResult,
    offset: int,
    before: Collection[str],
) -> TraverseResponse:
    nodes, edges = result.view()
    nodes = tuple(node for node in nodes if node.id not in before)
    size = min(MAX_NODES, request.max_nodes)
    page = nodes[offset : offset + size]
    on_page = {node.id for node in page}
    further = offset + size < len(nodes)
    warnings = []
    if result.unknown:
        warnings.append(f"Seeds that are not in the graph: {notices.listed(result.unknown, 10)}")
    return TraverseResponse(
        nodes=page,
        edges=tuple(edge for edge in edges if edge.src in on_page or edge.dst in on_page),
        explain=Explain(
            scoring=_scoring(walk_request, result),
            caps=Caps(
                max_depth=walk_request.max_depth,
                max_nodes=size,
                time_s=time_budget.TRAVERSE_S,
                labels=walk_request.labels,
                relations=walk_request.relations,
            ),
            **result.spent(),
            degraded_reasons=tuple(call.degraded),
        ),
        cursor=_cursor(request, offset + size) if further else None,
        warnings=(*warnings, *call.warnings),
    )


def _scoring(request: WalkRequest, result: WalkResult) -> Scoring:
    scoring = Scoring(embedding=result.embedding, **request.frontier.model_dump())
    return scoring if request.query else scoring.model_copy(update={"formula": BY_WEIGHT})


def _is_view(request: TraverseRequest) -> bool:
    return not request.seed_ids and (request.cursor or "").startswith(PREFIX)


def _request_hash(request: TraverseRequest) -> str:
    body = request.model_dump_json(exclude={"cursor"})
    return hashlib.sha256(body.encode("utf-8")).hexdigest()[:24]


def _cursor(request: TraverseRequest, offset: int) -> str:
    text = json.dumps([_request_hash(request), offset])
    return base64url.encode(text.encode())


def _offset(request: TraverseRequest) -> int:
    if request.cursor is None or (_is_view(request) and read_cursor(request.cursor)):
        return 0
    try:
        stored = json.loads(base64url.decode(request.cursor))
    except ValueError:
        return -1
    match stored:
        case [str(digest), int(offset)] if digest == _request_hash(request) and offset > 0:
            return offset
    return -1


def view_of_citations(
    run: Run, grounded: Grounded, *, walk: Walking, budget: CallBudget
) -> GraphView | Reply | None:
    """Walk from the citations and the question's entities; return a 429, or None on failure."""
    plan, limits = run.plan, run.plan.graph_limits or GraphLimits()
    if not grounded.citations and not grounded.seeds:
        return GraphView(nodes=(), edges=(), budget=GraphBudget(**WalkResult().spent()))
    wait_s = budget.spend(plan.caller_sub, run.clock(), run.request_id)
    if wait_s > 0:
        return _refused(run, plan.route, plan.caller_sub, wait_s)
    hard = min(MAX_DEPTH, limits.max_depth_hard or MAX_DEPTH)
    relations = casefolded(limits.rel_whitelist)
    passages = tuple(citation.uuid for citation in grounded.citations[:SEED_CITATIONS])
    entities = tuple(seed.id for seed in grounded.seeds[:SEED_ENTITIES])
    if relations is not None and entities and not PASSAGE_EDGES.intersection(relations):
        passages = ()  # no edge leads from a passage; it would only take an entity's place
    request = WalkRequest(
        query=plan.query,
        seeds=(*passages, *entities),
        direction="both",
        max_depth=hard,
        soft_depth=min(hard, limits.max_depth_soft or SOFT_DEPTH),
        max_nodes=min(MAX_NODES, limits.max_nodes_hard or MAX_NODES),
        frontier=VIEW_FRONTIER,
        relations=relations,
    )
    deadline = run.deadline.limit(*time_budget.GRAPH_VIEW)
    result = run.attempt("graph_view", lambda: walk(run, request, deadline), graph_reason)
    if result is None:
        return None
    count(run.telemetry, result)
    nodes, edges = result.view()
    free = _view_room(plan, grounded)
    # None if it repeats too much of question and filter, or for several namespaces.
    cursor_text = write_cursor(request, run.scope)
    cursor = cursor_text if 2 * len(cursor_text) <= free and not plan.others else None
    fitting = view_within(nodes, edges, free - len(cursor or ""))
    left_out = len(nodes) - len(fitting[0])
    further = result.skipped + left_out if request.max_nodes < MAX_NODES else 0
    if left_out or (cursor is None and further):
        run.mark_degraded("payload_trimmed")
    return GraphView(
        nodes=fitting[0],
        edges=fitting[1],
        budget=GraphBudget(
            **result.spent() | {"skipped": result.skipped + left_out},
            cursor=cursor if further else None,
        ),
    )


def _view_room(plan: Plan, grounded: Grounded) -> int:
    taken = sum(
        nested_json_bytes(part.model_dump_json(exclude_defaults=True)) for part in (plan, grounded)
    )
    answer = 4 * plan.budget_limits.max_tokens_gen
    return min(GRAPH_VIEW_LIMIT_BYTES, STATE_LIMIT_BYTES - taken - answer - STATE_MARGIN_BYTES)


def view_within(
    nodes: Sequence[GraphNode], edges: Sequence[GraphViewEdge], limit: int
) -> tuple[tuple[GraphNode, ...], tuple[GraphViewEdge, ...]]:
    """Return the best nodes in half of `limit` bytes of state, then first edges between them.

    The order is kept.
    """
    room = limit / 2
    node_ids: set[str] = set()
    for node in sorted(nodes, key=lambda node: (-node.score, node.id)):
        room -= nested_json_bytes(node.model_dump_json())
        if room < 0:
            break
        node_ids.add(node.id)
    chosen = tuple(node for node in nodes if node.id in node_ids)
    remaining = limit - sum(nested_json_bytes(node.model_dump_json()) for node in chosen)
    listed: list[GraphViewEdge] = []
    for edge in edges:
        if {edge.src, edge.dst} <= node_ids:
            remaining -= nested_json_bytes(edge.model_dump_json())
            if remaining < 0:
                break
            listed.append(edge)
    return chosen, tuple(listed)


def count(telemetry: Telemetry, result: WalkResult) -> None:
    """Report metrics of a walk."""
    telemetry.count("graph_expand_nodes_total", result.expanded)
    telemetry.count("graph_pruned_nodes_total", result.pruned)
    telemetry.count("graph_depth_histogram", result.depth_reached)
