"""Built-in extractive model.

Weights: `reader_weights.json`, fitted by `training.answers`; see docs/decisions/answers.md.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.state import Block
from docstokg.domain.answer.citations import strip_markers
from docstokg.domain.answer.kinds import (
    asked_kinds,
    asks_for_part,
    have_same_form,
    lacks_time,
    named_label,
)
from docstokg.domain.answer.notices import ABSTENTION, not_connected, nothing_found, rows_shown
from docstokg.domain.answer.quoting import LEANING, Quotation, leans, quoted
from docstokg.domain.answer.reader_features import (
    SAME,
    Candidate,
    alike,
    candidates,
    folded,
    in_asked_notation,
    in_place,
    labels_of,
    section_of,
    states_others,
    stems,
)
from docstokg.domain.answer.rows import (
    MOST_ROWS,
    asked_rows,
    missing_names,
    parallel,
    row_in_words,
)
from docstokg.domain.budget import tokens
from docstokg.domain.text.sentences import Span
from docstokg.domain.text.values import quantities

MODEL = EXTRACTIVE
# Maximum number of passages read.
READ = 8

# Maximum number of additional passages cited for the same statement.
FURTHER = 2

PREFERRED = 0.5

# Candidates with the highest scores that the reader compares with the question.
COMPARED = 24

_FAR = 3.0
# Of the credit, if the quotation has only other values of a kind that the question has one of.
_OTHER_VALUE = 0.5
_LOWEST, _HIGHEST = -8.0, 4.0
# Words of a sentence that the reader gets with the previous one, of at most so many characters.
_BRIEF, _CONTEXT = 9, 200
_HALVES = re.compile(
    r"\s(?:and|und|et|y|e|en)\s+"
    r"(?P<second>(?:how|which|who|whose|what|when|where|why|wie|wer|was|wann|wo|warum|welche[rsn]?"
    r"|combien|qui|quand|o\u00f9|pourquoi|quel(?:le)?|cu\u00e1nto|qui\u00e9n|cu\u00e1ndo|d\u00f3nde|qu\u00e9|quanto|chi|quando|dove"
    r"|quem|onde|hoeveel|wanneer|waar|welk)\b.{6,})\Z",
    re.IGNORECASE,
)

# "and how much is it?" names nothing of its own.
_ELLIPTIC = re.compile(
    r"\w+(?: \w+)? (?:is|are|was|were) (?:it|they|he|she|that)\W*", re.IGNORECASE
)

# Characters of a first half.
_FIRST_HALF = 12

# Logits of texts for a question; None where time ran out.
Reader = Callable[[str, Sequence[str]], Sequence[float | None]]


class Answer(NamedTuple):
    """An answer with markers, and the probability in [0, 1] that it is right.

    `text`: the abstention sentence if no block answers; "" if the quotation exceeds the token
    budget. `best`: span in `text` of the sentence that was chosen. `warnings`: notices.
    """

    text: str
    probability: float
    best: Span | None = None
    warnings: tuple[str, ...] = ()


class Choice(NamedTuple):
    """Quotations, the probability that they are right, and the expected credit, in [0, 1].

    Credit is 1 for a right choice, 0.5 for a wrong one of passages that answer, else 0.
    """

    quotations: tuple[Quotation, ...]
    probability: float
    credit: float
    warnings: tuple[str, ...] = ()


def answer(
    query: str,
    blocks: Sequence[Block],
    max_tokens: int,
    threshold: float,
    reader: Reader | None = None,
) -> Answer:
    """Quote what answers the question if the expected credit is at least `threshold`, else abstain.

    The halves of "X, and how Y?" are answered separately. Superseded blocks are skipped, quoted
    mails too if others answer. The text is "" unless under `max_tokens`.
    """
    current = [block for block in blocks if block.superseded_by is block.newest is None]
    direct = [block for block in current if not block.quoted]
    if len(direct) < len(current):
        first = answer(query, direct, max_tokens, threshold, reader)
        if first.text != ABSTENTION:
            return first
    passages = [block for i, block in enumerate(current) if i < READ or block.steps]
    notices = nothing_found(missing_names(query, passages))
    apart = next((block.apart for block in passages if block.apart), ())
    for questions in filter(None, (_halves(query.strip()), [query])):
        choices = [choice for part in questions if (choice := choose(part, passages, reader))]
        if sure := [choice for choice in choices if choice.credit >= threshold]:
            break
    quotations = [quotation for choice in sure for quotation in choice.quotations]
    # A single part is about one of two names that nothing connects.
    if not quotations or (apart and len(quotations) == 1):
        highest = max((choice.probability for choice in choices), default=0.0)
        notices += (not_connected(apart),) if apart else ()
        return Answer(ABSTENTION, highest, None, notices)
    joined = _joined(quotations)
    if tokens(joined.text) >= max_tokens:
        single = choose(query, passages, reader, linked=False)
        joined = single.quotations[0] if single is not None else joined
    probability = min(choice.probability for choice in sure)
    warnings = tuple(
        dict.fromkeys((*notices, *(text for choice in sure for text in choice.warnings)))
    )
    if tokens(joined.text) >= max_tokens:
        return Answer("", probability)
    return Answer(joined.text, probability, joined.best, warnings)


def _halves(query: str) -> list[str]:
    match = _HALVES.search(query, _FIRST_HALF)
    if match is None or _ELLIPTIC.fullmatch(match["second"]):
        return []
    first = query[: match.start()].rstrip().removesuffix(",")
    return [f"{half.rstrip('?')}?" for half in (first, match["second"])]


def _joined(quotations: Sequence[Quotation]) -> Quotation:
    different = list({quotation.text: quotation for quotation in quotations}.values())
    return Quotation(" ".join(quotation.text for quotation in different), different[0].best)


def choose(
    query: str, blocks: Sequence[Block], reader: Reader | None = None, *, linked: bool = True
) -> Choice | None:
    """Return the best candidate, or a likelier pair, comparison, path or matching rows.

    None without candidates, or if a number is expected and no candidate has one.
    `linked`: consider several parts and quote neighbours.
    """
    pool = candidates(query, blocks)
    kinds = asked_kinds(query)
    if all(candidate.features.kind_missed for candidate in pool):
        return None
    scores = choice_scores(pool)
    logits = compared(query, pool, scores, reader)
    fitted = _fitted(logits)
    scores = mixed(scores, logits, fitted["logit"])
    best = _best(pool, scores)
    linked = linked and not pool[best].is_labelled
    several = _several(query, kinds, pool, scores, best, fitted) if linked else None
    places, together, warnings = several if several is not None else ((best,), None, ())
    signs = signs_of(pool, scores, best, logits, places if "many" in kinds else ())
    # A further source that agrees never lowers the probability.
    views = (signs, _alone(query, blocks, pool, best, logits))
    probability = max(logistic(fitted["right"], view) for view in views if view)
    if several is not None:
        probability = probability if together is None else together
        from docstokg.domain.answer.two_hops import signs_together

        covered = signs_together(pool, scores, places, 0.0)["covered"]
        signs |= {name: max(signs[name], covered) for name in ("words", "words_around")}
    # The reader compares single parts with the question, not several together.
    judging = fitted if several is None else model()["without_reader"]
    credit = logistic(judging["credit"], signs)
    if pool[best].is_labelled and asks_for_part(query):
        # The part is there; only another one with the same label could be meant.
        parts = {
            (each.block.rank, each.unit.heading, each.unit.lead)
            for each in pool
            if each.features.defines == pool[best].features.defines
        }
        probability, credit = 1 / len(parts), 1.0
    is_single = len(places) == 1 and not leans(pool[best].unit)
    others = _repeating(pool, best) if is_single else ()
    keys = {pool[place].unit.fields[:1] for place in places}
    whole = len(keys) < len(places)
    wide = linked and is_single
    quotations = tuple(
        quoted(query, pool[place], others, whole=whole, wide=wide) for place in places
    )
    text = strip_markers(" ".join(quotation.text for quotation in quotations))
    if lacks_label(query, pool, best) or lacks_time(query, stems(query), text):
        credit = 0.0
    elif states_others(query, in_place(text, pool[best].block)):
        credit *= _OTHER_VALUE
    return Choice(quotations, probability, credit, warnings)


def _best(pool: Sequence[Candidate], scores: Sequence[float]) -> int:
    """Return the place of the best candidate, of named or defining ones if any."""
    return max(range(len(pool)), key=lambda place: (pool[place].features.defines, scores[place]))


def lacks_label(query: str, pool: Sequence[Candidate], best: int) -> bool:
    """Return whether a question names a part ("step 9") and its document has only other steps."""
    label = named_label(query)
    if label is None or pool[best].is_labelled:
        return False
    numbers = {
        other[1]
        for each in pool
        if each.block.document_name == pool[best].block.document_name
        for other in labels_of(each.unit, each.block)
        if other is not None and have_same_form(other, label)
    }
    return len(numbers) > 1


def compared(
    query: str, pool: Sequence[Candidate], scores: Sequence[float], reader: Reader | None
) -> dict[int, float]:
    """Return the reader's logits of the candidates with the highest scores, by place."""
    if reader is None:
        return {}
    places = sorted(range(len(pool)), key=lambda place: -scores[place])[:COMPARED]
    logits = reader(query, [in_context(query, pool[place]) for place in places])
    return {
        place: min(_HIGHEST, max(_LOWEST, logit))
        for place, logit in zip(places, logits, strict=True)
        if logit is not None
    }


def in_context(query: str, candidate: Candidate) -> str:
    """Return "title, heading: text" for the reader; without a heading "title: text".

    `previous_and` may put the previous sentence before the text. Names and values have the form
    that the question uses; a row is `row_in_words`.
    """
    unit = candidate.unit
    text = row_in_words(query, unit) if unit.fields else " ".join(unit.text.split())
    text = in_asked_notation(query, text)
    for other in candidate.block.other_names:
        text = text.replace(other.in_passage, other.in_question)
    title = candidate.block.subject
    heading = unit.heading or section_of(candidate.block)
    above = title if heading in ("", title) else f"{title}, {heading}"
    return f"{above}: {previous_and(text, unit.before)}"


def previous_and(text: str, before: str) -> str:
    """Return a text after the previous sentence if it is brief or begins without a subject."""
    if before and (len(text.split()) < _BRIEF or LEANING.match(text)):
        return f"{' '.join(before.split())[-_CONTEXT:]} {text}"
    return text


def mixed(scores: Sequence[float], logits: Mapping[int, float], weight: float) -> list[float]:
    """Return score + weight x logit; candidates that were not read get the lowest logit."""
    lowest = min(logits.values(), default=0.0)
    return [score + weight * logits.get(place, lowest) for place, score in enumerate(scores)]


def _several(
    query: str,
    kinds: Sequence[str],
    pool: Sequence[Candidate],
    scores: Sequence[float],
    best: int,
    fitted: Mapping[str, Any],
) -> tuple[tuple[int, ...], float | None, tuple[str, ...]] | None:
    """Return places to quote together, their probability (None: that of `best`) and warnings."""
    # Imported here: it loads six modules that a process without answers does not need.
    from docstokg.domain.answer.two_hops import along, pairs

    places, others = asked_rows(query, pool, best)
    if places:
        listed = places[:MOST_ROWS]
        notice = rows_shown(len(listed), len(places), others)
        return (listed, None, (notice,)) if len(places) > 1 else None
    if places := parallel(query, pool, best, every="many" in kinds):
        return places, None, ()
    names = {word for name in pool[best].block.joined for word in stems(name)}
    if not names <= pool[best].covered.keys() and (path := along(pool, scores)) is not None:
        return path.places, logistic(fitted["pair_right"], path.signs), ()
    around = pool[best].features.words_around
    wider = [pair for pair in pairs(query, pool, scores) if pair.signs["covered"] > around]
    pair = max(wider, key=lambda each: weighted(fitted["pair"], each.signs), default=None)
    if pair is None or logistic(fitted["prefer_pair"], pair.signs) < PREFERRED:
        return None
    return pair.places, logistic(fitted["pair_right"], pair.signs), ()


def _repeating(pool: Sequence[Candidate], best: int) -> tuple[int, ...]:
    """Return the ranks of further passages that contain the best candidate's text."""
    chosen = pool[best]
    text = folded(chosen.unit.text)
    same = (pool[place] for place in agreeing(pool, best) if text in folded(pool[place].block.text))
    ranks = dict.fromkeys(candidate.block.rank for candidate in same)
    return tuple(rank for rank in ranks if rank != chosen.block.rank)[:FURTHER]


def agreeing(pool: Sequence[Candidate], best: int) -> list[int]:
    """Return the indices of the candidates with the same statement as `best`, itself included.

    Quantities and negations must be equal, and the Dice coefficient of stems at least 0.6; with
    quantities it is enough that the candidate has 0.6 of the question's words that `best` has.
    """
    chosen = pool[best]
    numbers = quantities(chosen.unit.text)

    def agrees(candidate: Candidate) -> bool:
        if numbers != quantities(candidate.unit.text):
            return False
        common = chosen.covered.keys() & candidate.covered.keys()
        is_measured = bool(numbers) and len(common) >= SAME * len(chosen.covered) > 0
        return is_measured or alike(chosen.words, candidate.words)

    return [place for place, candidate in enumerate(pool) if place == best or agrees(candidate)]


def weighted(weights: Mapping[str, float], values_by_name: Mapping[str, float]) -> float:
    """Return the weighted sum of features by name; raise KeyError for a missing one."""
    return sum(weight * values_by_name[name] for name, weight in weights.items())


def signs_of(
    pool: Sequence[Candidate],
    scores: Sequence[float],
    best: int,
    logits: Mapping[int, float],
    beside: Iterable[int] = (),
) -> dict[str, float]:
    """Return the features for the probability that the choice is right.

    `share`: softmax share of the candidates that agree with the choice or are quoted `beside` it,
    among the defining ones if it is one. `margin`: distance of its score to the best other score,
    at most 3. `logit`: the reader's, the lowest if not read.
    """
    same = {*agreeing(pool, best), *beside}
    defines = pool[best].features.defines
    rivals = [place for place, each in enumerate(pool) if each.features.defines == defines]
    likely = {place: math.exp(scores[place] - scores[best]) for place in rivals}
    second = max(
        (scores[place] for place in rivals if place not in same), default=scores[best] - _FAR
    )
    return {
        **pool[best].features._asdict(),
        "share": sum(likely.get(place, 0) for place in same) / sum(likely.values()),
        "margin": max(0.0, min(_FAR, scores[best] - second)),
        "logit": logits.get(best, _LOWEST),
    }


def _alone(
    query: str,
    blocks: Sequence[Block],
    pool: Sequence[Candidate],
    best: int,
    logits: Mapping[int, float],
) -> dict[str, float]:
    """Return `signs_of` the choice without the other passages that agree with it; {} if none do."""
    rank = pool[best].block.rank
    others = {pool[place].block.rank for place in agreeing(pool, best)} - {rank}
    if not others:
        return {}
    remaining = candidates(query, [block for block in blocks if block.rank not in others])
    keys = [(candidate.block.rank, candidate.unit.start) for candidate in remaining]
    by_key = {(pool[at].block.rank, pool[at].unit.start): logit for at, logit in logits.items()}
    read_logits = {place: by_key[key] for place, key in enumerate(keys) if key in by_key}
    scores = mixed(choice_scores(remaining), read_logits, _fitted(read_logits)["logit"])
    return signs_of(remaining, scores, keys.index((rank, pool[best].unit.start)), read_logits)


def choice_scores(pool: Iterable[Candidate]) -> list[float]:
    """Return the fitted score of each candidate, without the reader."""
    choice = model()["choice"]
    return [weighted(choice, candidate.features._asdict()) for candidate in pool]


def _fitted(logits: Mapping[int, float]) -> Mapping[str, Any]:
    fitted: Mapping[str, Any] = model()["with_reader" if logits else "without_reader"]
    return fitted


def logistic(fitted: Mapping[str, Any], values: Mapping[str, float]) -> float:
    """Return the probability of a logistic model {"bias": b, "weights": {name: w}}.

    Raise KeyError for a missing value.
    """
    total = fitted["bias"] + sum(w * values[name] for name, w in fitted["weights"].items())
    return 1 / (1 + math.exp(-total))


@cache
def model() -> dict[str, Any]:
    """Load the fitted weights: `choice`, and logistic models with and without the reader."""
    text = files("docstokg.domain.answer").joinpath("reader_weights.json").read_text("utf-8")
    weights: dict[str, Any] = json.loads(text)
    return weights
