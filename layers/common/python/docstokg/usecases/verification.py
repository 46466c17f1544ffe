"""Decisions of the verifier."""

import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from docstokg.contracts.language_models import ModelAccess
from docstokg.contracts.response import CheckedBy
from docstokg.domain.answer.prompt import defused
from docstokg.domain.answer.windows import best_windows
from docstokg.domain.deadline import Deadline
from docstokg.domain.time_budget import VERIFY
from docstokg.errors import WrongAnswer
from docstokg.ports import Opinion, Pair, Verifier
from docstokg.usecases.run import Call

MOST_CLAIMS = 12
# Minimum probability to report an unsupported claim as contradicted.
LIKELY = 0.5


class Claim(NamedTuple):
    """A sentence without its markers, and the texts of its cited passages."""

    text: str
    passages: tuple[str, ...]


class Decision(NamedTuple):
    """The verifier's verdict on one claim; `reason`: of an unsupported one."""

    verdict: Literal["supported", "unsupported"]
    support: float
    reason: Literal["contradicted", "not_stated"] | None = None
    quote: str | None = None


class Verification(NamedTuple):
    """One decision per claim (None: undecided), milliseconds, and whether the verifier failed."""

    decisions: tuple[Decision | None, ...]
    took_ms: float
    degraded: bool


class Asking(NamedTuple):
    """The verifier of one call: name, whether it also wrote the text, and its function."""

    name: str
    self_check: bool
    ask: Callable[[Sequence[Claim]], Verification]

    def checked_by(self, made: Verification) -> CheckedBy:
        """Return the entry of a verification in the report."""
        return CheckedBy(
            name=self.name,
            kind="model",
            self_check=self.self_check,
            took_ms=made.took_ms,
            degraded=made.degraded,
        )


def asking(call: Call, verifier: Verifier | None, author: str | None = None) -> Asking | None:
    """Return a verifier bound to a call and its time, or None without one.

    `author`: the model that wrote the text.
    """
    if verifier is None:
        return None
    kind, _, model = verifier.name.partition(":")
    return Asking(
        verifier.name,
        kind == "llm" and author is not None and _bare(author) == _bare(model),
        lambda claims: verify(call, verifier, claims, call.deadline.limit(*VERIFY)),
    )


def verify(
    call: Call, verifier: Verifier, claims: Sequence[Claim], deadline: Deadline
) -> Verification:
    """Decide claims in one batch within `deadline`; never raises for the verifier.

    The first 12 claims with passages are sent with their best windows. After a failure, a timeout
    or an invalid opinion nothing is decided; an opinion with an invented quote is ignored. Both add
    the reason `verifier_unavailable`.
    """
    started = time.perf_counter()
    pairs: dict[int, Pair] = {}
    for place, claim in enumerate(claims):
        if len(pairs) < MOST_CLAIMS and (sources := best_windows(claim.text, claim.passages)):
            pairs[place] = Pair(claim.text, sources)
    decisions: list[Decision | None] = [None] * len(claims)
    is_void = False
    asked = tuple(pairs.values())
    opinions = call.attempt(
        "verifier",
        lambda: _checked(verifier, asked, deadline),
        "verifier_unavailable",
        verifier=verifier.name,
    ) if asked else ()  # fmt: skip
    for (place, pair), opinion in zip(pairs.items(), opinions or (), strict=False):
        decisions[place] = _decision(opinion, pair, verifier.threshold)
        is_void = is_void or (opinion is not None and decisions[place] is None)
    if is_void:
        call.mark_degraded("verifier_unavailable")
    took_ms = round((time.perf_counter() - started) * 1000, 1)
    return Verification(tuple(decisions), took_ms, is_void or opinions is None)


def _checked(
    verifier: Verifier, pairs: Sequence[Pair], deadline: Deadline
) -> Sequence[Opinion | None]:
    opinions = verifier.verify(pairs, deadline)
    if len(opinions) != len(pairs):
        raise WrongAnswer(f"{verifier.name}: {len(opinions)} opinions on {len(pairs)} claims")
    values = [
        value
        for opinion in opinions
        if opinion is not None
        for value in (opinion.supported, opinion.contradicted)
        if value is not None
    ]
    if not all(0 <= value <= 1 for value in values):  # false for NaN
        raise WrongAnswer(f"{verifier.name}: a probability is outside [0, 1]")
    return opinions


def _decision(opinion: Opinion | None, pair: Pair, threshold: float) -> Decision | None:
    if opinion is None:
        return None
    support, contradicted, quote = opinion
    if quote is not None and not any(_contains(source, quote) for source in pair.sources):
        return None
    if support >= threshold:
        return Decision("supported", support, None, quote)
    is_contradicted = contradicted is not None and contradicted >= LIKELY
    return Decision(
        "unsupported", support, "contradicted" if is_contradicted else "not_stated", quote
    )


def _contains(source: str, quote: str) -> bool:
    return " ".join(defused(quote).split()) in " ".join(defused(source).split())


def _bare(model: str) -> str:
    return ModelAccess().route(model).name
