"""Extent of a quotation: what stands on its own."""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from docstokg.domain.answer.citations import LINK, outside_code, strip_markers
from docstokg.domain.answer.kinds import opening_label
from docstokg.domain.answer.notices import is_abstention
from docstokg.domain.answer.parts import QUESTION_MARKS, Part, asks, is_short, parts
from docstokg.domain.answer.reader_features import Candidate, asked_values, stems
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.values import values
from docstokg.domain.text.words import visible, word_count

# Words of a quotation, unless a single item is longer.
MOST_WORDS = 60
# Search the digit first, to avoid exponential backtracking between two stretches.
_BRACKETED = re.compile(
    r"[\[\u3010\uff3b](?=[^\]\u3011\uff3d\n\d]{0,80}+\d)"
    r"([^\]\u3011\uff3d\n]{1,160}+)[\]\u3011\uff3d]"
)
_LINE_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_RAISED = re.compile(r"<sup>(?=\S)([^<>\n]{1,40}+)</sup>", re.IGNORECASE)
# Not "the <b> and </b> tags".
_TAGGED = re.compile(
    r"<(sub|b|i|em|strong|u|small|mark|span)>(?=\S)([^<>\n]{1,200}+)(?<=\S)</\1>", re.IGNORECASE
)
_STOPS = ".!?\u2026\u3002;, |"
_ENDS = (".", "!", "?", "\u2026", "\u3002")
_CLOSERS = "\"'\u201d\u2019\u00bb)"
# A sentence without a subject of its own.
LEANING = re.compile(
    r"(?:it|its|this|these|those|they|their|he|his|she|her|such|then|therefore|thus|so|there|no|yes"
    r"|otherwise|however|also|but|and|or|the default|default|er|sie|es|dies\w*|il|elle|ils|elles|ce"
    r"|cela|\u00e9l|ella|ello|esto|esta|lui|lei|questo|questa|ele|ela|isso|hij|zij|het)\b",
    re.IGNORECASE,
)


class Quotation(NamedTuple):
    """Quoted text with markers; `text[best.start:best.end]` is the chosen part."""

    text: str
    best: Span


def quoted(
    query: str,
    chosen: Candidate,
    others: Sequence[int] = (),
    *,
    whole: bool = False,
    wide: bool = False,
) -> Quotation:
    """Return the chosen unit with what makes it stand on its own, and markers before final stops.

    A sentence gets its item, the paragraph that replies to a question in the heading, or the
    previous sentence or its heading if it has no subject of its own; `wide`: also the following
    sentence of its paragraph. A row shows its key and the cells that the question names, `whole`
    all. `others`: ranks of further passages with the same statement.
    """
    unit, marker = chosen.unit, f"[{chosen.block.rank}]"
    markers = marker + "".join(f"[{rank}]" for rank in others)
    if unit.kind == "code":
        return _code(chosen, markers)
    if unit.kind in ("row", "list"):
        text = visible(unit.text) if whole or unit.kind == "list" else _row(query, unit)
        text = _sentences(text, markers)
        return Quotation(text, Span(0, len(text)))
    before, after = _around(chosen, wide=wide)
    prefix = _prefix(unit) if not before else ""
    lead = " ".join(_sentences(visible(part.text), marker) for part in before)
    lead = f"{lead} " if lead else prefix
    text = _sentences(visible(unit.text), markers)
    tail = "".join(f" {_sentences(visible(part.text), marker)}" for part in after)
    return Quotation(f"{lead}{text}{tail}", Span(len(lead), len(lead) + len(text)))


def leans(unit: Part) -> bool:
    """Return whether a sentence begins without a subject of its own."""
    text = unit.text.lstrip("*_ ")
    return LEANING.match(text) is not None


def _around(chosen: Candidate, *, wide: bool) -> tuple[Sequence[Part], Sequence[Part]]:
    block, unit = chosen.block, chosen.unit
    sequence = parts(block.text, block.sentences)
    place = next(i for i, part in enumerate(sequence) if part.start == unit.start)
    first = last = place
    while sequence[first].kind == "sentence" and first and _joins(block.text, sequence, first):
        first -= 1
    while last + 1 < len(sequence) and _joins(block.text, sequence, last + 1):
        last += 1
    begin = place
    while begin > first and leans(sequence[begin]):
        begin -= 1
    # A labelled clause and the reply to a question are quoted as a whole, like an item.
    is_reply = unit.heading.endswith(QUESTION_MARKS) or "?" in unit.before
    is_whole = is_reply or chosen.is_labelled or sequence[first].kind == "item"
    room = MOST_WORDS - word_count(unit.text)
    before = _fitting(sequence[begin:place][::-1], room)
    room -= _words(before)
    last = last if is_whole else min(last, place + wide)
    after = _fitting(sequence[place + 1 : last + 1], room)
    if is_whole:
        before = _fitting(sequence[first:place][::-1], room + _words(before) - _words(after))
    return before[::-1], after


def _fitting(following: Sequence[Part], room: int) -> list[Part]:
    """Return the parts before the first that exceeds the room or is no statement.

    Questions, announcements, the marks of a code block, and the abstention are none.
    """
    fitting: list[Part] = []
    for part in following:
        is_open = part.text.rstrip("*_ ").endswith((*QUESTION_MARKS, ":")) or "```" in part.text
        if is_open or is_abstention(part.text) or _words([*fitting, part]) > room:
            break
        fitting.append(part)
    return fitting


def _words(sequence: Sequence[Part]) -> int:
    return sum(word_count(part.text) for part in sequence)


def _joins(text: str, sequence: Sequence[Part], place: int) -> bool:
    """Return whether a part without a label continues the previous one of its paragraph or item."""
    before, part = sequence[place - 1], sequence[place]
    gap = text[before.end : part.start]
    return (
        part.kind == "sentence"
        and before.kind in ("sentence", "item")
        and "\n\n" not in gap
        and not asks(text, before)
        and opening_label(text[part.start : part.end]) is None
        and bool(part.before or before.kind == "item")
    )


def _prefix(unit: Part) -> str:
    asked = unit.question if is_short(unit.text) else ""
    heading = " ".join((asked or unit.lead or unit.heading).split()).strip(" :*_#")
    needed = asked or (
        leans(unit) and heading and not unit.question and heading[-1] not in QUESTION_MARKS
    )
    heading = heading.rstrip("".join(QUESTION_MARKS))
    fresh = needed and not set(stems(heading)) <= set(stems(unit.text))
    return f"{_plain(heading)}: " if fresh and len(heading) < 80 else ""


def _row(query: str, unit: Part) -> str:
    """Return the key and the cells that the question names; if it names none, the whole row.

    Of a row of more than MOST_WORDS, the cells that hold a word of the question, else the first.
    """
    fields = unit.fields
    question, numbers = frozenset(stems(query)), asked_values(query)
    conditions, named = set(), set()
    for place, (name, value) in enumerate(fields):
        if question & frozenset(stems(value)) or any(
            number.share(values(value)) == 1.0 for number in numbers
        ):
            conditions.add(place)
        elif question & frozenset(stems(name)):
            named.add(place)
    places = sorted((conditions | named) - {0})
    is_long = bool(fields) and word_count(unit.text) > MOST_WORDS
    if not is_long and (not named - {0} or len(places) + 1 >= len(fields)):
        return visible(unit.text)
    if not places:
        sizes = accumulate(word_count(" ".join(field)) for field in fields)
        places = [place for place, size in enumerate(sizes) if size <= MOST_WORDS][1:]
    cells = "; ".join(": ".join(fields[place]) for place in places)
    return visible(
        f"{unit.cells[0]}: {cells}" if unit.cells else f"{': '.join(fields[0])}; {cells}"
    )


def _code(chosen: Candidate, markers: str) -> Quotation:
    unit, code = chosen.unit, visible(chosen.unit.text)
    fence = "````" if "```" in code else "```"
    lead = _plain(unit.lead or unit.above).rstrip(":.?") or chosen.block.document_name
    head = f"{lead} {markers}:\n\n{fence}\n"
    return Quotation(f"{head}{code}\n{fence}\n", Span(len(head), len(head) + len(code)))


def _sentences(text: str, markers: str) -> str:
    plain = _plain(text)
    spans = sentence_spans(plain)
    return " ".join(_marked(plain[span.start : span.end], markers) for span in spans)


def _marked(sentence: str, markers: str) -> str:
    inside = sentence.rstrip(_CLOSERS)
    body = inside.rstrip(_STOPS) if inside[-1:] in _ENDS else sentence.rstrip(_STOPS)
    tail = sentence[len(body) :].strip()
    stop, close = tail[:1], tail.lstrip(_STOPS)
    return f"{body} {markers}{stop if stop in ('.', '!', '?', '\u3002') else '.'}{close}"


def _plain(text: str) -> str:
    untagged = outside_code(text, _without_tags)
    text = LINK.sub(r"\1", " ".join(untagged.split())).strip("|>#\u2022 ")
    if text.count("`") % 2:
        text = text.replace("`", "'")
    return outside_code(text, lambda part: _BRACKETED.sub(r"(\1)", strip_markers(part)))


def _without_tags(text: str) -> str:
    """Return a text without pairs of inline HTML tags, with `10<sup>3</sup>` as 10^3."""
    text = _RAISED.sub(r"^\1", _LINE_BREAK.sub(" ", text))
    return _TAGGED.sub(r"\2", text)
