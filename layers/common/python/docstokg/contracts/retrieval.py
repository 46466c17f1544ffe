"""Queries and results of the search index; an explanation of them."""

from typing import Literal, NamedTuple

from pydantic import SkipValidation

from docstokg.contracts.model import Contract
from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Channel


class ChannelQuery(Contract):
    """One query of a multi-search.

    bm25 and facts use `text`, splade `weights` (token -> weight), dense `vector` (float32 unit
    vector as bytes). `size`: maximum number of hits. `unordered`: any hits in any order. `names`:
    facts that hold names of entities instead of relations.
    """

    channel: Channel
    size: int
    text: str = ""
    weights: dict[str, float] = {}
    vector: bytes | None = None
    unordered: bool = False
    names: bool = False


class Hit(NamedTuple):
    """A chunk found by a channel; `vector`: its int8-quantised vector or None."""

    uuid: str
    score: float
    vector: bytes | None = None
    doc_id: str = ""


class FactHit(Contract):
    """A relation that matches the question, or with `text` the names of an entity."""

    id: str
    score: float
    source: str
    type: str
    target: str
    evidence_uuid: str | None = None
    text: str = ""


class ChannelResult(Contract):
    """Result of one channel; a failure does not affect other channels.

    Hits are ordered by descending score, ties by uuid. `cause`: reason of a failed or partial
    result.
    """

    channel: Channel
    hits: SkipValidation[tuple[Hit, ...]] = ()
    facts: tuple[FactHit, ...] = ()
    took_ms: float = 0.0
    failure: Literal["unavailable", "timeout"] | None = None
    partial: bool = False
    cause: str | None = None


class Hydrated(Contract):
    """Chunks by uuid, in any order.

    `missing`: invisible or nonexistent uuids. `failed`: unreadable ones; `cause`: the reason, for
    the log.
    """

    chunks: dict[str, StoredChunk] = {}
    missing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    cause: str | None = None


StageName = Literal["filter", "search", "selection", "graph", "walk", "passages", "budget"]


class ExplainStage(Contract):
    """Result of one stage for the traced passage."""

    stage: StageName
    """name of the stage"""
    outcome: Literal["kept", "lost", "skipped"]
    """whether the passage was kept or lost, or the stage was skipped"""
    rank: int | None = None
    """1-based rank after the stage"""
    score: float | None = None
    """score of the stage"""
    reason: str = ""
    """reason, as a sentence"""


class ExplainResponse(Contract):
    """Explains why a passage is, or is not, among the citations of a question."""

    doc_id: str
    """document id"""
    chunk_id: str
    """chunk id of the traced passage"""
    rank: int | None = None
    """citation rank; null: not cited"""
    stages: tuple[ExplainStage, ...] = ()
    """result of each stage"""
    lost_at: str | None = None
    """stage at which the passage was lost; null: cited"""
    would_have_helped: tuple[str, ...] = ()
    """request changes that would have kept the passage"""
    warnings: tuple[str, ...] = ()
    """warnings for the reader"""
    request_id: str
    """request id, as in the logs"""
