"""What goes between the steps is packed and read by compiled code, once."""

import json

import pytest

from docstokg.contracts.retrieval import ChannelResult, Hit
from docstokg.contracts.state import Candidate, Retrieval

POOL = tuple(
    Candidate(f"chunk-{i} \N{SNOWMAN} \U0001f600", round(1 - i / 7, 6)) for i in range(220)
)
STEP = Retrieval(pool=POOL, ranks={"bm25": ((0, 1, 1e-06), (3, 2, 1e22))}, took_ms=1.0, mmr_ms=0.1)


def test_a_pool_is_packed_without_the_slow_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(STEP.model_dump(mode="json"))
    monkeypatch.setattr(json, "dumps", None)
    monkeypatch.setattr(json, "loads", None)
    assert Retrieval.model_validate(STEP.model_dump(mode="json")) == STEP
    monkeypatch.undo()
    assert Retrieval.model_validate(json.loads(text)) == STEP


def test_hits_are_taken_as_they_come() -> None:
    hits = tuple(Hit(f"chunk-{i}", 1.0, b"v") for i in range(80))
    assert ChannelResult(channel="bm25", hits=hits).hits is hits
