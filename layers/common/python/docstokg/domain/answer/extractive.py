"""The built-in model: the source sentence that answers, or two, each with its marker."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.state import Block
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.questions import (
    ANY_VERB,
    DIFFERS,
    OPTION_NAME,
    Question,
    asked_term,
    borders,
    in_their_words,
    names_document,
    stems_of,
)
from docstokg.domain.answer.quoting import Quotation, as_read, cited, is_same_option
from docstokg.domain.answer.units import LONGEST, Unit, units
from docstokg.domain.budget import tokens
from docstokg.domain.text.wording import content_stems, read
from docstokg.domain.text.words import normalise

MODEL: Final = EXTRACTIVE
WORDS_WEIGHT: Final = 0.5
PLACE_WEIGHT: Final = 0.02
LAST_PLACE: Final = 4
"""What is given behind the first five counts as the fifth."""

LEAST: Final = 0.35
"""What a quotation must be worth: of two corpora at most 5 % of their own questions are refused,
and none of the questions of another field answered (docs/decisions/answers-extractive.md)."""

LEAST_SECOND: Final = 0.95
"""The share of the best one's worth that a second quotation must have."""

LEAST_CERTAIN: Final = 1.0
"""What must speak for the best quotation (`certainty`): `benchmarks.near_misses --fit` fits it on
questions to their own corpus and on the same with the chunks that answer them taken away."""

_TITLED: Final = 0.9
_UNNAMED: Final = 1.5
_LENGTH: Final = 0.01
_SHORT_WORDS: Final = 10
_SHORT_QUESTION: Final = 3
_NEAR: Final = 0.5
_MOST_OF_IT: Final = 0.5
_LONG_WORDS: Final = 25
_SHORTEST_WORDS: Final = 4
_LEANING: Final = 0.1
# "rsync --delete": a command with its option, but not "the -k option", "does --keep".
_COMMAND_ASKED: Final = re.compile(
    r"(?<![\w-])(?!(?:the|an?|do|does|is|are|of|with|without|by|and|or|option|flag|switch|use|using"
    r"|what|which|to|in|give|given|set|mean|my|its|for|when|if|on)\b)([A-Za-z][\w.+-]*) "
    r"-{1,2}[A-Za-z0-9]",
    re.I,
)
_EXTENSION: Final = re.compile(r"\.\w{1,5}\Z")
# `_Name: https://...`: where a link leads.
_LINK_TARGET: Final = re.compile(r"\W{0,4}[^\n:]{1,80}:\s+<?https?://\S+\W*\Z")
# A line of a program that stands as prose.
_OF_PROGRAM: Final = re.compile(
    r"(?:def|class) \w+[(:]|from [\w.]+ import |import \w+\s*\Z|(?:return|assert|print)\b ?\W"
    r"|@\w+\.\w"
)
# Programs in a language name it seldom: its code tells which it is.
_WRITTEN_IN: Final = {
    "python": re.compile(
        r"^\s*(?:>>> |def \w+\(|(?:from [\w.]+ )?import \w+[^\S\n]*$)", re.MULTILINE
    ),
    "rust": re.compile(r"\bfn \w+\(|\blet mut \w"),
    "javascript": re.compile(r"\bconst \w+ = |\brequire\(['\"]"),
}
# "Next: Threads, Previous: Closures, Up: Using it": the way through the pages of a manual.
_STEERING: Final = re.compile(r"\b(?:next|prev(?:ious)?|up|contents|index)\b ?[:|\]]", re.I)
_LEAST_STEERING: Final = 2
# "7.4.1. A Simple Data Race 7.4.2.": two numbers of sections, as in a table of contents.
_SECTION_NUMBER: Final = re.compile(r"(?:^|(?<=\s))\d{1,3}(?:\.\d{1,3}){1,4}\.?(?=\s|$)")
_LEAST_SECTIONS: Final = 5
_WORDS_A_SECTION: Final = 12
# FOLD(1)      User Commands      FOLD(1): the name stands at one end, or at both.
_PAGE_NAME: Final = re.compile(r"[A-Z][A-Z0-9_.+:-]{0,40}+\(\d[a-z]{0,4}\)")
# `<config>` stands for something that is to be put there; an element of a page does not.
_PLACEHOLDER: Final = (
    r"(?!(?:a|audio|base|body|br?|button|details|dialog|div|embed|font|form|frame|frameset|h[1-6r]|head"
    r"|html|i|iframe|image|img|input|link|marquee|math|meta|object|p|script|select|source|span|style"
    r"|svg|table|template|textarea|title|track|u|video|xmp)\b)[a-z][\w.|, -]{0,60}>"
)
_TO_THE_READER: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|rule|above|previous)"
    r"|\byou (?:are|must|should) (?:now|always|never|only|answer|reply|respond|say)\b"
    r"|\b(?:system|assistant|user)\s*(?:prompt|message)?\s*:"
    r"|\b(?:reply|respond|answer|say|output|print|repeat|write) "
    r"(?:only|exactly|with|the (?:word|phrase))\b"
    r"|<<<|>>>|<\||<(?!" + _PLACEHOLDER + r")[a-z!/]|\]\s*\(|\bjavascript:",
    re.IGNORECASE,
)


def answer(query: str, blocks: Sequence[Block], max_tokens: int) -> str:
    """Return one quotation with the marker of its block, or two when the second adds something.

    Nothing is better than something beside the point: the abstention sentence is returned when
    the best quotation is worth less than `LEAST`, when too little speaks for it (`certainty`), when
    the question names something and no block names any of it, or when a short question asks for
    what no block speaks of. A second one
    must be worth nearly as much and hold words of the question that the first lacks; a question
    for a difference gets the best one of each side. Quoted brackets with digits become round, so
    that no source can forge a marker.

    Where blocks call what the question names by another name, it is read with theirs and as it
    stands, and answered as more speaks for it.
    """
    readings = dict.fromkeys((in_their_words(query, blocks), query))
    answers = [_answered(reading, blocks, max_tokens) for reading in readings]
    return max(answers, key=lambda made: made[0])[1]


def _answered(query: str, blocks: Sequence[Block], max_tokens: int) -> tuple[float, str]:
    """Return the answer to one reading of the question, and what speaks for it."""
    candidates = quotations(query, blocks)
    if not candidates or candidates[0].value < LEAST:
        return 0.0, ABSTENTION
    question = Question.of(query, blocks)
    certain = certainty(query, candidates[0], blocks)
    if certain < LEAST_CERTAIN or _is_elsewhere(candidates[0], question, blocks):
        return 0.0, ABSTENTION
    both = _of_both(candidates, question)
    written = _written(
        both or candidates, question, max_tokens, least=0.0 if both else LEAST_SECOND
    )
    return (certain, written) if written else (0.0, ABSTENTION)


def quotations(query: str, blocks: Sequence[Block]) -> list[Quotation]:
    """List what could be quoted, the best first.

    worth = cosine(question, sentence) + 0.5 x share of the question's words, by rarity among the
    sentences of these blocks, that the sentence or its block's title holds - 0.02 x place of the
    block, 4 at most, - 0.1 where it leans on the sentence before - 0.01 for each content word above
    ten, at most fifteen of them, since a long sentence holds some words of any question + what
    `Question.wish` adds for being of the kind the question asks for. Where the question names
    the title of a block, what neither stands under that title nor names it is about something
    else and left out; so are what addresses a model, the lines of a table of contents, and what
    does not speak of the tool with which something is to be done.
    """
    question = Question.of(query, blocks)
    candidates: list[Quotation] = []
    tool = _tool(query, blocks) if question.how else ""
    for place, block in enumerate(blocks):
        if tool and not _speaks_of(block, tool):
            continue
        header = _header(block)
        contents = _is_contents(block.text)
        for unit in units(block.text, borders(block)):
            text = block.text[unit.start : unit.end]
            if not _is_statement(text, unit) or (contents and _SECTION_NUMBER.search(text)):
                continue
            stems = stems_of(f"{unit.lead} {text}")
            if question.subjects and not any(name <= stems | header for name in question.subjects):
                continue
            if question.options and not _is_of(question.options, unit, text):
                continue
            own_stems = stems | stems_of(unit.heading)
            if not question.is_about(own_stems, stems_of(block.document_name)):
                continue
            share = question.share(own_stems | header)
            value = _nearness(block, unit) + WORDS_WEIGHT * share - _place_costs(place)
            value += question.wish(unit, text) - _LEANING * unit.leaning - _length(unit, text)
            candidates.append(Quotation(value, share, place, block, unit, stems))
    candidates.sort(key=lambda one: (-one.value, one.place, one.unit.start))
    return candidates


def telling_more(query: str, blocks: Sequence[Block], first: int) -> int | None:
    """Return the place of the block behind the `first` first that answers better than all of them.

    It is of a document that has a block among those, or that the question names; its best
    quotation is worth as much as theirs, places aside, and as near to the question as a quotation
    has to be that holds few of its words. None where no block is so, and for a question what
    something is: a sentence that only names it is as near as one that says what it is.
    """
    documents = {block.document_name for block in blocks[:first]}
    behind = [
        place
        for place, block in enumerate(blocks)
        if place >= first
        and max(block.cosines, default=0.0) >= _NEAR
        and (block.document_name in documents or names_document(query, block.document_name))
    ]
    if not behind or asked_term(query):
        return None
    read = [*range(first), *behind]
    best: dict[int, tuple[float, float]] = {}
    for one in quotations(query, [blocks[place] for place in read]):
        worth = one.value + _place_costs(one.place), _nearness(one.block, one.unit)
        best[one.place] = max(worth, best.get(one.place, worth))
    least = max((best[place][0] for place in range(first) if place in best), default=-1.0)
    better = [
        (worth, -read[place])
        for place, (worth, nearness) in best.items()
        if place >= first and worth >= least and nearness >= _NEAR
    ]
    return -max(better)[1] if better else None


def _place_costs(place: int) -> float:
    """Say how much less a unit is worth for its block's place, from 0."""
    return PLACE_WEIGHT * min(place, LAST_PLACE)


def _tool(query: str, blocks: Sequence[Block]) -> str:
    """Return what a question ends with after "with" or "using", folded; "" for none.

    One word or two where a block's document is called so, and one that no block has at all.
    """
    words = query.rstrip(" ?.").split()
    before = (words[-length - 1 : -length] for length in (1, 2))
    length = next((n for n, one in enumerate(before, 1) if one in (["with"], ["using"])), 0)
    if not length:
        return ""
    tool, last = _spaced(" ".join(words[-length:])), words[-1]
    if tool in map(_title, blocks):
        return tool
    held = (stems_of(block.text) | _header(block) for block in blocks)
    return tool if length == 1 and not any(stems_of(last) & own for own in held) else ""


def _speaks_of(block: Block, tool: str) -> bool:
    """Tell whether a block is of the document about a tool, or names it."""
    return _title(block) == tool or f" {tool} " in f" {_spaced(block.text)} "


def _title(block: Block) -> str:
    return _spaced(_EXTENSION.sub("", block.document_name.rpartition("/")[2]))


def _spaced(text: str) -> str:
    """Fold a text to words with one space between."""
    return " ".join(re.findall(r"[^\W_]+", normalise(text)))


def _length(unit: Unit, text: str) -> float:
    """Say how much less a unit is worth for being long; code is read, not searched for words."""
    if unit.kind == "code":
        return 0.0
    words = min(_LONG_WORDS, len(content_stems(text)))
    return _LENGTH * max(0, words - _SHORT_WORDS)


def _is_whole(one: Quotation) -> bool:
    """Tell whether a quotation can stand behind another: no torn line, nothing that leans."""
    ends = one.block.text[one.unit.start : one.unit.end].rstrip("\"')*_`\u201d\u2019")[-1:]
    return not one.unit.leaning and (ends in ".!?;" or bool(one.unit.head or one.unit.option))


def _of_both(candidates: Sequence[Quotation], question: Question) -> list[Quotation]:
    """Return the best quotation of each side of a comparison, [] unless both have one.

    So too where the best of all says of both how they differ.
    """
    if not question.sides:
        return []
    one, other = question.sides
    first = candidates[0]
    if one | other <= first.stems and DIFFERS.search(
        first.block.text, first.unit.start, first.unit.end
    ):
        return []
    best = [
        next((q for q in candidates if own <= q.stems and not q.stems & rest), None)
        for own, rest in ((one, other), (other, one))
    ]
    return [q for q in best if q and q.value >= LEAST] if None not in best else []


def _nearness(block: Block, unit: Unit) -> float:
    """The cosine of the unit's nearest sentence; of the whole passage where none is known."""
    cosines = [block.cosines[i] for i in unit.parts if i < len(block.cosines)]
    return max(cosines) if cosines else block.relevance / 20


def _written(
    candidates: Sequence[Quotation], question: Question, max_tokens: int, *, least: float
) -> str:
    """Write the best quotation, and a second one worth at least that share of it."""
    taken: list[Quotation] = []
    left = max_tokens
    for one in candidates:
        if len(taken) == 2 or one.value < least * candidates[0].value:
            break
        if taken and not (_is_whole(one) and question.adds(taken[0], one)):
            continue
        if taken and least and question.how and _is_other_option(taken[0], one):
            continue
        text = cited(one)
        cost = tokens(text) + 1
        if not text or cost > left or any(cited(other) in text for other in taken):
            continue
        taken.append(one)
        left -= cost
    taken.sort(key=lambda one: (one.place, one.unit.start))
    texts = [
        cited(one, bare=any(is_same_option(one, before) for before in taken[:at]))
        for at, one in enumerate(taken)
    ]
    # Behind code a paragraph begins: what follows its fence on the same line is read as code.
    return "".join(
        text if not before else f"\n{text}" if before.endswith("\n") else f" {text}"
        for before, text in pairwise(["", *texts])
    )


def _is_other_option(first: Quotation, other: Quotation) -> bool:
    return bool(first.unit.option and other.unit.option) and not is_same_option(first, other)


def _is_of(options: frozenset[str], unit: Unit, text: str) -> bool:
    """Tell whether a unit names one of the options, letters joined behind one dash (-xf) too."""
    names = set(OPTION_NAME.findall(f"{unit.option} {unit.lead} {text}"))
    letters = {f"-{c}" for name in options if not name.startswith("--") for c in name[1:]}
    return bool(options & names) or bool(letters & names and not options & letters)


def _is_elsewhere(best: Quotation, question: Question, blocks: Sequence[Block]) -> bool:
    """Tell whether a question asks for something that no passage given speaks of.

    So when it asks how to do what no passage names ("how do I delete branches with git stash?")
    and the best quotation is neither an option nor code, nor names an option. For a short question
    also when one of its three or fewer words stands nowhere, the best quotation is not near the
    question as a whole or has none of its words, and is not of the kind it asks for: "how is it
    treated?" is not answered by signs, nor by another name.
    """
    # By another name everything about the thing is credited as near, whatever is asked of it.
    least = _MOST_OF_IT if best.block.other_names else 0.0
    quote = best.block.text[best.unit.start : best.unit.end]
    there = frozenset().union(*(stems_of(block.text) | _header(block) for block in blocks))
    handle = best.unit.kind != "prose" or best.unit.option or OPTION_NAME.search(quote)
    if question.verb - there and not handle:
        return True
    near = best.share > least and _nearness(best.block, best.unit) >= _NEAR
    if near or len(question.weights) > _SHORT_QUESTION:
        return False
    if question.wish(best.unit, quote) > 0:
        return False
    return not question.weights.keys() - (ANY_VERB if question.how else frozenset()) <= there


def certainty(query: str, best: Quotation, blocks: Sequence[Block]) -> float:
    """Say how much speaks for the best quotation being an answer and not a near miss.

    Its worth + the best score of the passages given + 0.9 x the part of a passage's title that
    the question names, the most of any - 1.5 x the part of what the question names that no passage
    names. When that is all of it, nothing speaks for it. An option that the question names after
    its command must be of that command.
    """
    signs = signs_of(query, best, blocks)
    if signs is None:
        return 0.0
    return signs.worth + signs.score + _TITLED * signs.titled - _UNNAMED * signs.unnamed


class Signs(NamedTuple):
    """What speaks for and against a quotation: `certainty` adds it up; all but worth in [0, 1]."""

    worth: float
    score: float
    titled: float
    unnamed: float


def signs_of(query: str, best: Quotation, blocks: Sequence[Block]) -> Signs | None:
    """Return what `certainty` adds up; None where what the question names stands nowhere.

    For a row, or a definition, of what the question asks about the score of its passage says
    nothing: most of it is about other things.
    """
    names = read(query).names
    names -= {name for name in names & _WRITTEN_IN.keys() if _is_written(_WRITTEN_IN[name], blocks)}
    texts = [f"{b.subject} {b.document_name} {b.text}" for b in blocks]
    folded = normalise(" ".join(texts))
    unnamed = sum(name not in folded for name in names) / len(names) if names else 0.0
    command = _COMMAND_ASKED.search(query)
    elsewhere = command is not None and normalise(command[1]) not in folded
    if unnamed == 1.0 or elsewhere:
        return None
    query_stems = stems_of(query)
    titles = (frozenset(content_stems(block.subject)) for block in blocks)
    titled = max((len(title & query_stems) / len(title) for title in titles if title), default=0.0)
    head = stems_of(best.unit.head)
    explained = bool(head) and not best.unit.option and head <= query_stems
    score = 1.0 if explained else max(block.relevance for block in blocks) / 10
    return Signs(best.value, score, titled, unnamed)


def _is_written(code: re.Pattern[str], blocks: Sequence[Block]) -> bool:
    return any(code.search(block.text) for block in blocks)


def _is_statement(text: str, unit: Unit) -> bool:
    plain = as_read(text.strip())
    written = normalise(f"{as_read(unit.lead)} {plain}")
    if _TO_THE_READER.search(written) and unit.kind != "code":
        return False
    ends = (plain.split(None, 1)[:1], plain.rsplit(None, 1)[-1:])
    if plain[-1:] != "." and any(_PAGE_NAME.fullmatch(word) for words in ends for word in words):
        return False
    if unit.kind == "prose" and plain.count("`") % 2:
        return False  # cut within code
    if len(_STEERING.findall(plain)) >= _LEAST_STEERING:
        return False
    if unit.kind == "prose" and (_LINK_TARGET.match(text) or _OF_PROGRAM.match(plain)):
        return False
    long_enough = unit.kind != "prose" or unit.lead or len(plain.split()) >= _SHORTEST_WORDS
    return bool(long_enough) and len(plain) <= LONGEST and not plain.endswith("?")


def _is_contents(text: str) -> bool:
    """Tell whether a passage is a table of contents: a section's number every few words."""
    sections = len(_SECTION_NUMBER.findall(text))
    return sections >= _LEAST_SECTIONS and len(text.split()) <= _WORDS_A_SECTION * sections


def _header(block: Block) -> frozenset[str]:
    return stems_of(f"{block.subject} {block.document_name}")
