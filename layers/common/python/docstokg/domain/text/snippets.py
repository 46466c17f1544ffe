"""Which stretch of a chunk to show for a question: contiguous, exact, cut at sentence borders."""

import re
from collections import Counter
from collections.abc import Sequence

from docstokg.domain.text.wording import content_stems

Spans = Sequence[tuple[int, int]]
STEPS = (400, 200, 100)
"""Lengths a snippet is cut to, one after the other, until all fits."""


def question_stems(question: str) -> frozenset[str]:
    """Give the stems a snippet is chosen by."""
    return frozenset(content_stems(question))


def pattern(stems: frozenset[str]) -> re.Pattern[str] | None:
    """Compile what finds the words of these stems in a text, in one pass; None for no stems."""
    if not stems:
        return None
    return re.compile(r"(?<![^\W_])(?:" + "|".join(map(re.escape, sorted(stems))) + ")", re.I)


def coverage(stems: frozenset[str], text: str) -> float:
    """Give the share of `stems` found among the words of `text`, in [0, 1]; 0 without stems."""
    if not stems:
        return 0.0
    return len(stems & frozenset(content_stems(text))) / len(stems)


def best_window(
    text: str, sentences: Spans, query_pattern: re.Pattern[str] | None, limit: int
) -> tuple[int, int]:
    """Choose text[start:end], at most `limit` code points, that says most about the question.

    Runs of whole sentences compete: a run's worth is the number of distinct question words in it,
    then the number of all their occurrences, then being earlier. A sentence longer than `limit`
    is cut at word borders around its first question word. Empty text gives (0, 0).
    """
    spans = [span for span in sentences if span[0] < span[1] <= len(text)]
    spans = spans or ([(0, len(text))] if text.strip() else [])
    if not spans:
        return (0, 0)
    if spans[-1][1] - spans[0][0] <= limit:
        # No run of sentences can say more than all of them together.
        return _stripped(text, spans[0][0], spans[-1][1])
    hits = _hits(text, spans, query_pattern)
    best: tuple[tuple[int, int, int], int, int] | None = None
    # The run slides: a text of a thousand one-word sentences must not cost their square.
    run: Counter[str] = Counter()
    words = last = 0
    for first in range(len(spans)):
        while last < len(spans) and spans[last][1] - spans[first][0] <= limit:
            words += sum(word not in run for word in hits[last])
            run.update(hits[last])
            last += 1
        if last == first:
            window = _cut(text, spans[first], query_pattern, limit)
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


def _hits(text: str, spans: Spans, query_pattern: re.Pattern[str] | None) -> list[dict[str, int]]:
    hits: list[dict[str, int]] = [{} for _ in spans]
    if query_pattern is None:
        return hits
    at = 0
    for match in query_pattern.finditer(text):
        while at < len(spans) and spans[at][1] <= match.start():
            at += 1
        if at == len(spans):
            break
        if spans[at][0] <= match.start():
            word = match.group().casefold()
            hits[at][word] = hits[at].get(word, 0) + 1
    return hits


def _cut(
    text: str, span: tuple[int, int], query_pattern: re.Pattern[str] | None, limit: int
) -> tuple[int, int]:
    start, end = span
    match = query_pattern.search(text, start, end) if query_pattern is not None else None
    if match is not None and match.start() - start > limit // 2:
        lead = min(match.start() - limit // 4, end - limit)
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
    """Give a new end for text[start:end] so that at most `limit` code points stay.

    Prefers the last sentence border that fits, then a word border, then any character.
    """
    if end - start <= limit:
        return end
    borders = [stop for _, stop in sentences if start < stop <= start + limit]
    if borders:
        return borders[-1]
    space = text.rfind(" ", start + 1, start + limit + 1)
    return space if space > start else start + limit
