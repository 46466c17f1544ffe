"""Sentence windows."""

from collections.abc import Sequence

from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.snippets import coverage, question_stems

# Characters. Three joined windows and a claim stay below 512 English word pieces.
LONGEST = 600
MOST = 3


def windows(text: str) -> tuple[str, ...]:
    """Split a text into runs of whole sentences of at most 600 characters each.

    Longer sentences are split every 600 characters.
    """
    pieces: list[str] = []
    begin = end = 0
    for span in sentence_spans(text):
        if span.end - begin > LONGEST:
            pieces.append(text[begin:end])
            begin = span.start
            while span.end - begin > LONGEST:
                pieces.append(text[begin : begin + LONGEST])
                begin += LONGEST
        end = span.end
    pieces.append(text[begin:end])
    return tuple(window.strip() for window in pieces if window.strip())


def best_windows(claim: str, passages: Sequence[str]) -> tuple[str, ...]:
    """Return the sources for one claim: its best windows in reading order, then all joined.

    At most three windows, by share of the claim's stems. A single window is not joined; blank
    passages yield ().
    """
    stems = question_stems(claim)
    pool = tuple(dict.fromkeys(window for passage in passages for window in windows(passage)))
    order = sorted(range(len(pool)), key=lambda place: (-coverage(stems, pool[place]), place))
    best = tuple(pool[place] for place in sorted(order[:MOST]))
    return (*best, "\n".join(best)) if len(best) > 1 else best
