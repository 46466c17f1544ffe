"""Grounding cites the readable passages and names the missing parts."""

import base64
import json
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from docstokg.contracts.records import ChunkRecord, Scope, StoredChunk
from docstokg.contracts.response import KgEvidence
from docstokg.contracts.retrieval import Hydrated
from docstokg.contracts.state import (
    Block,
    Candidate,
    Expansion,
    OtherName,
    Ranked,
    Renaming,
    Retrieval,
    RetrievalPlan,
    SynthesisPlan,
)
from docstokg.domain.answer import prompt, relevance
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack, packed
from docstokg.errors import NothingToCite, Timeout, Unavailable
from docstokg.usecases.run import Run
from docstokg_functions.ground.ground import ground
from docstokg_functions.ground.knowledge import credited, match_line, other_names
from docstokg_functions.ground.sentences import names_credited
from tests.contract.embedded import EmbeddedIndex
from tests.plans import logging, plan


def index(*names: str, **texts: str) -> EmbeddedIndex:
    """Passages of one document each, by uuid: `names` says that each is a thing."""
    return filled(
        record(name, text)
        for name, text in {n: f"{n.title()} is a thing." for n in names}.items() | texts.items()
    )


def record(name: str, text: str, **fields: Any) -> ChunkRecord:
    defaults = {"doc_id": name, "text_sha256": name.rjust(64, "0"), "run_id": "run", **fields}
    return ChunkRecord(uuid=name, chunk_id=name, namespace="default", text=text, **defaults)


def filled(records: Iterable[ChunkRecord]) -> EmbeddedIndex:
    store = EmbeddedIndex()
    store.open_load("run", None, None, None)
    store.put([(chunk, "print") for chunk in records])
    store.close_load()
    return store


def step(log: list[str] | None = None, fusion: str = "minmax", **fields: Any) -> Run:
    retrieval = RetrievalPlan.model_validate({"channels": {}, "fusion": fusion, "time_s": 1.0})
    step_plan = plan(**{"query": "What is alpha?", "retrieval": retrieval, **fields})
    return Run(plan=step_plan, scope=Scope(namespace="default"), telemetry=logging(log))


def retrieval_of(*names: str, vector: bytes | None = None) -> Retrieval:
    pool = tuple(Candidate(uuid=name, score=1.0) for name in names)
    query_vector = vector and base64.b64encode(vector).decode()
    return Retrieval(selected=names, pool=pool, query_vector=query_vector)


def writing(model: str, fallback: str | None = None) -> SynthesisPlan:
    return SynthesisPlan(model=model, fallback=fallback, temperature=0.0, max_tokens=100)


class Refusing:
    """A cross-encoder that is down."""

    model = "cross"

    def rank(self, query: str, passages: object, deadline: Deadline) -> tuple[float, ...]:
        raise Unavailable("127.0.0.1:9: ConnectionRefusedError")


def test_a_lost_reranker_keeps_order_and_logs_once() -> None:
    log: list[str] = []
    run = step(log)
    names = ("beta", "alpha")
    grounded = ground(run, retrieval_of(*names), None, index=index(*names), reranker=Refusing())
    assert [citation.uuid for citation in grounded.citations] == ["beta", "alpha"]
    assert grounded.degraded == ("reranker_unavailable",)
    (line,) = [json.loads(text) for text in log]
    assert (line["event"], line["request_id"]) == ("rerank_failed", "r")
    assert line["kind"] == "Unavailable"


class Liking(Refusing):
    """A cross-encoder that likes one word, and remembers how much it was given."""

    model = "local"

    def rank(self, query: str, passages: Any, deadline: Deadline) -> tuple[float, ...]:
        self.given = len(passages)
        return tuple(float("Delta" in text) for text in passages)


def test_a_reranker_raises_hits_from_behind_top_k() -> None:
    names = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
    retrieval = retrieval_of(*names).model_copy(update={"selected": names[:2]})
    run, liking = step(), Liking()
    grounded = ground(
        run, retrieval, None, index=index(*names), reranker=Refusing(), fallback=liking
    )
    assert (liking.given, grounded.report.providers.reranker) == (6, "local")
    assert [citation.uuid for citation in grounded.citations] == ["delta", "alpha"]
    assert grounded.degraded == ("reranker_unavailable",)
    down = ground(step(), retrieval, None, index=index(*names), reranker=Refusing())
    assert [citation.uuid for citation in down.citations] == ["alpha", "beta"]


@pytest.mark.parametrize(("fusion", "method"), [("rrf", "RRF+MMR"), ("minmax", "minmax+MMR")])
def test_a_lost_retrieval_reports_the_planned_fusion_rule(fusion: str, method: str) -> None:
    # What the state machine passes on when retrieve crashed or timed out.
    lost = Retrieval.model_validate({"failed": True})
    expansion = Expansion(ranking=(Ranked(uuid="alpha", source="kg_expansion"),))
    grounded = ground(step(fusion=fusion), lost, expansion, index=index("alpha"), reranker=None)
    assert [citation.uuid for citation in grounded.citations] == ["alpha"]
    assert grounded.report.fusion.method == method
    with pytest.raises(NothingToCite):
        ground(step(), lost, None, index=index(), reranker=None)


class Broken(EmbeddedIndex):
    """An index that reads no passage."""

    def get(self, uuids: Sequence[str], scope: Scope, deadline: Deadline) -> Hydrated:
        raise Unavailable("refused")


@pytest.mark.parametrize(
    ("deadline_ms", "error"), [(2**52, NothingToCite), (1, Timeout)], ids=["in time", "too late"]
)
def test_a_short_deadline_differs_from_an_absent_index(
    deadline_ms: int, error: type[Exception]
) -> None:
    run = step()
    run.deadline = Deadline.after(deadline_ms / 1000 - time.time())
    with pytest.raises(error):
        ground(run, retrieval_of("alpha"), None, index=Broken(), reranker=None)


def test_healthy_channels_that_find_nothing_are_a_warning() -> None:
    grounded = ground(step(), retrieval_of(), None, index=index(), reranker=None)
    assert grounded.citations == ()
    assert "Nothing was found" in grounded.warnings[0]
    assert math.isfinite(grounded.report.grounding_ms)


def glossary(last: str) -> EmbeddedIndex:
    """Six passages about other things, and a table's row that explains a term."""
    texts = [f"Passage {n} says that a pool is nice." for n in range(6)] + [last]
    return index(**{f"c{n}": text for n, text in enumerate(texts)})


class Counting(EmbeddedIndex):
    """Counts who asks for the vectors of sentences."""

    calls = 0

    def sentence_vectors(self, *args: Any) -> Any:
        """Count, and read."""
        self.calls += 1
        return super().sentence_vectors(*args)


@pytest.mark.parametrize(
    ("model", "fallback", "calls"),
    [
        (None, None, 0),
        ("gpt-4o-mini", None, 0),
        ("gpt-4o-mini", "extractive", 1),
        ("extractive", None, 1),
    ],
)
def test_only_the_built_in_model_compares_sentences(
    model: str | None, fallback: str | None, calls: int
) -> None:
    counting, both = Counting(), index("alpha", "beta")
    counting.__dict__.update(both.__dict__)
    retrieval = retrieval_of("alpha", "beta", vector=pack([1.0, 0.0]))
    synthesis = writing(model, fallback) if model else None
    ground(step(synthesis=synthesis), retrieval, None, index=counting, reranker=None)
    assert counting.calls == calls


@pytest.mark.parametrize(
    ("model", "ranks"), [("extractive", [1, 2, 3, 4, 5, 6]), ("other", [1, 2, 3, 4, 5])]
)
def test_the_built_in_model_reads_the_most_passages(model: str, ranks: list[int]) -> None:
    vectors = [pack(row) for row in ([0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])]
    last = "Lamps are lit by the keeper with a match."
    texts = [*(f"Room {n} has a lamp of brass and one of glass." for n in range(5)), last]
    records = []
    for n, text in enumerate(texts):
        sentences = {"sentences": ((0, len(text)),), "doc_id": "lamps"}
        packed_vector = packed([vectors[text == last]])
        records.append(record(f"l{n}", text, sentence_vectors=packed_vector, **sentences))
    run = step(query="How are the lamps lit?", synthesis=writing(model))
    pool = retrieval_of(*(chunk.uuid for chunk in records), vector=vectors[1])
    grounded = ground(run, pool, None, index=filled(records), reranker=None)
    assert [block.rank for block in grounded.blocks] == ranks


@pytest.mark.parametrize("max_blocks", [1, 3, 5])
def test_a_model_gets_the_best_citations_without_neighbours(
    max_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All chunks are of one document: a neighbour of a passage enters only by its own rank."""
    monkeypatch.setattr("docstokg_functions.ground.ground.MOST_BLOCKS", max_blocks)
    run = step()
    names = [f"c{n}" for n in (0, 2, 4, 6, 1)]
    grounded = ground(run, retrieval_of(*names), None, index=glossary("The end."), reranker=None)
    by_rank = {citation.rank: citation.uuid for citation in grounded.citations}
    assert [block.rank for block in grounded.blocks] == list(range(1, max_blocks + 1))
    for block in grounded.blocks:
        number = by_rank[block.rank].removeprefix("c")
        expected = "The end." if number == "6" else f"Passage {number} says that a pool is nice."
        assert (block.uuid, block.text) == (by_rank[block.rank], expected)


def test_blocks_fit_with_their_source_lines() -> None:
    limits = plan().budget_limits.model_copy(update={"max_tokens_context": 60})
    run = step(budget_limits=limits)
    grounded = ground(run, retrieval_of("c0", "c1", "c2"), None, index=glossary("x"), reranker=None)
    assert 0 < len(grounded.blocks) < 3
    assert len(prompt.passages_within(grounded.blocks, 60)) == len(grounded.blocks)


def chunk_of(*sentences: str, title: str = "") -> StoredChunk:
    text, spans = "", []
    for sentence in sentences:
        spans.append((len(text), len(text) + len(sentence)))
        text += f"{sentence} "
    chunk = record("u", text, title=title, sentences=tuple(spans))
    return StoredChunk.model_validate(chunk.model_dump(include={*StoredChunk.model_fields}))


def test_passages_with_many_names_get_less_credit() -> None:
    question = "How is Kappler disease treated?"
    expansion = Expansion(
        ranking=(), renamings=(Renaming(start=7, end=22, name="Zorbium syndrome"),)
    )
    ranked = Ranked(uuid="u", source="hybrid", renamed=(0,))

    def credit(chunk: StoredChunk, score: float = 0.1) -> float:
        return credited(score, question, ranked, chunk, expansion)

    others = ", ".join(f"{letter}{letter}omia syndrome" for letter in "bcdfghjklmnpqrstvwxz")
    statement = credit(chunk_of("Zorbium syndrome responds to quinine."))
    listed = credit(chunk_of(f"Rare diseases that are treated: {others}, Zorbium syndrome."))
    titled = credit(chunk_of(f"It is treated, as are {others}.", title="Zorbium syndrome"))
    assert statement >= 0.6
    assert listed < 0.5 < statement
    assert titled == 1.0
    assert credit(chunk_of(f"Seen in {others}, Zorbium syndrome."), score=0.45) == 0.45
    nothing_renamed = ranked.model_copy(update={"renamed": ()})
    assert credited(0.2, question, nothing_renamed, chunk_of("Zorbium."), expansion) == 0.2


def test_other_names_exclude_plurals_and_follow_their_entity() -> None:
    query = "Do seizures occur in Kappler disease?"
    spans = [("seizures", "Seizure"), ("Kappler disease", "Zorbium syndrome")]
    places = [(query.index(spelling), spelling, name) for spelling, name in spans]
    renamings = tuple(
        Renaming(start=start, end=start + len(spelling), name=name)
        for start, spelling, name in places
    )
    ranked = Ranked(uuid="u", source="hybrid", renamed=(0, 1))
    expansion = Expansion(ranking=(ranked,), renamings=renamings)
    names = other_names(query, ranked, expansion)
    assert names == (OtherName(in_question="Kappler disease", in_passage="Zorbium syndrome"),)
    assert other_names(query, ranked, None) == ()
    manual = Expansion(
        ranking=(ranked,),
        renamings=(
            Renaming(start=9, end=12, name="tar(1)"),
            Renaming(start=14, end=23, name="git-clean(1)"),
        ),
    )
    assert other_names("How does tar, git clean work?", ranked, manual) == ()
    evidence = KgEvidence(
        matched_entity="Zorbium syndrome",
        entity_id="D:1",
        entity_type=None,
        match_type="direct_mention",
    )
    line = match_line(evidence, names)
    assert line == "Zorbium syndrome - direct mention, called Kappler disease in the question"
    other = evidence.model_copy(update={"matched_entity": "Seizure"})
    assert match_line(other, names) == "Seizure - direct mention"


def test_preferred_names_raise_a_sentences_similarity() -> None:
    chunk = chunk_of(
        "Zorbium syndrome is treated with quinine.", "It is rare.", "Quinine treats malaria."
    )
    block = Block(
        rank=1,
        uuid=chunk.uuid,
        text=chunk.text,
        document_name="d",
        relevance=5,
        other_names=(OtherName(in_question="Kappler disease", in_passage="Zorbium syndrome"),),
    )
    far = [0.1, 0.1, 0.3]
    near = names_credited("How is Kappler disease treated?", block, chunk, far)
    assert near[0] == pytest.approx(relevance.cosine_of(1.0))
    assert list(near[1:]) == far[1:]
    plain = block.model_copy(update={"other_names": ()})
    assert names_credited("How is Kappler disease treated?", plain, chunk, far) is far
