"""Snippets of chunks."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from docstokg.domain.text.wording import content_stems
from docstokg.domain.text.words import stem

Spans = Sequence[tuple[int, int]]
# Snippet lengths, tried in this order until the response fits.
STEPS = (400, 200, 100)


def question_stems(question: str) -> frozenset[str]:
    """Return the stems of a question's content words."""
    return frozenset(content_stems(question))


@lru_cache(maxsize=64)
def _pattern(stems: frozenset[str]) -> re.Pattern[str]:
    # Porter2 changes only the last letters of a word, so prefixes find the candidates.
    ascii_stems = sorted({stem[: max(2, len(stem) - 2)] for stem in stems if stem.isascii()})
    others = sorted(filter(lambda stem: not stem.isascii(), stems))
    begun = rf"(?<![^\W_])(?:{'|'.join(ascii_stems)})[^\W_]*" if ascii_stems else None
    return re.compile("|".join(filter(None, (begun, *map(re.escape, others)))), re.I)


def _matches(text: str, stems: frozenset[str], start: int, end: int) -> Iterator[tuple[int, str]]:
    for match in _pattern(stems).finditer(text, start, end) if stems else ():
        if (match_stem := stem(match[0].casefold())) in stems:
            yield match.start(), match_stem


def coverage(stems: frozenset[str], text: str) -> float:
    """Return the share of `stems` found in `text`, in [0, 1]; 0 without stems."""
    if not stems:
        return 0.0
    return len(stems & frozenset(content_stems(text))) / len(stems)


def best_window(text: str, sentences: Spans, stems: frozenset[str], limit: int) -> tuple[int, int]:
    """Return the best range text[start:end] of at most `limit` code points; (0, 0) if blank.

    `stems`: `question_stems` of the question. Runs of whole sentences are compared by distinct
    question words, then their occurrences, then place. A longer sentence is cut at word borders
    around its first question word.
    """
    spans = [span for span in sentences if span[0] < span[1] <= len(text)]
    spans = spans or ([(0, len(text))] if text.strip() else [])
    if not spans:
        return (0, 0)
    if spans[-1][1] - spans[0][0] <= limit:
        # No run of sentences can be better than all of them.
        return _stripped(text, spans[0][0], spans[-1][1])
    hits = _hits(text, spans, stems)
    best: tuple[tuple[int, int, int], int, int] | None = None
    # Sliding window, so that many short sentences do not take quadratic time.
    run: Counter[str] = Counter()
    words = last = 0
    for first in range(len(spans)):
        while last < len(spans) and spans[last][1] - spans[first][0] <= limit:
            words += sum(word not in run for word in hits[last])
            run.update(hits[last])
            last += 1
        if last == first:
            window = _cut(text, spans[first], stems, limit)
            worth = (len(hits[first]), sum(hits[first].values()), -first)
            last += 1
        else:
            window = (spans[first][0], spans[last - 1][1])
            worth = (words, run.total() if run else 0, -first)
            run -= Counter(hits[first])
            words = len(run)
        if best is None or worth > best[0]:
            best = (worth, *window)
    assert best is not None
    return _stripped(text, best[1], best[2])


def _hits(text: str, spans: Spans, stems: frozenset[str]) -> list[dict[str, int]]:
    hits: list[dict[str, int]] = [{} for _ in spans]
    at = 0
    for place, word in _matches(text, stems, 0, len(text)):
        while at < len(spans) and spans[at][1] <= place:
            at += 1
        if at == len(spans):
            break
        if spans[at][0] <= place:
            hits[at][word] = hits[at].get(word, 0) + 1
    return hits


def _cut(text: str, span: tuple[int, int], stems: frozenset[str], limit: int) -> tuple[int, int]:
    start, end = span
    place, _ = next(_matches(text, stems, start, end), (start, ""))
    if place - start > limit // 2:
        lead = min(place - limit // 4, end - limit)
        space = text.rfind(" ", start, lead + 1)
        begin = space + 1 if space >= 0 and lead - space < limit // 8 else lead
    else:
        begin = start
    stop = min(begin + limit, end)
    if stop < end:
        space = text.rfind(" ", begin + limit // 2, stop + 1)
        stop = space if space > begin else stop
    return (begin, stop)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return (start, end)


def shortened(text: str, sentences: Spans, start: int, end: int, limit: int) -> int:
    """Return a new end for text[start:end] that keeps at most `limit` code points.

    The last sentence border that fits, else a word border, else any character.
    """
    if end - start <= limit:
        return end
    borders = [stop for _, stop in sentences if start < stop <= start + limit]
    if borders:
        return borders[-1]
    space = text.rfind(" ", start + 1, start + limit + 1)
    return space if space > start else start + limit
