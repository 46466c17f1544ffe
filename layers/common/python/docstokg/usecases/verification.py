"""Decisions of the verifier."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from docstokg.contracts.language_models import ModelAccess
from docstokg.contracts.response import CheckedBy, CheckProblem
from docstokg.domain.answer.observations import MISSING, observations
from docstokg.domain.answer.prompt import in_line
from docstokg.domain.answer.quotation import find_quotation
from docstokg.domain.answer.windows import best_windows
from docstokg.domain.deadline import Deadline
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.snippets import coverage, question_stems
from docstokg.domain.text.words import WORD
from docstokg.domain.time_budget import CHECK_S, VERIFY
from docstokg.errors import DocsToKGError, Timeout, WrongAnswer
from docstokg.ports import Opinion, Pair, Verifier
from docstokg.usecases.run import Call

MOST_CLAIMS = 12
# Minimum probability to report an unsupported claim as contradicted.
LIKELY = 0.5
# Minimum words of a quote that is no whole sentence, row or item.
LEAST_WORDS = 5
# Minimum share of a claim's stems in its quotes: .43 or more in fitting, .10 or less in others.
LEAST_SHARE = 0.25


class Claim(NamedTuple):
    """A sentence without its markers, the texts of its cited passages, and their titles."""

    text: str
    passages: tuple[str, ...]
    header: str = ""


class Decision(NamedTuple):
    """The verifier's verdict on one claim; `reason`: of an unsupported one; `quotes`: its proof."""

    verdict: Literal["supported", "unsupported"]
    support: float
    reason: Literal["contradicted", "not_stated"] | None = None
    quotes: tuple[str, ...] = ()


class Verification(NamedTuple):
    """One decision per claim (None: undecided), milliseconds, and the verifier's problem."""

    decisions: tuple[Decision | None, ...]
    took_ms: float
    problem: CheckProblem | None = None


class Asking(NamedTuple):
    """The verifier of one call: name, whether it also wrote the text, and its function."""

    name: str
    self_check: bool
    verify: Callable[[Sequence[Claim]], Verification]

    def checked_by(self, verification: Verification) -> CheckedBy:
        """Return the entry of a verification in the report."""
        return CheckedBy(
            name=self.name,
            kind="model",
            self_check=self.self_check,
            took_ms=verification.took_ms,
            degraded=verification.problem is not None,
            problem=verification.problem,
        )


def asking(
    call: Call,
    verifier: Verifier | None,
    author: str | None = None,
    request_s: float = CHECK_S,
) -> Asking | None:
    """Return a verifier bound to a call and its share of the request's seconds, or None without.

    `author`: the model that wrote the text.
    """
    if verifier is None:
        return None
    kind, _, model = verifier.name.partition(":")
    return Asking(
        verifier.name,
        kind == "llm" and author is not None and _bare(author) == _bare(model),
        lambda claims: verify(call, verifier, claims, call.deadline.limit(*VERIFY.of(request_s))),
    )


def verify(
    call: Call, verifier: Verifier, claims: Sequence[Claim], deadline: Deadline
) -> Verification:
    """Decide claims in one batch within `deadline`; never raises for the verifier.

    The first 12 claims with passages are sent with their best windows. After a failure, a timeout
    or an invalid opinion nothing is decided; an opinion whose quotes do not carry the claim is
    ignored. Both add the reason `verifier_unavailable`.
    """
    started = time.perf_counter()
    pairs: dict[int, Pair] = {}
    for place, claim in enumerate(claims):
        if len(pairs) < MOST_CLAIMS and (sources := best_windows(claim.text, claim.passages)):
            pairs[place] = Pair(claim.text, sources)
    decisions: list[Decision | None] = [None] * len(claims)
    batch = tuple(pairs.values())
    problems: list[CheckProblem] = []

    def opinions_of() -> Sequence[Opinion | None]:
        try:
            return _checked(verifier, batch, deadline)
        except DocsToKGError as error:
            problems.append(_problem(error))
            raise

    opinions = (
        call.attempt("verifier", opinions_of, "verifier_unavailable", verifier=verifier.name)
        if batch
        else ()
    )
    for (place, pair), opinion in zip(pairs.items(), opinions or (), strict=False):
        decisions[place] = _decision(opinion, pair, claims[place].header, verifier.threshold)
        if opinion is not None and decisions[place] is None:
            problems.append("unreadable")
    if problems:
        call.mark_degraded("verifier_unavailable")
    took_ms = round((time.perf_counter() - started) * 1000, 1)
    return Verification(tuple(decisions), took_ms, problems[0] if problems else None)


def _problem(error: DocsToKGError) -> CheckProblem:
    if isinstance(error, Timeout):
        return "late"
    return "unreadable" if isinstance(error, WrongAnswer) else "refused"


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


def _decision(
    opinion: Opinion | None, pair: Pair, header: str, threshold: float
) -> Decision | None:
    if opinion is None:
        return None
    support, contradicted, quotes = opinion
    contexts = [_context(quote, pair.sources) for quote in quotes]
    passages = [context for context in contexts if context is not None]
    if len(passages) < len(contexts):
        return None
    if support >= threshold:
        is_carried = not quotes or (
            coverage(question_stems(pair.claim), " ".join(quotes)) >= LEAST_SHARE
            and not any(
                observation.code in MISSING
                for observation in observations(pair.claim, [header, *passages])
            )
        )
        return Decision("supported", support, None, quotes) if is_carried else None
    is_contradicted = contradicted is not None and contradicted >= LIKELY
    return Decision(
        "unsupported", support, "contradicted" if is_contradicted else "not_stated", quotes
    )


def holds(source: str, quote: str) -> bool:
    """Return whether a source contains a quote, apart from white space and prompt fences."""
    return in_line(quote) in in_line(source)


def _context(quote: str, sources: Sequence[str]) -> str | None:
    """Return the sentences of a quote and the one before; None if no source has such a quote.

    A quote is whole words, at least five or a whole sentence, row or item.
    """
    plain = in_line(quote)
    is_short = len(WORD.findall(plain)) < LEAST_WORDS
    for source in sources:
        text = in_line(source)
        match = re.search(rf"(?<!\w){re.escape(plain)}(?!\w)", text) if plain else None
        if match is None or (is_short and find_quotation(quote, source, ()) is None):
            continue
        spans = sentence_spans(text)
        touched = [
            number
            for number, (start, end) in enumerate(spans)
            if start < match.end() and match.start() < end
        ]
        if touched:
            return text[spans[max(0, touched[0] - 1)].start : spans[touched[-1]].end]
    return None


def _bare(model: str) -> str:
    return ModelAccess().route(model).name
