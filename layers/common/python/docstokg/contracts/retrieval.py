"""What goes to and comes from the search index in one round trip."""

from typing import Literal, NamedTuple

from pydantic import SkipValidation

from docstokg.contracts.model import Contract
from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Channel


class ChannelQuery(Contract):
    """One child of a multi-search: exactly one of text, weights and vector is used.

    bm25 and facts read `text`, splade `weights` (token -> weight), dense `vector` (float32 unit
    vector bytes). `size`: hits wanted at most; with `unordered` any hits will do.
    """

    channel: Channel
    size: int
    text: str = ""
    weights: dict[str, float] = {}
    vector: bytes | None = None
    unordered: bool = False


class Hit(NamedTuple):
    """One chunk a channel found; `vector` is its int8-quantised vector when it has one.

    A tuple, as a question has 220 of them and no step passes one on.
    """

    uuid: str
    score: float
    vector: bytes | None = None


class FactHit(Contract):
    """One relation a question matched."""

    id: str
    score: float
    source: str
    type: str
    target: str
    evidence_uuid: str | None = None


class ChannelResult(Contract):
    """What one channel answered; a failure keeps the other channels alive.

    Hits come by falling score, ties by uuid. `cause`: why it failed or is partial, for the log.
    """

    channel: Channel
    hits: SkipValidation[tuple[Hit, ...]] = ()
    facts: tuple[FactHit, ...] = ()
    took_ms: float = 0.0
    failure: Literal["unavailable", "timeout"] | None = None
    partial: bool = False
    cause: str | None = None


class Hydrated(Contract):
    """Chunks read by uuid, in no promised order.

    `missing`: asked for and not visible or not there. `failed`: could not be read this time.
    `cause`: why, for the log.
    """

    chunks: dict[str, StoredChunk] = {}
    missing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    cause: str | None = None
