"""The built-in model: the best-matching source sentences, each with its marker, no network."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from docstokg.contracts.state import Block
from docstokg.domain.budget import tokens
from docstokg.domain.citations import strip_markers
from docstokg.domain.notices import ABSTENTION
from docstokg.domain.sentences import sentence_spans
from docstokg.domain.verdicts import Judge
from docstokg.domain.wording import content_stems, read
from docstokg.domain.words import normalise, visible

MOST_SENTENCES: Final = 3
_LONGEST_SENTENCE: Final = 600
_SHORTEST_WORDS: Final = 4
_LEAST_COVERAGE: Final = 0.2
_SAME_WORDS: Final = 0.6
_LEAST_OF_BEST: Final = 0.4
_BRACKETED: Final = re.compile(
    r"[\[\u3010\uff3b]([^\]\u3011\uff3d\n]*\d[^\]\u3011\uff3d\n]*)[\]\u3011\uff3d]"
)
_TO_THE_READER: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|rule|above|previous)"
    r"|\byou (?:are|must|should) (?:now|always|never|only|answer|reply|respond|say)\b"
    r"|\b(?:system|assistant|user)\s*(?:prompt|message)?\s*:"
    r"|\b(?:reply|respond|answer|say|output|print|repeat|write) "
    r"(?:only|exactly|with|the (?:word|phrase))\b"
    r"|<<<|>>>|<\||<[a-z!/]|\]\s*\(|\bjavascript:",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Choice:
    score: float
    rank: int
    place: int
    text: str
    stems: frozenset[str]


def answer(query: str, blocks: Sequence[Block], judge: Judge, max_tokens: int) -> str:
    """Return up to three sentences of the blocks, each with the marker of its own block.

    Score = (0.5 + relevance / 20) x (0.1 + share of the question's rare words that the sentence,
    with its block's header, holds). The abstention
    sentence is returned when no sentence holds a fifth of them (by rarity). Sentences far below
    the best (40 % of its score) are left out, and those that
    address a model instead of stating something are left out, and so are repetitions. Quoted
    brackets with digits become round, so that no source can forge a marker.
    """
    wanted = frozenset(content_stems(query)) | read(query).ids
    weights = {stem: judge.weigh(stem) for stem in wanted}
    total = sum(weights.values())
    choices: list[_Choice] = []
    best_coverage = 0.0
    for block in blocks:
        spans = [
            span
            for span in sentence_spans(block.text)
            if _is_statement(block.text[span.start : span.end])
        ]
        texts = [block.text[span.start : span.end] for span in spans]
        if not texts:
            continue
        header = _header_words(block)
        for place, text in enumerate(texts):
            stems = frozenset(content_stems(text)) | read(text).ids
            held = sum(
                weight for stem, weight in weights.items() if stem in stems or stem in header
            )
            coverage = held / total if total else 0.0
            best_coverage = max(best_coverage, coverage)
            value = (0.5 + block.relevance / 20) * (0.1 + coverage)
            choices.append(_Choice(value, block.rank, place, text, stems))
    if best_coverage < _LEAST_COVERAGE:
        return ABSTENTION
    choices.sort(key=lambda choice: (-choice.score, choice.rank, choice.place))
    return _written(choices, max_tokens) or ABSTENTION


def _written(choices: Sequence[_Choice], max_tokens: int) -> str:
    taken: list[_Choice] = []
    left = max_tokens
    for choice in choices:
        if len(taken) == MOST_SENTENCES or choice.score < _LEAST_OF_BEST * choices[0].score:
            break
        text = _cited(choice)
        cost = tokens(text) + 1
        if cost > left or len(sentence_spans(text)) != 1:
            continue
        if not any(_alike(choice.stems, other.stems) for other in taken):
            taken.append(choice)
            left -= cost
    taken.sort(key=lambda choice: (choice.rank, choice.place))
    return " ".join(_cited(choice) for choice in taken)


def _cited(choice: _Choice) -> str:
    """Put the marker before the final stop, as in `text [1].`, on one line."""
    # The source's own reference numbers would read as markers of ours.
    seen = " ".join(strip_markers(visible(choice.text).replace("`", "'")).split())
    plain = _BRACKETED.sub(r"(\1)", seen)
    plain = plain.lstrip("#>*-\u2022| ").strip()
    body = plain.rstrip(".!?\u2026\u3002")
    stop = plain[len(body) :] or "."
    return f"{body} [{choice.rank}]{'.' if '?' in stop else stop[0]}"


def _is_statement(text: str) -> bool:
    plain = text.strip()
    return (
        len(plain) <= _LONGEST_SENTENCE
        and len(plain.split()) >= _SHORTEST_WORDS
        and not plain.endswith(("?", ":"))
        and not _TO_THE_READER.search(normalise(plain))
    )


def _header_words(block: Block) -> frozenset[str]:
    header = " ".join([block.document_name, block.kg_match or "", *block.related])
    return frozenset(content_stems(header)) | read(header).ids


def _alike(left: frozenset[str], right: frozenset[str]) -> bool:
    union = left | right
    return bool(union) and len(left & right) / len(union) >= _SAME_WORDS
