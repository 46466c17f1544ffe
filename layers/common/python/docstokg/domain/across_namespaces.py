"""One question to several namespaces: each is asked by itself, and what they say is joined."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import chain
from typing import Any, cast

from docstokg.contracts.graph import GraphSlice, SliceEntity, identity
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, Hydrated


def across[Method: Callable[..., Any]](
    join: Callable[..., Any],
) -> Callable[[Method], Method]:
    """Ask a port's method, whose last arguments are a scope and seconds, once a namespace.

    The seconds are those of all together; a namespace that fails fails the call. `join` gets the
    answers, and what was asked.
    """

    def decorated(method: Method) -> Method:
        @wraps(method)
        def asked(self: object, *args: Any) -> Any:
            *what, scope, timeout_s = args
            if not scope.others:
                return method(self, *args)
            until = time.monotonic() + timeout_s
            answers = [
                method(self, *what, one, max(0.0, until - time.monotonic())) for one in scope.each()
            ]
            return join(answers, *what)

        return cast(Method, asked)

    return decorated


def results(
    answers: Sequence[Sequence[ChannelResult]], queries: Sequence[ChannelQuery]
) -> tuple[ChannelResult, ...]:
    """Join by channel, best first; one that failed in some namespaces is partial."""
    return tuple(map(_result, zip(*answers, strict=True), queries))


def _result(parts: Sequence[ChannelResult], query: ChannelQuery) -> ChannelResult:
    failed = [part for part in parts if part.failure is not None]
    if len(failed) == len(parts):
        return failed[0]
    hits = sorted(chain(*(part.hits for part in parts)), key=lambda hit: (-hit.score, hit.uuid))
    facts = sorted(chain(*(part.facts for part in parts)), key=lambda fact: (-fact.score, fact.id))
    return ChannelResult(
        channel=query.channel,
        hits=tuple(hits[: query.size]),
        facts=tuple(facts[: query.size]),
        took_ms=sum(part.took_ms for part in parts),
        partial=bool(failed) or any(part.partial for part in parts),
        cause=next((part.cause for part in parts if part.cause is not None), None),
    )


def passages(answers: Sequence[Hydrated], *_: object) -> Hydrated:
    """Join what was read; missing is what no namespace shows."""
    chunks = mappings([answer.chunks for answer in answers])
    failed = {uuid for answer in answers for uuid in answer.failed} - chunks.keys()
    asked = dict.fromkeys(uuid for answer in answers for uuid in answer.missing)
    missing = tuple(uuid for uuid in asked if uuid not in chunks and uuid not in failed)
    cause = next((answer.cause for answer in answers if answer.cause is not None), None)
    return Hydrated(chunks=chunks, missing=missing, failed=tuple(sorted(failed)), cause=cause)


def mappings(answers: Sequence[dict[str, Any]], *_: object) -> dict[str, Any]:
    """Join by key; of two namespaces' the first."""
    return {key: value for answer in reversed(answers) for key, value in answer.items()}


def entities(answers: Sequence[Iterable[SliceEntity]], *_: object) -> tuple[SliceEntity, ...]:
    """Join by id, counting what mentions it everywhere."""
    found: dict[str, SliceEntity] = {}
    for item in chain(*answers):
        before = found.get(item.id)
        found[item.id] = item if before is None else before._replace(
            mentions=before.mentions + item.mentions, heads=before.heads + item.heads
        )  # fmt: skip
    return tuple(found[name] for name in sorted(found))


def relations(answers: Sequence[Iterable[Any]], *_: object) -> tuple[Any, ...]:
    """Join without repeats, in the order of their identity."""
    found = {identity(item): item for item in chain(*answers)}
    return tuple(found[name] for name in sorted(found))


def slices(answers: Sequence[GraphSlice], *_: object) -> GraphSlice:
    """Join slices: what has the same id is the same thing, each namespace shows its own of it."""
    return GraphSlice(
        aliases=tuple(sorted({item for part in answers for item in part.aliases})),
        entities=entities([part.entities for part in answers]),
        chunks=tuple(sorted(chain(*(part.chunks for part in answers)))),
        mentions=tuple(sorted(chain(*(part.mentions for part in answers)), key=lambda m: m[:2])),
        relations=relations([part.relations for part in answers]),
        members=tuple(sorted(chain(*(part.members for part in answers)))),
    )
