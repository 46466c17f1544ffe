"""Queries over several namespaces."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, cast

from docstokg.contracts.graph import GraphSlice, SliceEntity, united
from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, Hydrated

# Parameters of a method that `across` sets per namespace, or that `join` does not get.
_SHARED = frozenset(("self", "scope", "deadline"))


def across[**Arguments, Answer](
    join: Callable[..., Answer],
) -> Callable[[Callable[Arguments, Answer]], Callable[Arguments, Answer]]:
    """Run a port method per namespace of its scope, in order; return `join(answers, *arguments)`.

    The method has the parameters `scope` and `deadline` (of all namespaces); `join` gets its
    other arguments. One namespace is not joined. An error in one fails the call.
    """

    def decorated(method: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        parameters, call = signature(method), cast(Callable[..., Answer], method)

        @wraps(method)
        def joined(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            bound = parameters.bind(*args, **kwargs)
            values = bound.arguments
            scope: Scope = values["scope"]
            if not scope.others:
                return method(*args, **kwargs)
            answers = []
            for part in scope.each():
                values |= {"scope": part}
                answers.append(call(*bound.args, **bound.kwargs))
            others = [value for name, value in values.items() if name not in _SHARED]
            return join(answers, *others)

        return joined

    return decorated


def results(
    answers: Sequence[Sequence[ChannelResult]], queries: Sequence[ChannelQuery]
) -> tuple[ChannelResult, ...]:
    """Join by channel, the best `size` hits first; one that failed in some namespaces is partial.

    `answers`: per namespace, one result per query.
    """
    return tuple(map(_result, zip(*answers, strict=True), queries))


def _result(parts: Sequence[ChannelResult], query: ChannelQuery) -> ChannelResult:
    whole = next((part for part in parts if part.failure is None), parts[0])
    hits = sorted(chain(*(part.hits for part in parts)), key=lambda hit: (-hit.score, hit.uuid))
    facts = sorted(chain(*(part.facts for part in parts)), key=lambda fact: (-fact.score, fact.id))
    joined = {
        "hits": tuple(hits[: query.size]),
        "facts": tuple(facts[: query.size]),
        "took_ms": sum(part.took_ms for part in parts),
        "partial": any(part.failure is not None or part.partial for part in parts),
        "cause": next((part.cause for part in parts if part.cause is not None), None),
    }
    return whole.model_copy(update=joined)


def passages(answers: Sequence[Hydrated], *_: object) -> Hydrated:
    """Join hydrated chunks; `missing` lists ids that no namespace has."""
    chunks = mappings([answer.chunks for answer in answers])
    return Hydrated(chunks=chunks, missing=tuple(u for u in answers[0].missing if u not in chunks))


def mappings(answers: Sequence[dict[str, Any]], *_: object) -> dict[str, Any]:
    """Join by key; for equal keys the first namespace wins."""
    return {key: value for answer in reversed(answers) for key, value in answer.items()}


def entities(answers: Sequence[Sequence[SliceEntity]], *_: object) -> tuple[SliceEntity, ...]:
    """Join by id, sorted; for equal ids the entity with the most mentions wins."""
    return united([sorted(chain(*answers), key=attrgetter("mentions"))], attrgetter("id"))


def slices(answers: Sequence[GraphSlice], *_: object) -> GraphSlice:
    """Join slices; nodes and edges with the same id are merged."""
    return GraphSlice(
        aliases=united([part.aliases for part in answers], tuple),
        entities=entities([part.entities for part in answers]),
        chunks=united([part.chunks for part in answers], attrgetter("uuid")),
        mentions=united([part.mentions for part in answers], itemgetter(0, 1)),
        relations=united([part.relations for part in answers], tuple),
        members=united([part.members for part in answers], tuple),
    )
