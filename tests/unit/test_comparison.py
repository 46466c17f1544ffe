"""Cosines within a time limit: each text once, nothing after a failure or the limit."""

import base64
import json
import time
from collections.abc import Sequence

import pytest

from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack
from docstokg.errors import Timeout
from docstokg.usecases.comparison import Comparison
from tests.plans import call


class LetterEmbedder:
    """Embeds a text as its counts of a, b and c, in `delay_s` seconds a call."""

    model = "letters"
    dimension = 3

    def __init__(self, delay_s: float = 0.0) -> None:
        self.seen: list[str] = []
        self._delay_s = delay_s

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        time.sleep(self._delay_s)
        self.seen += texts
        return tuple(pack([float(text.count(letter)) for letter in "abc"]) for text in texts)


class FailingEmbedder(LetterEmbedder):
    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        raise Timeout("late")


def comparison(
    embedder: LetterEmbedder | None, time_s: float = 60.0, log: list[str] | None = None
) -> Comparison:
    return Comparison(call(log), embedder, Deadline.after(time_s))


def test_a_known_vector_is_not_embedded_again() -> None:
    embedder = LetterEmbedder()
    compare = comparison(embedder)
    compare.know("question", base64.b64encode(pack([0.0, 1.0, 0.0])).decode())
    assert compare.similarity("question", "b") == pytest.approx(1.0)
    assert embedder.seen == ["b"]
    compare.know("short", base64.b64encode(pack([0.0, 1.0])).decode())
    assert compare.similarity("short", "b") == 0.0  # of another space: embedded here


def test_cosines_need_an_embedder_that_never_failed() -> None:
    assert comparison(None).cosines("a", ["b"]) is None
    assert comparison(LetterEmbedder()).similarity("  ", "b") is None
    log: list[str] = []
    compare = comparison(FailingEmbedder(), log=log)
    assert compare.cosines("a", ["b"]) is None
    assert compare.cosines("a", ["c"]) is None
    (line,) = map(json.loads, log)
    assert (line["event"], line["kind"]) == ("compare_failed", "Timeout")


def test_a_slow_embedder_is_abandoned_at_the_limit() -> None:
    embedder = LetterEmbedder(delay_s=0.1)
    compare = comparison(embedder, time_s=0.15)
    begun = time.monotonic()
    assert compare.cosines("a", ["b" * n for n in range(1, 40)]) is None
    assert time.monotonic() - begun < 3
    assert len(embedder.seen) <= 12
