"""What the graph knows of "A is a kind of B" counts as much as what a passage says of it."""

import pytest

from docstokg.contracts.records import EntityRecord, RelationRecord, Scope
from docstokg.contracts.response import Citation, EvidenceEdge, KgEvidence, Provenance
from docstokg.contracts.state import Block
from docstokg.domain.graph.ontology_facts import (
    NO_FACTS,
    Fact,
    Facts,
    Stated,
    brought,
    says,
    stated,
)
from docstokg.usecases.check_answer import check_answer, ground_sentences, ground_text
from docstokg.usecases.ontology_facts import facts_of
from tests.contract.embedded import EmbeddedGraph

FACTS = Facts(
    (Fact(frozenset({"spaniel"}), "is_a", frozenset({"dog", "domestic dog"})),),
    linked=frozenset({"spaniel", "dog", "cat"}),
    placed=frozenset({"spaniel"}),
)
TEXT = "Spaniels and dogs were seen in the park, and a dog was seen beside a spaniel."
BLOCK = Block(rank=1, uuid="u1", text=TEXT, document_name="park", relevance=5)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("A spaniel is a kind of dog.", Stated("spaniel", "is_a", "dog", False)),
        ("Spaniels (X:1) are types of dogs (X:2).", Stated("spaniel", "is_a", "dog", False)),
        ("A spaniel is not a kind of dog.", Stated("spaniel", "is_a", "dog", True)),
        ("The wheel is part of the car.", Stated("wheel", "part_of", "car", False)),
        ("A spaniel is a friendly dog.", None),
        ("It is said that some things are kind of others and so on.", None),
        ("A dog is a kind of dog.", None),
    ],
)
def test_a_sentence_states_one_relation_between_two_names(
    claim: str, expected: Stated | None
) -> None:
    assert stated(claim) == expected


@pytest.mark.parametrize(
    ("claim", "held"),
    [
        ("A spaniel is a kind of dog.", "held"), ("Spaniels are types of domestic dogs.", "held"),
        ("A dog is a kind of spaniel.", "contradicted"),
        ("A spaniel is not a kind of dog.", "contradicted"),
        ("A dog is not a kind of spaniel.", None),
        ("A spaniel is a kind of cat.", "relation_not_found"),
        ("A spaniel is a kind of seal.", None), ("A cat is a kind of dog.", None),
    ],
)  # fmt: skip
def test_facts_hold_a_claim_contradict_it_or_lack_it(claim: str, held: str | None) -> None:
    assert says(claim, FACTS) == held


def test_a_relation_the_graph_lacks_is_not_supported_unless_a_source_says_it() -> None:
    claim = "A spaniel is a kind of cat"
    report = ground_text(f"{claim} [1].", [BLOCK], None, FACTS)
    assert report.sentences[0].verdict == "unsupported"
    assert "relation_not_found" in report.sentences[0].reasons
    quoted = BLOCK.model_copy(update={"text": f"{claim}, they say."})
    assert ground_text(f"{claim} [1].", [quoted], None, FACTS).grounded


def test_the_same_words_the_wrong_way_round_are_contradicted() -> None:
    wrong, right = "A dog is a kind of spaniel [1].", "A spaniel is a kind of dog [1]."
    report = ground_text(f"{wrong} {right}", [BLOCK], None, FACTS)
    assert [s.verdict for s in report.sentences] == ["unsupported", "supported"]
    assert "contradicted" in report.sentences[0].reasons
    assert not report.grounded
    without = ground_text(wrong, [BLOCK])
    assert "contradicted" not in without.sentences[0].reasons


def test_without_citations_the_graph_decides_as_well() -> None:
    report = ground_sentences("A dog is a kind of spaniel.", [[BLOCK]], None, FACTS)
    assert [s.verdict for s in report.sentences] == ["unsupported"]


def test_an_answer_is_held_against_the_edges_that_expand_brought() -> None:
    citation = Citation(
        rank=1,
        doc_id="d",
        uuid="u1",
        chunk_id="c",
        snippet=TEXT,
        char_start=0,
        char_end=len(TEXT),
        offset_base="chunk",
        text_sha256="0" * 64,
        score=0.9,
        source="kg_expansion",
        kg_path=("X:2", "X:1"),
        kg_evidence=KgEvidence(
            matched_entity="Spaniel",
            entity_id="X:1",
            entity_type=None,
            match_type="related_via",
            related_to="Dog",
            path=(EvidenceEdge(src="X:1", type="is_a", dst="X:2"),),
        ),
        provenance=Provenance(run_id="r", retrieved_at="now"),
    )
    assert brought([citation]) == (Fact(frozenset({"spaniel"}), "is_a", frozenset({"dog"})),)
    checked = check_answer("Dogs are a kind of spaniel [1].", [BLOCK], citations=[citation])
    assert checked.grounding is not None
    assert checked.grounding.sentences[0].verdict == "unsupported"
    assert checked.confidence <= 0.45
    held = check_answer("Spaniels are a kind of dog [1].", [BLOCK], citations=[citation])
    assert held.grounding is not None
    assert held.grounding.sentences[0].verdict == "supported"


def test_facts_are_read_from_the_graph_by_names_over_several_steps() -> None:
    graph = EmbeddedGraph()
    graph.put_entities(
        [
            EntityRecord(id="X:1", namespace="default", name="Spaniel", listed=True),
            EntityRecord(
                id="X:2", namespace="default", name="Gun dog", synonyms=("hunter",), listed=True
            ),
            EntityRecord(id="X:3", namespace="default", name="Dog", listed=True),
        ]
    )
    graph.put_relations(
        [
            RelationRecord(namespace="default", source="X:1", type="is_a", target="X:2"),
            RelationRecord(namespace="default", source="X:2", type="is a", target="X:3"),
        ]
    )
    scope = Scope(namespace="default")
    claims = ["A spaniel is a kind of dog.", "A spaniel is a kind of hunter."]
    facts = facts_of(claims, graph, scope, 5.0)
    assert [says(claim, facts) for claim in claims] == ["held", "held"]
    assert says("Dogs are a kind of spaniel.", facts) == "contradicted"
    assert facts_of(["Nothing of the sort is said."], graph, scope, 0.0) == NO_FACTS
