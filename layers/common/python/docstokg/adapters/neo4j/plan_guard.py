"""Cypher plan guard."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from docstokg.adapters.neo4j.cypher import LABELS, TYPES, Template
from docstokg.domain.identity import REDIRECT_DEPTH

# Maximum estimated rows of one operator; the planner assumes ten per unknown list.
MAX_ROWS = 1_000_000.0

# A shortest path between two named nodes is planned as a product of one row.
MAX_PRODUCT_ROWS = 10.0

_SCAN = re.compile(r"Scan$|^Dynamic\w+Lookup$")
_EVERYTHING = ("AllNodesScan", "AllRelationshipsScan", "UnionNodeByLabelsScan")
_WRITES = ("Create", "Merge", "Delete", "Set", "Remove", "Foreach", "EmptyResult", "Transaction")
_RANGE = re.compile(r"\*(\d*)(\.\.)?(\d*)[^\w`]|\{(\d*)(,)?\s*(\d*)\}|([+*])\s*(?:\(|$|\))")


class PlanVerdict(NamedTuple):
    """Verdict on a template; admitted without reasons."""

    template: str
    digest: str
    reasons: tuple[str, ...]


def judge(template: Template, plan: Mapping[str, Any] | None, kind: str | None) -> PlanVerdict:
    """Return the verdict on a plan, a refusal for None or if the query type `kind` is not "r"."""
    reasons = [] if kind == "r" else [f"it is no pure read (query type {kind})"]
    if plan is None:
        reasons.append("the server gave no plan")
    for operator in operators(plan) if plan else ():
        reasons += _objections(operator)
    return PlanVerdict(template.name, template.digest, tuple(dict.fromkeys(reasons)))


def refused(template: Template, reason: str) -> PlanVerdict:
    """Return a refusal of a template without a plan."""
    return PlanVerdict(template.name, template.digest, (reason,))


def operators(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every operator of a plan, root first."""
    yield plan
    for child in plan.get("children", ()):
        yield from operators(child)


def _objections(operator: Mapping[str, Any]) -> Iterator[str]:  # noqa: C901, PLR0912 - one branch a rule
    name = str(operator["operatorType"]).partition("@")[0]
    args = operator.get("args", {})
    details = str(args.get("Details", ""))
    rows = float(args.get("EstimatedRows", 0.0))
    bare = name.removeprefix("Directed").removeprefix("Undirected").removeprefix("Partitioned")
    if bare in _EVERYTHING:
        yield f"{name} reads everything"
    elif _SCAN.search(bare):
        yield f"{name} reads a whole label, type or index ({details})"
    if name.startswith("CartesianProduct") and rows > MAX_PRODUCT_ROWS:
        yield f"{name} of {rows:.0f} rows"
    if name.startswith("LoadCSV"):
        yield "LOAD CSV reads files or addresses"
    if "ProcedureCall" in name:
        yield f"procedure {details.partition('(')[0].strip()} is not on the list"
    if any(word in name for word in _WRITES):
        yield f"{name} writes"
    if any(word in name for word in ("Command", "Show", "Terminate")):
        yield f"{name} is administration"
    if _expands(name):
        yield from _depth_objections(name, details)
    if "Expand" in name or _expands(name):
        yield from _type_objections(name, details)
    if "Seek" in name:
        for label in re.findall(r"\w:`?([A-Za-z_]\w*)", details):
            if label not in LABELS | TYPES:
                yield f"{name} uses {label}, which is not on the list"
    if rows > MAX_ROWS:
        yield f"{name} is estimated at {rows:.0f} rows"


def _expands(name: str) -> bool:
    return any(
        word in name for word in ("VarLength", "VarExpand", "Repeat", "Trail", "ShortestPath")
    )


def _type_objections(name: str, details: str) -> Iterator[str]:
    if re.search(r"\)<?-->?\(", details):
        yield f"{name} follows relationships of any type ({details[:80]})"
    for inside in re.findall(r"\[([^\]]*)\]-|\[([^\]]*)\]->", details):
        text = "".join(inside)
        _, colon, types = text.partition(":")
        type_names = re.findall(r"[A-Za-z_]\w*", types.partition("*")[0]) if colon else []
        if not type_names:
            yield f"{name} follows relationships of any type ({details[:80]})"
        for kind in type_names:
            if kind not in TYPES:
                yield f"{name} follows {kind}, which is not on the list"


def _depth_objections(name: str, details: str) -> Iterator[str]:
    bounds = list(_RANGE.finditer(details + " "))
    if not bounds:
        yield f"{name} without a visible bound ({details[:80]})"
    for match in bounds:
        low, dots, high, low2, comma, high2, sign = match.groups()
        upper = high or high2 or ("" if dots or comma or sign else low or low2)
        if not upper:
            yield f"{name} is unbounded ({details[:80]})"
        elif int(upper) > REDIRECT_DEPTH:
            yield f"{name} is {upper} hops deep, at most {REDIRECT_DEPTH} are allowed"
