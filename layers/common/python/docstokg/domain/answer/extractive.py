"""The built-in model: the stretch of a source that answers best, with its marker, or nothing.

Which one answers, and how likely it is right, is learned: `reader_weights.json` is written by
`python -m training.answers`, and docs/decisions/answers.md is its card.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.state import Block
from docstokg.domain.answer.citations import code_ranges, strip_markers
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.reader_features import Candidate, Features, candidates, stems
from docstokg.domain.answer.units import LONGEST
from docstokg.domain.budget import tokens
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.words import visible

MODEL: Final = EXTRACTIVE
READ: Final = 8
"""Passages that are read."""

_FAR: Final = 3.0
_LINK: Final = re.compile(
    r"!?\[([^\[\]]{1,200}+)\](?:\([^()\s]{0,400}+(?:\s[^()\n]{0,100}+)?\)|\[[^\[\]]{0,80}+\])"
)
# The digit is looked for first: two stretches around it would be shared out in every way.
_BRACKETED: Final = re.compile(
    r"[\[\u3010\uff3b](?=[^\]\u3011\uff3d\n\d]{0,80}+\d)"
    r"([^\]\u3011\uff3d\n]{1,160}+)[\]\u3011\uff3d]"
)
_ENGLISH: Final = re.compile(
    r"\b(?:what|which|who|whom|whose|how|when|where|why|does|did|are|the)\b", re.I
)
# A word with a capital that begins no sentence, or one with a digit.
_NAME: Final = re.compile(r"(?<=[^.?!:]\s)(?:[A-Z][\w'\u2019.-]*|\w*\d[\w.]*)")
_LEANING: Final = re.compile(
    r"(?:it|its|this|these|those|they|their|he|his|she|her|such|then|therefore|thus)\b", re.I
)


class Answer(NamedTuple):
    """What is said, with its markers, and how likely it is right; the abstention sentence if not.

    `probability` is that of the choice also where it was too low to be said.
    """

    text: str
    probability: float


def answer(query: str, blocks: Sequence[Block], max_tokens: int, least: float) -> Answer:
    """Quote what answers best, if the blocks hold an answer with a probability of `least` or more.

    A sentence that leans on the one before comes with it. Quoted brackets with digits become
    round, so that no source can forge a marker.
    Nothing is said of a name that no block has: no set that is fitted on holds such questions.
    """
    read = blocks[:READ]
    best = choose(query, read) if names_only(query, read) else None
    if best is None:
        return Answer(ABSTENTION, 0.0)
    text = cited(best.candidate)
    said = best.answerable >= least and text and tokens(text) < max_tokens
    return Answer(text if said else ABSTENTION, best.probability)


def quoted(query: str, blocks: Sequence[Block], max_tokens: int, least: float) -> Answer:
    """Return `answer` from the blocks that no other block supersedes."""
    current = [block for block in blocks if block.superseded_by is None]
    return answer(query, current, max_tokens, least)


class Choice(NamedTuple):
    """The best candidate, how likely it is right, and how likely any of the passages answers."""

    candidate: Candidate
    probability: float
    answerable: float


def choose(query: str, blocks: Sequence[Block]) -> Choice | None:
    """Weigh every unit of the blocks; None where there is none."""
    found = candidates(query, blocks)
    if not found:
        return None
    weights = model()
    scores = [
        sum(weight * getattr(one.features, name) for name, weight in weights["choice"].items())
        for one in found
    ]
    best = max(range(len(found)), key=scores.__getitem__)
    signs = signs_of(found[best].features, scores, scores[best])
    likely = (logistic(weights[name], signs) for name in ("right", "answerable"))
    return Choice(found[best], *likely)


def signs_of(features: Features, scores: Sequence[float], top: float) -> dict[str, float]:
    """Give what tells a right choice from a wrong one.

    `share`: the choice's share of all candidates, each counted by e to the power of its score;
    `margin`: how far the next one is behind, 3 at most.
    """
    second = max((score for score in scores if score < top), default=top - _FAR)
    return {
        **features._asdict(),
        "share": 1 / sum(math.exp(score - top) for score in scores),
        "margin": min(_FAR, top - second),
    }


def logistic(fitted: Mapping[str, Any], values: Mapping[str, float]) -> float:
    """Give the probability of a logistic model {"bias": b, "weights": {name: w}}."""
    total = fitted["bias"] + sum(w * values[name] for name, w in fitted["weights"].items())
    return 1 / (1 + math.exp(-total))


@cache
def model() -> dict[str, Any]:
    """Read the weights: `choice`, and logistic models."""
    text = files("docstokg.domain.answer").joinpath("reader_weights.json").read_text("utf-8")
    weights: dict[str, Any] = json.loads(text)
    return weights


def names_only(query: str, blocks: Sequence[Block]) -> bool:
    """Return whether the blocks contain the names and numbers of an English question, or aliases.

    Only for English: other languages capitalise common nouns.
    """
    if not _ENGLISH.search(query):
        return True
    said = (f"{block.document_name} {block.subject} {block.text}" for block in blocks)
    called = (other.in_question for block in blocks for other in block.other_names)
    held = {stem for text in (*said, *called) for stem in stems(text)}
    asked = {stem for name in _NAME.findall(query) for stem in stems(name)}
    return all(stem in held for stem in asked if len(stem) > 1 or stem.isdecimal())


def cited(one: Candidate) -> str:
    """Write a candidate with its marker before each final stop; code below a line that has it."""
    unit, marker = one.unit, f"[{one.block.rank}]"
    shown = visible(unit.shown)
    if unit.kind == "code":
        fence = "````" if "```" in shown else "```"
        lead = _plain(unit.lead or unit.above).rstrip(":.?") or one.block.document_name
        return f"{lead} {marker}:\n\n{fence}\n{shown}\n{fence}\n"
    is_said = unit.before and not unit.before.rstrip("*_ ").endswith("?")  # a question is no answer
    leans = unit.kind == "sentence" and is_said and _LEANING.match(shown)
    whole = f"{visible(unit.before)} {shown}" if leans else shown
    plain = _plain(whole if len(whole) <= LONGEST else shown)
    said = [plain[span.start : span.end] for span in sentence_spans(plain)]
    return " ".join(_marked(sentence, marker) for sentence in said)


def _marked(sentence: str, marker: str) -> str:
    body = sentence.rstrip(".!?\u2026\u3002;, |")
    stop = sentence[len(body) :].strip()[:1]
    return f"{body} {marker}{stop if stop in ('.', '!', '\u3002') else '.'}"


def _plain(text: str) -> str:
    """Write a quotation without links, and without brackets that would read as our markers."""
    text = _LINK.sub(r"\1", " ".join(text.split())).strip("|>#\u2022 ")
    if text.count("`") % 2:
        text = text.replace("`", "'")
    made, at = [], 0
    for start, end in [*code_ranges(text), (len(text), len(text))]:
        made.append(_BRACKETED.sub(r"(\1)", strip_markers(text[at:start])))
        made.append(text[start:end])
        at = end
    return "".join(made)
