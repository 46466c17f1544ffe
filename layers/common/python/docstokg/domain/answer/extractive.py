"""Built-in extractive model.

Weights: `reader_weights.json`, fitted by `training.answers`; see docs/decisions/answers.md.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.state import Block
from docstokg.domain.answer.citations import LINK, outside_code, strip_markers
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.parts import LONGEST
from docstokg.domain.answer.reader_features import Candidate, alike, candidates, folded, stems
from docstokg.domain.budget import tokens
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.values import quantities
from docstokg.domain.text.words import STOP_WORDS, WORD, stem, visible

MODEL = EXTRACTIVE
# Maximum number of passages read.
READ = 8

# Maximum number of additional passages cited for the same statement.
FURTHER = 2

PREFERRED = 0.5

_FAR = 3.0
# Search the digit first, to avoid exponential backtracking between two stretches.
_BRACKETED = re.compile(
    r"[\[\u3010\uff3b](?=[^\]\u3011\uff3d\n\d]{0,80}+\d)"
    r"([^\]\u3011\uff3d\n]{1,160}+)[\]\u3011\uff3d]"
)
_ENGLISH = re.compile(
    r"\b(?:what|which|who|whom|whose|how|when|where|why|does|did|are|the)\b", re.I
)
# A capitalised word inside a sentence, or a word with a digit.
_NAME = re.compile(r"(?<=[^.?!:]\s)(?:[A-Z][\w'\u2019.-]*|\w*\d[\w.]*)")
_LINE_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_STOPS = ".!?\u2026\u3002;, |"
_ENDS = (".", "!", "?", "\u2026", "\u3002")
_CLOSERS = "\"'\u201d\u2019\u00bb)"
_LEANING = re.compile(
    r"(?:it|its|this|these|those|they|their|he|his|she|her|such|then|therefore|thus)\b", re.I
)


class Answer(NamedTuple):
    """An answer with markers, and the probability in [0, 1] that it is right.

    `text`: the abstention sentence if no block answers; "" if the quotation exceeds the token
    budget.
    """

    text: str
    probability: float


def answer(query: str, blocks: Sequence[Block], max_tokens: int, least: float) -> Answer:
    """Quote the best sentence, or two linked ones, if P(answerable) is at least `least`.

    A sentence that begins with a pronoun is quoted with its predecessor. Up to two more passages
    are cited. Superseded blocks, and the older ones of a series, are skipped. Abstain if a name in
    the question is in no block. The text is "" unless under `max_tokens`.
    """
    current = [block for block in blocks if block.superseded_by is block.newest is None]
    read = [block for i, block in enumerate(current) if i < READ or block.steps]
    best = choose(query, read) if names_only(query, read) else None
    if best is None:
        return Answer(ABSTENTION, 0.0)
    if len(best.quoted) > 1 and tokens(best.text) >= max_tokens:
        best = choose(query, read, linked=False) or best
    text = best.text
    if best.answerable < least or not text:
        return Answer(ABSTENTION, best.probability)
    return Answer(text if tokens(text) < max_tokens else "", best.probability)


class Choice(NamedTuple):
    """Quoted candidates, each with the ranks of further passages with the same statement.

    `probability`: that they answer the question; `answerable`: that any passage does.
    """

    quoted: tuple[tuple[Candidate, tuple[int, ...]], ...]
    probability: float
    answerable: float

    @property
    def text(self) -> str:
        """The candidates with their markers."""
        return " ".join(cited(one, others) for one, others in self.quoted)


def choose(query: str, blocks: Sequence[Block], *, linked: bool = True) -> Choice | None:
    """Return the best candidate, or a likelier pair or stored path; None without candidates.

    `linked`: consider pairs and paths.
    """
    # Imported here: it loads six modules that a process without answers does not need.
    from docstokg.domain.answer.two_hops import along, pairs

    found = candidates(query, blocks)
    if not found:
        return None
    weights = model()
    scores = [weighted(weights["choice"], one.features._asdict()) for one in found]
    best = max(range(len(found)), key=scores.__getitem__)
    signs = signs_of(found, scores, best)
    around = found[best].features.words_around
    wider = pairs(query, found, scores) if linked else []
    wider = [one for one in wider if one.signs["covered"] > around]
    pair = max(wider, key=lambda one: weighted(weights["pair"], one.signs), default=None)
    if pair is not None and logistic(weights["prefer_pair"], pair.signs) < PREFERRED:
        pair = None
    quoted = [best] if pair is None else pair.places
    held = {word for place in quoted for word in found[place].asked}
    if linked and not {word for name in blocks[0].joined for word in stems(name)} <= held:
        pair = along(found, scores) or pair
    if pair is not None:
        covered = pair.signs["covered"]
        both = {name: max(signs[name], covered) for name in ("words", "words_around")}
        return Choice(
            tuple((found[place], ()) for place in pair.places),
            logistic(weights["pair_right"], pair.signs),
            logistic(weights["answerable"], {**signs, **both}),
        )
    one = found[best]
    # Similar words can be about another subject; a source has to contain all of them.
    same = [found[place] for place in agreeing(found, best) if one.words <= found[place].words]
    others = dict.fromkeys(other.block.rank for other in same)
    ranks = tuple(rank for rank in others if rank != one.block.rank)[:FURTHER]
    right, answerable = (logistic(weights[name], signs) for name in ("right", "answerable"))
    return Choice(((one, ranks),), right, answerable)


def agreeing(found: Sequence[Candidate], best: int) -> list[int]:
    """Return the indices of the candidates with the same statement as `best`, itself included.

    Quantities and negations must be equal, and the Dice coefficient of stems at least 0.6.
    """
    own = found[best]
    return [
        place
        for place, one in enumerate(found)
        if one is own
        or (alike(own, one) and quantities(own.unit.shown) == quantities(one.unit.shown))
    ]


def weighted(weights: Mapping[str, float], values_by_name: Mapping[str, float]) -> float:
    """Return the weighted sum of features by name; raise KeyError for a missing one."""
    return sum(weight * values_by_name[name] for name, weight in weights.items())


def signs_of(found: Sequence[Candidate], scores: Sequence[float], best: int) -> dict[str, float]:
    """Return the features for the probability that the choice is right.

    `share`: softmax share of the candidates that agree with the choice. `margin`: distance of its
    score to the best other score, at most 3.
    """
    same = set(agreeing(found, best))
    likely = [math.exp(score - scores[best]) for score in scores]
    second = max(
        (score for place, score in enumerate(scores) if place not in same),
        default=scores[best] - _FAR,
    )
    return {
        **found[best].features._asdict(),
        "share": sum(likely[place] for place in same) / sum(likely),
        "margin": max(0.0, min(_FAR, scores[best] - second)),
    }


def logistic(fitted: Mapping[str, Any], values: Mapping[str, float]) -> float:
    """Return the probability of a logistic model {"bias": b, "weights": {name: w}}.

    Raise KeyError for a missing value.
    """
    total = fitted["bias"] + sum(w * values[name] for name, w in fitted["weights"].items())
    return 1 / (1 + math.exp(-total))


@cache
def model() -> dict[str, Any]:
    """Load the fitted weights: `choice`, `pair` and logistic models."""
    text = files("docstokg.domain.answer").joinpath("reader_weights.json").read_text("utf-8")
    weights: dict[str, Any] = json.loads(text)
    return weights


def names_only(query: str, blocks: Sequence[Block]) -> bool:
    """Return whether the blocks contain all names and numbers of an English question, or aliases.

    Always true for other languages.
    """
    if not _ENGLISH.search(query):
        return True
    said = (f"{block.document_name} {block.subject} {block.text}" for block in blocks)
    called = (other.in_question for block in blocks for other in block.other_names)
    held = folded(" ".join((*said, *called)))
    asked = (word for name in _NAME.findall(query) for word in WORD.findall(folded(name)))
    return all(
        word in STOP_WORDS or word.removesuffix("s") in held or stem(word) in held for word in asked
    )


def cited(one: Candidate, others: Sequence[int] = ()) -> str:
    """Return a candidate with a marker before each final stop; code follows a line with markers.

    A leading pronoun adds the previous sentence. `others`: ranks of further passages with the same
    statement.
    """
    unit, marker = one.unit, f"[{one.block.rank}]"
    markers = marker + "".join(f"[{rank}]" for rank in others)
    shown = visible(unit.shown)
    if unit.kind == "code":
        fence = "````" if "```" in shown else "```"
        lead = _plain(unit.lead or unit.above).rstrip(":.?") or one.block.document_name
        return f"{lead} {markers}:\n\n{fence}\n{shown}\n{fence}\n"
    # a question is not an answer
    is_said = unit.before and not unit.before.rstrip("*_ ").endswith("?")
    leans = unit.kind == "sentence" and is_said and _LEANING.match(shown)
    before = visible(unit.before) if leans and len(unit.before) + len(shown) < LONGEST else ""
    return " ".join(filter(None, (_sentences(before, marker), _sentences(shown, markers))))


def _sentences(text: str, markers: str) -> str:
    plain = _plain(text)
    said = (plain[span.start : span.end] for span in sentence_spans(plain))
    return " ".join(_marked(sentence, markers) for sentence in said)


def _marked(sentence: str, markers: str) -> str:
    inside = sentence.rstrip(_CLOSERS)
    body = inside.rstrip(_STOPS) if inside[-1:] in _ENDS else sentence.rstrip(_STOPS)
    rest = sentence[len(body) :].strip()
    stop, close = rest[:1], rest.lstrip(_STOPS)
    return f"{body} {markers}{stop if stop in ('.', '!', '?', '\u3002') else '.'}{close}"


def _plain(text: str) -> str:
    text = LINK.sub(
        r"\1", " ".join(outside_code(text, lambda part: _LINE_BREAK.sub(" ", part)).split())
    ).strip("|>#\u2022 ")
    if text.count("`") % 2:
        text = text.replace("`", "'")
    return outside_code(text, lambda part: _BRACKETED.sub(r"(\1)", strip_markers(part)))
