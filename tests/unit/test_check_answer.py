"""The one check: every failure of an answer, and what holds for any model output."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docstokg.contracts.response import Citation, Provenance, SentenceVerdict
from docstokg.contracts.state import Block
from docstokg.domain.answer import notices
from docstokg.domain.answer.citations import find_markers
from docstokg.domain.answer.statements import MOST_STATEMENTS, statements
from docstokg.errors import Timeout
from docstokg.usecases.check_answer import check_answer, ground_sentences
from docstokg.usecases.comparison import Comparison
from tests.plans import call, soon
from tests.word_vectors import WordVectors

SEIZURE = (
    "Seizures are sudden electrical events in the brain. A seizure may follow a high fever. "
    "Anticonvulsants reduce the frequency of seizures by 50 percent."
)
DRAVET = "Dravet syndrome is a severe epilepsy of infancy. It begins with febrile seizures."
BLOCKS = [
    Block(rank=1, uuid="u1", text=SEIZURE, document_name="Seizure", relevance=8, char_start=1000),
    Block(rank=2, uuid="u2", text=DRAVET, document_name="Dravet", relevance=6, start=10),
    Block(rank=4, uuid="u4", text="It opened in 1937.", document_name="Bridge", relevance=1),
]


def citation(rank: int, doc: str, score: float) -> Citation:
    return Citation(
        rank=rank, doc_id=doc, uuid=f"u{rank}", chunk_id=doc, snippet="s", char_start=0,
        char_end=1, offset_base="chunk", text_sha256="0" * 64, score=score, source="hybrid",
        provenance=Provenance(run_id="r", retrieved_at="now"),
    )  # fmt: skip


CITATIONS = [citation(1, "a", 0.8), citation(2, "b", 0.6), citation(4, "c", 0.1)]


WORDS = WordVectors()


class LateEmbedder(WordVectors):
    def embed(self, texts, deadline):
        raise Timeout("late")


def comparison(embedder=WORDS, log=None) -> Comparison:
    return Comparison(call(log), embedder, soon())


def check(answer: str, *, embedder=WORDS, log=None, **options):
    question = "What are seizures?"
    compare = comparison(embedder, log)
    return check_answer(
        answer, BLOCKS, citations=CITATIONS, query=question, compare=compare, **options
    )


def test_without_markers_a_sentence_cites_its_best_passage() -> None:
    text = "It begins with febrile seizures. Anticonvulsants lower the frequency of seizures."
    report = ground_sentences(text, [BLOCKS[:2], BLOCKS[:2]], comparison())
    quoted, free = report.sentences
    assert (quoted.verdict, quoted.citations) == ("supported", (2,))
    assert (free.verdict, free.citations) == ("unverified", (1,))
    assert report.grounded is None


def test_a_good_answer() -> None:
    result = check("Seizures are sudden electrical events in the brain [1]. It begins with febrile "
                   "seizures [2].")  # fmt: skip
    assert result.warnings == ()
    assert result.cited == (1, 2)
    report = result.grounding
    assert (report.coverage, report.context_coverage, report.grounded) == (1.0, 0.6667, True)
    assert [verdict.verdict for verdict in report.sentences] == ["supported", "supported"]
    retrieval = (0.8 + 0.6) / 2
    parts = result.confidence_parts
    assert (parts.retrieval, parts.sources) == (pytest.approx(retrieval), 0.6)
    formula = 0.4 * retrieval + 0.3 * 0.6 + 0.3 * parts.similarity
    assert result.confidence == pytest.approx(formula, abs=1e-4)
    assert [sentence.decided_by for sentence in report.sentences] == ["rules", "rules"]
    assert [(checker.name, checker.kind) for checker in report.checked_by] == [("rules", "rules")]


def test_spans_count_in_the_offset_base() -> None:
    report = check("Anticonvulsants reduce the frequency of seizures by 50 percent [1]. "
                   "It begins with febrile seizures [2].").grounding  # fmt: skip
    first, second = (verdict.span for verdict in report.sentences)
    assert SEIZURE[first.char_start - 1000 : first.char_end - 1000].startswith("Anticonvulsants")
    assert DRAVET[second.char_start - 10 : second.char_end - 10].startswith("It begins")


def test_sentences_point_into_the_answer() -> None:
    result = check("Seizures are electrical events [1][9]. Dravet is severe [2]!")
    for verdict, text in zip(
        result.grounding.sentences,
        ["Seizures are electrical events [1].", "Dravet is severe [2]!"],
        strict=True,
    ):
        assert result.answer[verdict.start : verdict.end] == text


def test_orphans_with_valid_ones_left() -> None:
    result = check(
        "Seizures are electrical events in the brain [1][9]. Anticonvulsants help many people [3]."
    )
    assert result.answer == (
        "Seizures are electrical events in the brain [1]. Anticonvulsants help many people."
    )
    assert result.grounding.invalid_citations == ("[9]", "[3]")
    assert result.confidence <= 0.5
    assert "Some citation markers were invalid and have been removed." in result.warnings
    assert notices.CITATIONS_UNAVAILABLE not in result.warnings
    assert not result.grounding.grounded


@pytest.mark.parametrize("answer", ["[1][2]", "[1] [2].", "[9]", "See also [9].", "See also [1]."])
def test_markers_alone_are_no_answer(answer: str) -> None:
    result = check(answer)
    assert (result.answer, result.confidence, result.grounding) == (notices.ABSTENTION, 0.0, None)


def test_no_marker_is_added_without_support() -> None:
    text = "Bridges rust in salty air. It begins with febrile seizures."
    result = check(text, repair="attribute")
    assert result.answer == "Bridges rust in salty air. It begins with febrile seizures [2]."
    first, second = result.grounding.sentences
    assert (first.verdict, second.reasons) == ("uncited", ("marker_added",))


def test_no_valid_marker_at_all() -> None:
    result = check("Seizures are electrical events in the brain.")
    assert result.answer == "Seizures are electrical events in the brain."
    assert result.confidence <= 0.49
    assert result.confidence_level == "low"
    assert result.warnings == (notices.CITATIONS_UNAVAILABLE,)
    assert [verdict.verdict for verdict in result.grounding.sentences] == ["uncited"]
    assert not result.grounding.grounded


@pytest.mark.parametrize("embedder", [WORDS, None])
def test_quotations_are_trusted_above_forged_and_missing_markers(embedder: object) -> None:
    def trust(answer: str) -> float:
        return check(answer, embedder=embedder).confidence

    perfect = trust("Seizures are sudden electrical events in the brain [1].")
    unmarked = trust("Seizures are sudden electrical events in the brain.")
    forged = trust("Seizures are sudden electrical events in the brain [7][9].")
    after_all = trust(f"{notices.ABSTENTION} Seizures are rare in winter.")
    elsewhere = trust("Seizures are sudden electrical events in the brain [4].")
    assert perfect > max(unmarked, forged, after_all, elsewhere)


@pytest.mark.parametrize(
    "answer",
    [
        notices.ABSTENTION,
        f'"{notices.ABSTENTION}"',
        "I don\u2019t have information about that in the available documents",
        f"{notices.ABSTENTION} [1]",
        "",
        "  \n",
    ],
)
def test_abstention(answer: str) -> None:
    result = check(answer)
    assert result.answer == notices.ABSTENTION
    assert (result.confidence, result.grounding, result.warnings) == (0.0, None, ())


def test_a_free_sentence_is_unverified_with_unsupported_words() -> None:
    result = check("Seizures are sudden electrical events in the brain of Hippocrates [1].")
    (sentence,) = result.grounding.sentences
    assert (sentence.verdict, sentence.decided_by) == ("unverified", None)
    assert sentence.reasons == ("name_not_in_source",)
    assert sentence.span is not None
    assert result.grounding.grounded is None
    assert result.grounding.basis is None
    assert result.warnings == ("No cited source contains: Hippocrates (sentence 1).",)


def test_warnings_about_sentences_list_the_first_five() -> None:
    values = {number: [f"v{number}"] for number in range(1, 8)}
    (warning,) = notices.values_of_sentences("Missing", values)
    assert warning.count("(sentence ") == 5
    assert warning.endswith("v5 (sentence 5); further sentences with such values: 2.")
    verdict = SentenceVerdict(
        start=0, end=1, citations=(1, 2), proven=(1,), verdict="supported", support=1.0
    )
    warnings = notices.markers_unproven([verdict] * 6)
    assert warnings[4:] == [
        "Sentence 5 is in [1], but was not found in [2].",
        "Further sentences with such markers: 1.",
    ]
    assert len(notices.markers_unproven([verdict] * 5)) == 5


@pytest.mark.parametrize(
    "text",
    [
        "# Anticonvulsants reduce seizures by 75 percent [1]",
        "Anticonvulsants reduce seizures by 75 percent [1]:",
        "Do anticonvulsants reduce seizures by 75 percent [1]?",
        "Did you know that anticonvulsants never help [1]?",
        "Anticonvulsants reduce seizures by seventy-five percent [1].",
        "Note [1]:\n\n```\n# anticonvulsants reduce seizures by 75 percent\n```",
        "| Drug | Reduction of seizures |\n| --- | --- |\n| Anticonvulsants | 75 percent [1] |",
    ],
)
def test_no_form_hides_a_false_statement(text: str) -> None:
    report = check(text).grounding
    assert "unverified" in [sentence.verdict for sentence in report.sentences]
    assert report.grounded is None


@pytest.mark.parametrize(
    "text", ["See also [2].", "Here are the findings [1]:", "I hope this helps.", "# Findings"]
)
def test_text_that_claims_nothing_is_not_checked(text: str) -> None:
    result = check(f"Seizures are sudden electrical events in the brain [1].\n\n{text}")
    assert result.grounding.sentences[1].verdict == "not_checked"
    assert result.grounding.sentences[1].reasons == ("no_claim",)
    assert result.grounding.grounded is True


def test_long_answers_are_checked_to_a_stated_limit() -> None:
    text = "Seizures are sudden electrical events in the brain [1].\n\n" * 2500
    result = check(text)
    assert len(result.answer) > 130_000
    *judged, last = result.grounding.sentences
    assert len(judged) == MOST_STATEMENTS
    assert (last.verdict, last.reasons) == ("not_checked", ("too_long",))
    assert last.end == len(result.answer.rstrip())
    assert len(result.grounding.model_dump_json()) < 32_768
    assert result.grounding.grounded is None


UNCITED = (
    "Seizures are sudden electrical events in the brain [1]. "
    "Anticonvulsants reduce the frequency of seizures by 75 percent. "
    "It begins with febrile seizures [2]."
)


def test_uncited_sentences_are_reported() -> None:
    result = check(UNCITED)
    assert result.answer == UNCITED
    assert result.warnings == ("1 statement in this answer: without a citation.",)
    assert result.grounding.grounded is False


def test_dropping_everything_abstains_and_says_so() -> None:
    result = check("Anticonvulsants reduce seizures by 75 percent.", repair="drop")
    assert (result.answer, result.confidence) == (notices.ABSTENTION, 0.0)
    assert result.warnings == (notices.DROPPED,)


@pytest.mark.parametrize("embedder", [None, LateEmbedder()])
def test_without_vectors_it_says_so(embedder: object) -> None:
    answer = "Seizures are sudden electrical events in the brain [1]."
    result = check(answer, embedder=embedder)
    assert notices.NO_EMBEDDER in result.warnings
    assert result.confidence < check(answer).confidence


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("# Findings\n\nHere are results:\n\n- Seizures are events [1].\n\nYes [1]. Right. Is it?",
         [("Here are results Seizures are events.", (1,)), ("Yes.", (1,))]),
        ("Signs of flu are [1]:\n- fever\n- a cough [2]\n\nRest helps.",
         [("Signs of flu are fever", (1,)), ("Signs of flu are a cough", (2,)),
          ("Rest helps.", ())]),
        ("| City | Rain | Sun |\n| --- | --- | --- |\n| Oslo | 12 days | 9 days [1] |",
         [("Oslo: Rain: 12 days; Sun: 9 days", (1,))]),
    ],
    ids=["no claim needs no citation", "a list's items", "a row with its columns"],
)  # fmt: skip
def test_a_text_states_claims_with_their_markers(
    text: str, claims: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert [(s.claim, s.ranks) for s in statements(text) if s.factual] == claims


PIECES = st.sampled_from(
    ["Seizures are events in the brain", " [1]", "[2]", " [9]", "[1, 7]", "[1-4]", ". ",
     "! ", "\n\n",
     "`[3]`", "```\n", "[source 1]", "【2†x】", "[^1]", "[", "]", "75 percent",
     "HP:0001250 (Ataxia)",
     notices.ABSTENTION, " not", "😀", "\u202e", "[1](http://x)", "\n[9]: http://y"]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@example(f"Seizures are events in the brain[2]```\n{notices.ABSTENTION}\n[9]: x [1]```\n", "drop")
@example("0[1]\n```.\n[0]", "drop")
@given(st.one_of(st.text(max_size=120), st.lists(PIECES, max_size=25).map("".join)),
       st.sampled_from(["attribute", "drop", "report"]))  # fmt: skip
def test_any_model_output_whatever(answer: str, repair: str) -> None:
    result = check(answer, repair=repair)
    given_ranks = {block.rank for block in BLOCKS}
    named = {rank for marker in find_markers(result.answer) for rank in marker.ranks}
    assert named <= given_ranks
    assert set(result.cited) <= given_ranks
    assert 0 <= result.confidence <= 1
    if result.grounding is None:
        assert result.answer == notices.ABSTENTION
        return
    report = result.grounding
    assert report.total_citations == 3
    wrong = report.invalid_citations or report.coverage < 0.7
    assert not (report.grounded is not False and wrong)
    for verdict in report.sentences:
        assert 0 <= verdict.start < verdict.end <= len(result.answer)
        assert verdict.citations or verdict.verdict in ("uncited", "not_checked")
    if repair == "drop":
        assert not {"unsupported", "uncited"} & {sentence.verdict for sentence in report.sentences}
