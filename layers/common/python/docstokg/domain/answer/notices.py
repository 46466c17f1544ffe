"""Answer and warning texts."""

from collections.abc import Iterable, Mapping, Sequence

from docstokg.contracts.response import SentenceVerdict

ABSTENTION = "I don't have information about that in the available documents."
SYNTHESIS_UNAVAILABLE = "Answer synthesis temporarily unavailable. Showing search results only."
CITATIONS_UNAVAILABLE = (
    "Citations unavailable for this response. Please verify information manually."
)
CITATIONS_REMOVED = "Some citation markers were invalid and have been removed."
DROPPED = "Statements without a citation or support by their sources were removed from this answer."
NOT_RELEVANT = "No passage reached the minimum relevance score; the answer may be off topic."
HARM_REMOVED = (
    "Links, images, markup or hidden characters that no cited source contains were removed."
)
CUT_SHORT = "The model's output was truncated; the answer ends at the last complete sentence."
ONLY_REASONED = "model {} only reasoned and gave no answer"
BROKEN_OFF = "The model's reply broke off; the answer is incomplete."
LEGIBLE = 60
_DOUBTS = {
    "uncited": "without a citation",
    "unsupported": "not supported by the cited sources, according to the verifier",
    "too_long": "too long to check",
}
KINDS_LISTED = 20
NO_EMBEDDER = (
    "Confidence does not include the similarity of question and answer: no embedder is available."
)


# Maximum sentences that one kind of warning lists.
_MOST_SENTENCES = 5


def listed(names: Sequence[str], limit: int = 5) -> str:
    """Return the first `limit` names, cut to 60 characters, and the number of others, joined."""
    labels = [name if len(name) <= LEGIBLE else f"{name[:LEGIBLE]}\u2026" for name in names[:limit]]
    remainder = [f"{len(names) - limit} more"] if len(names) > limit else []
    return ", ".join([*labels, *remainder])


def nothing_has(
    field: str, values: Iterable[str], available: Iterable[str], around: str
) -> list[str]:
    """Return a warning that lists the values of `field` missing in `available` (folded), if any."""
    kinds = sorted(available)
    unknown = [value for value in values if value.casefold() not in kinds]
    if not unknown:
        return []
    choices = listed(kinds, KINDS_LISTED) or "none"
    return [f"{field}: not found near {around}: {listed(unknown)}; available: {choices}"]


def model_failed(why: str, instead: str | None) -> str:
    """Return the warning for a failed model; `instead` is the model that answered."""
    sentence = why[:1].upper() + why[1:]
    return f"{sentence}; {instead} answered instead." if instead else f"{sentence}."


def no_room(max_tokens: int) -> str:
    """Return the warning for a token budget smaller than one sentence."""
    return f"No sentence of the answer fits into budget.max_tokens_gen ({max_tokens}); increase it."


def stopped_early(model: str, tokens_out: int) -> str:
    """Return the warning for a model that stopped below the token budget without a sentence."""
    count = f"{tokens_out} {'token' if tokens_out == 1 else 'tokens'}"
    return f"Model {model} stopped after {count}, at a length limit of its own."


def statements_doubted(counts: Mapping[str, int]) -> list[str]:
    """Return a warning for `uncited`, `unsupported` and `too_long` each, if counted.

    `counts`: number of statements by verdict or reason.
    """
    return [
        f"{count} {'statement' if count == 1 else 'statements'} in this answer: {way}."
        for kind, way in _DOUBTS.items()
        if (count := counts.get(kind, 0))
    ]


def values_of_sentences(problem: str, values_by_number: Mapping[int, Sequence[str]]) -> list[str]:
    """Return a warning that lists values with a problem, of the first 5 sentences, if any."""
    parts = [f"{listed(values)} (sentence {number})" for number, values in values_by_number.items()]
    parts = _first(parts, "further sentences with such values: {}")
    return [f"{problem}: {'; '.join(parts)}."] if parts else []


def markers_unproven(verdicts: Iterable[SentenceVerdict]) -> list[str]:
    """Return warnings that list the ranks without proof of the first 5 proven sentences, if any."""
    warnings = [
        f"Sentence {number} is in {_ranks(verdict.proven)}, but was not found in {_ranks(others)}."
        for number, verdict in enumerate(verdicts, 1)
        if verdict.proven
        and (others := [rank for rank in verdict.citations if rank not in verdict.proven])
    ]
    return _first(warnings, "Further sentences with such markers: {}.")


def _first(texts: list[str], remainder: str) -> list[str]:
    others = len(texts) - _MOST_SENTENCES
    return [*texts[:_MOST_SENTENCES], remainder.format(others)] if others > 0 else texts


def _ranks(ranks: Iterable[int]) -> str:
    return ", ".join(f"[{rank}]" for rank in ranks)


def is_abstention(answer: str) -> bool:
    """Return whether an answer is the abstention sentence, ignoring quotes and white space."""
    plain = " ".join(answer.replace("\u2019", "'").strip(" \t\r\n\"'*_`").split())
    return plain.rstrip(".").casefold() == ABSTENTION.rstrip(".").casefold()


def nothing_found(names: Sequence[str]) -> tuple[str, ...]:
    """Return the warning for names of the question that no passage has, if any."""
    return (f"Nothing found for {listed(names)}.",) if names else ()


def not_connected(names: Sequence[str]) -> str:
    """Return the warning for two names of the question that neither passage nor graph joins."""
    pair = " and ".join(names)
    return f"No connection found between {pair}, neither in the passages read nor in the graph."


def rows_shown(rows: int, count: int, others: int) -> str:
    """Return the warning for an answer of matching rows; `others`: further rows of their table."""
    left_out = f", and leaves out {others} that match less of the question" if others else ""
    return f"The answer shows {rows} of {count} matching rows in the passages read{left_out}."
