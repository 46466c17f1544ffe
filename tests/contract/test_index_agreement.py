"""The embedded index and the fake agree on any corpus, so that the fake's tests hold for both."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.vectors import pack
from tests.contract.test_search_index import (
    DIMENSION,
    PATIENT_S,
    axis,
    chunk,
    fill,
    in_memory,
    in_sqlite,
)

TOKENS = ("alpha", "beta", "gamma")
GROUPS = ("red", "blue")
chunks_of_a_corpus = st.lists(
    st.fixed_dictionaries(
        {
            "namespace": st.sampled_from(["ns", "other"]),
            "vector": st.none()
            | st.lists(st.integers(-3, 3), min_size=DIMENSION, max_size=DIMENSION)
            .filter(any)
            .map(pack),
            "sparse": st.dictionaries(
                st.sampled_from(TOKENS), st.sampled_from([0.25, 0.5, 1.0, 2.0])
            ),
            "acl": st.lists(st.sampled_from(GROUPS), unique=True).map(tuple),
            "topics": st.lists(st.sampled_from(["t1", "t2"]), unique=True).map(tuple),
        }
    ),
    max_size=12,
)
scopes = st.builds(
    Scope,
    namespace=st.sampled_from(["ns", "other", "none"]),
    groups=st.none() | st.lists(st.sampled_from(GROUPS), unique=True).map(tuple),
    filter=st.none() | st.just({"topic": ("t1",)}),
    doc_ids=st.none() | st.just(tuple(f"doc-c{i}" for i in range(0, 12, 2))),
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(corpus=chunks_of_a_corpus, scope=scopes, size=st.integers(1, 6), data=st.data())
def test_the_embedded_index_agrees_with_the_fake(
    tmp_path_factory: pytest.TempPathFactory,
    corpus: list[dict[str, Any]],
    scope: Scope,
    size: int,
    data: st.DataObject,
) -> None:
    records = [chunk(f"c{i}", f"text {i}", **fields) for i, fields in enumerate(corpus)]
    weights = {token: data.draw(st.sampled_from([0.5, 1.0, 3.0])) for token in TOKENS}
    queries = [
        ChannelQuery(channel="splade", size=size, weights=weights),
        ChannelQuery(channel="dense", size=size, vector=axis(0, 1, 2)),
    ]
    answers: list[list[Any]] = []
    scores: list[list[float]] = []
    for make in (in_memory, in_sqlite):
        with make(tmp_path_factory.mktemp("agree")) as made:
            fill(made, *records)
            results = made.index.search(queries, scope, PATIENT_S)
            answers.append([[(hit.uuid, hit.vector) for hit in found.hits] for found in results])
            scores.append([hit.score for found in results for hit in found.hits])
            read = made.index.get([record.uuid for record in records], scope, PATIENT_S)
            answers[-1].append(sorted(read.chunks))
    assert answers[0] == answers[1]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
