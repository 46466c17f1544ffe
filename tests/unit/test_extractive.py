"""The built-in model: what answers best is quoted with its marker, or nothing is said."""

from typing import Any

import pytest

from docstokg.contracts.state import Block, OtherName
from docstokg.domain.answer import extractive
from docstokg.domain.answer.kinds import asked_kinds, asks_for_part, named_label, opening_label
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.quotation import find_quotation
from docstokg.domain.answer.reader_features import candidates, states_others
from docstokg.domain.answer.statements import statements
from docstokg.domain.answer.two_hops import pairs
from docstokg.domain.text.sentences import sentence_spans
from docstokg.usecases.check_answer import check_answer

SEIZURE = (
    "Seizures are sudden electrical events in the brain. A seizure may follow a high fever. "
    "Anticonvulsants reduce the frequency of seizures by 50 percent."
)
COUNTRIES = "Hotel limits\n\nCountry | Limit\nNorway | 165 euros\nSpain | 105 euros\n"
LEANING = "Dravet syndrome is a severe epilepsy. It begins with febrile seizures in infants."


def block(
    text: str, *cosines: float, rank: int = 1, name: str = "notes.md", **fields: Any
) -> Block:
    spans = sentence_spans(text)
    return Block(
        rank=rank,
        uuid=f"u{rank}",
        text=text,
        document_name=name,
        relevance=8,
        sentences=spans,
        cosines=cosines if len(cosines) == len(spans) else (0.5,) * len(spans),
        **fields,
    )


def answered(
    query: str, *blocks: Block, max_tokens: int = 300, threshold: float = 0.0
) -> extractive.Answer:
    return extractive.answer(query, blocks, max_tokens, threshold)


def answer_text(query: str, *blocks: Block, threshold: float = 0.0) -> str:
    return answered(query, *blocks, threshold=threshold).text


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        (SEIZURE, "What are seizures?", "Seizures are sudden electrical events in the brain [1]."
         " A seizure may follow a high fever [1]."),
        (SEIZURE, "What reduces the frequency of seizures?",
         "Anticonvulsants reduce the frequency of seizures by 50 percent [1]."),
        (COUNTRIES, "What is the hotel limit in Spain?", "Spain: Limit: 105 euros [1]."),
        ("Kiln: Elm B; Peak: 90 K.\n\nKiln: Elm A; Peak: 70 K.", "What is the peak of Elm A?",
         "Kiln: Elm A; Peak: 70 K [1]."),
        ("桥高九米。守桥人是王安。", "守桥人是谁?", "守桥人是王安 [1]。"),
        # No source forges a marker, and links are read as their words.
        ("Cranes stand by the water [2] all day [see 3].", "Where do cranes stand?",
         "Cranes stand by the water all day (see 3) [1]."),
        ("Cranes stand by [the water](https://a.b/c).", "Where do cranes stand?",
         "Cranes stand by the water [1]."),
    ],
)  # fmt: skip
def test_the_sentence_that_answers_is_quoted(text: str, query: str, expected: str) -> None:
    assert answer_text(query, block(text)) == expected


def test_meaning_chooses_where_words_do_not() -> None:
    text = "The harbour was rebuilt in spring. Its lamps are lit by the keeper every night."
    assert answer_text("What of it?", block(text, 0.1, 0.8)).startswith("The harbour was rebuilt")
    # The rest of the paragraph follows.
    assert answer_text("What of it?", block(text, 0.8, 0.1)) == (
        "The harbour was rebuilt in spring [1]. Its lamps are lit by the keeper every night [1]."
    )


def test_a_leaning_sentence_comes_with_its_predecessor() -> None:
    answer = answer_text("How does it begin in infants?", block(LEANING, 0.2, 0.9))
    assert answer == (
        "Dravet syndrome is a severe epilepsy [1]. It begins with febrile seizures in infants [1]."
    )


def test_a_heading_adds_its_words_to_its_text() -> None:
    text = (
        "## Cleaning\n\nUse caustic at 85 degrees.\n\n## Running dry\n\nUse it for ninety seconds."
    )
    dry, wet = block(text), block(text)
    assert answer_text("How long may it run dry?", dry, wet) == "Use it for ninety seconds [1]."


def test_code_stays_code_under_a_line_that_cites() -> None:
    text = "Undo a commit:\n\n```sh\ntool reset --soft HEAD^\n```\n"
    answer = answer_text("How do I undo a commit?", block(text))
    assert answer == "Undo a commit [1]:\n\n```\ntool reset --soft HEAD^\n```\n"
    assert check_answer(answer, [block(text)]).cited == (1,)


def test_another_name_counts_exactly_as_the_asked_name() -> None:
    query = "What is the goal of AML treatment?"
    names = (OtherName(in_question="AML", in_passage="Acute myeloid leukemia"),)
    renamed = block("Treating acute myeloid leukemia is hard.", other_names=names)
    (of_other,), (of_own,) = (
        candidates(query, [passage]) for passage in (renamed, block("Treating AML is hard."))
    )
    assert of_other.features == of_own.features


def test_improbable_sentences_are_not_quoted() -> None:
    query = "What reduces the frequency of seizures?"
    sure = answered(query, block(SEIZURE))
    assert 0 < sure.probability < 1
    unsure = answered(query, block(SEIZURE), threshold=1.0)
    assert unsure == extractive.Answer(ABSTENTION, sure.probability)


def test_name_in_no_passage_lowers_the_probability() -> None:
    questions = (f"What is the hotel limit in {name}?" for name in ("Spain", "Brazil"))
    spain, brazil = (extractive.choose(query, [block(COUNTRIES)]) for query in questions)
    assert brazil.credit < spain.credit - 0.05


def test_rows_of_a_list_are_sure_together() -> None:
    rows = "".join(f"| Step {n}0 | {n % 4} |\n" for n in range(1, 9))
    asked = "List the severity of all steps"
    choice = extractive.choose(asked, [block(f"| Step | Severity |\n|---|---|\n{rows}")])
    assert len(choice.quotations) == 8
    assert min(choice.credit, choice.probability) > 0.7


def test_a_telephone_number_is_no_count() -> None:
    assert "many" not in asked_kinds("What is the telephone number of the depot?")
    assert "many" in asked_kinds("What is the number of depots?")


def test_other_mentions_keep_the_probability_of_a_definition() -> None:
    definition = block("# Quern\n\nA hand mill of two stones that grinds corn.", 0.4)
    mention = block("The quern is what the miller turns. Ask what a quern is.", 0.9, 0.9, rank=2)
    alone = extractive.choose("What is a quern?", [definition])
    among_others = extractive.choose("What is a quern?", [definition, mention])
    assert among_others.quotations[0].text == alone.quotations[0].text
    assert among_others.probability == pytest.approx(alone.probability, abs=0.01)


def test_nothing_to_quote_is_silence() -> None:
    assert answered("What is it?") == extractive.Answer(ABSTENTION, 0.0)
    assert answer_text("Is it so?", block("Is it so?")) == ABSTENTION


def test_a_question_is_no_lead_of_an_answer() -> None:
    text = "What is the phone for? It is for on-call duty only, day and night."
    assert "What is" not in answer_text("Who has the phone for on-call duty?", block(text))


AGREEING = (
    "The Harrow bridge was opened in 1931.",
    "In 1931 the Harrow bridge was opened.",
    "The bridge at Harrow was opened in 1931 as well.",
)


def test_agreeing_passages_are_cited_and_raise_the_probability() -> None:
    blocks = [
        block(f"{text}\n\nBoats pass below it in summer.", 0.6, 0.2, rank=rank)
        for rank, text in enumerate(AGREEING, 1)
    ]
    query = "When was the Harrow bridge opened?"
    alone, *agreeing = (answered(query, *blocks[:count]) for count in (1, 2, 3))
    assert alone.text == "The Harrow bridge was opened in 1931 [1]."
    # Another wording agrees, but does not prove the quoted sentence.
    assert agreeing[1].text == "The Harrow bridge was opened in 1931 [1]."
    assert min(answer.probability for answer in agreeing) >= alone.probability
    same = [
        block(f"{AGREEING[0]}\n\nBoats pass below it in season {rank}.", 0.6, 0.2, rank=rank)
        for rank in (1, 2, 3)
    ]
    assert answer_text(query, *same) == "The Harrow bridge was opened in 1931 [1][2][3]."


@pytest.mark.parametrize(
    ("query", "missed"),
    [
        ("What is the hotel limit in Brazil?", [1, 1]),
        ("What is the hotel limit in Spain?", [1, 0]),
        ("what is the limit?", [0, 0]),
        ("Was ist die Grenze der Hotels in Spanien?", [0, 0]),  # nouns have capitals
    ],
)
def test_rows_lack_the_name_that_is_asked(query: str, missed: list[int]) -> None:
    pool = candidates(query, [block(COUNTRIES)])
    assert [each.features.name_missed for each in pool if each.unit.kind == "row"] == missed


@pytest.mark.parametrize(
    "other", ["The Harrow bridge was opened in 1932.", "The Harrow bridge was not opened in 1931."]
)
def test_other_values_and_denials_are_different_statements(other: str) -> None:
    blocks = [block(AGREEING[0], 0.6), block(other, 0.5, rank=2)]
    assert answer_text("When was the Harrow bridge opened?", *blocks) == (
        "The Harrow bridge was opened in 1931 [1]."
    )


def test_two_linked_sentences_answer_a_two_hop_question() -> None:
    blocks = [
        block("The memoir Ridge Walk was written by Ada Corvin.", 0.6, name="Ridge Walk"),
        block("Ada Corvin was born in Ludvika, Sweden.", 0.5, rank=2, name="Ada Corvin"),
        block("Boats pass below the bridge in summer.", 0.1, rank=3, name="Boats"),
    ]
    query = "In which country was the author of the memoir Ridge Walk born?"
    assert answer_text(query, *blocks) == (
        "The memoir Ridge Walk was written by Ada Corvin [1]. "
        "Ada Corvin was born in Ludvika, Sweden [2]."
    )
    # In one document, or without the link, one sentence is quoted.
    same = [passage.model_copy(update={"document_name": "notes.md"}) for passage in blocks]
    unlinked = [blocks[0], block("He was born in Ludvika, Sweden.", 0.5, rank=2, name="Other")]
    assert answer_text(query, *same).count("[") == answer_text(query, *unlinked).count("[") == 1


def test_sentences_differing_only_in_value_are_no_pair() -> None:
    texts = (
        "Elm Works had 190 employees in 2021.",
        "Elm Works had 230 employees in the year 2021.",
    )
    blocks = [block(text, 0.6, rank=rank, name=f"{rank}.md") for rank, text in enumerate(texts, 1)]
    query = "How many employees did the company have at the end of the year 2021?"
    pool = candidates(query, blocks)
    assert len(pool) == 2
    assert pairs(query, pool, [1.0, 1.0]) == []
    # Both are a pair where they state different things.
    other = block("Elm Works closed at the end of the year.", 0.6, rank=2, name="2.md")
    assert pairs(query, candidates(query, [blocks[0], other]), [1.0, 1.0])


@pytest.mark.parametrize(
    "text",
    [
        'The miller said: "Grind no more meal today!"',
        "He wrote (in a letter of 1901) that \u201cthe mill is old.\u201d",
        "Kiln: Elm A; Peak: 70 K.",
        "The mill grinds oats<br>each day.",
        "Cranes stand by [the water](https://a.b/c) [2] all day!",
    ],
)
def test_every_quoted_sentence_is_proved_a_quotation(text: str) -> None:
    passage = f"# Notes\n\nBefore it all was quiet here. {text}\n\nKey | Value\nElm B | 12 kg\n"
    source = block(passage)
    answer = answer_text("What is said of the mill, the miller, the cranes and the kiln?", source)
    factual = [statement for statement in statements(answer) if statement.factual]
    assert factual
    assert all(
        find_quotation(statement.text, passage, source.sentences) for statement in factual
    ), answer


def test_the_reader_gets_the_heading_of_a_text_or_of_its_section() -> None:
    path = "The path is 12 km long.\n"
    first = block(f"## Juniper trail\n\n{path}", subject="Orrin")
    later = block(path, subject="Orrin", section="Trails > Juniper trail")
    for each in (first, later):
        (candidate,) = candidates("How long is it?", [each])
        context = extractive.in_context("How long is it?", candidate)
        assert context == "Orrin, Juniper trail: The path is 12 km long."


def test_the_reader_gets_values_as_in_the_question() -> None:
    query = "What happened on 2023-10-05?"
    (candidate,) = candidates(query, [block("On 5 October 2023 the mill burnt.", subject="Log")])
    assert extractive.in_context(query, candidate) == "Log: On 2023-10-05 the mill burnt."


def test_a_low_logit_silences_a_sentence_but_no_rows_together() -> None:
    """The reader compares single parts, and no row alone answers "which"."""
    people = block("Name | Team\nAda | Red\nBo | Blue\nCy | Red\n", name="people.csv")
    sentence = block("Ada and Cy of the team chose red paint.")

    def answer(query: str, source: Block) -> str:
        low = (query, [source], 300, 0.4, lambda _, texts: [-6.0] * len(texts))
        return extractive.answer(*low).text

    assert answer("What did the red team win?", sentence) == ABSTENTION
    rows = answer("Which people are in team Red?", people)
    assert "Ada" in rows and "Cy" in rows and "Bo" not in rows


@pytest.mark.parametrize("lead", ["The kiln uses:\n\n- wood", "The kiln uses wood.\n\n- peat"])
def test_the_first_part_of_a_section_defines_its_heading(lead: str) -> None:
    source = block(f"## Kiln\n\n{lead}\n- coal\n\nIt is not the only kiln.\n")
    defining = [
        c.unit.text for c in candidates("What is the kiln?", [source]) if c.features.defines
    ]
    assert len(defining) == 1 and defining[0].startswith("The kiln uses")


def test_a_heading_underlined_with_tildes_begins_no_code() -> None:
    source = block("Bugs\n~~~~\nBugs go to Orrin.\n\nFixes\n~~~~~\nThey take a week.\n")
    assert answer_text("Who gets bugs?", source) == "Bugs go to Orrin [1]."
    fenced = block("Log\n\n~~~\nBugs go to Orrin.\n~~~\n")
    assert [each.unit.kind for each in candidates("Who gets bugs?", [fenced])] == ["code"]


@pytest.mark.parametrize(
    ("text", "is_time"),
    [
        ("The mill was sold in 1812.", True),
        ("The mill was sold after the flood.", True),
        ("The mill was sold to Orrin.", False),
    ],
)
def test_a_question_for_a_time_needs_one(text: str, is_time: bool) -> None:
    answer = answer_text("When was the mill sold?", block(text), threshold=0.01)
    assert (answer != ABSTENTION) == is_time


@pytest.mark.parametrize(
    ("query", "text", "is_lower"),
    [
        ("What was sold in 1812?", "The mill was sold in 1823.", True),
        ("What was sold in 1812?", "The mill was sold from 1810 to 1815.", False),
        ("What was sold in Q2 2023?", "The mill was sold in Q2 2024.", True),
        ("What was sold in Q2 2023?", "Report for 2023: the mill was sold in Q3 2023.", True),
        ("What does error E7 mean?", "E-017: the print head is too hot.", True),
        ("What does error E7 mean?", "E-007: the ribbon is torn.", False),
        ("Who was the third miller?", "Orrin was the 4th miller.", True),
        ("What was sold before 1823?", "The mill was sold in 1812.", False),
        ("What was sold in 1812?", "The mill was sold to 3 millers.", False),
    ],
)
def test_another_value_of_the_asked_kind_halves_the_credit(
    query: str, text: str, is_lower: bool
) -> None:
    assert states_others(query, text) == is_lower


def test_another_value_counts_where_the_asked_is_stated() -> None:
    query = "What was sold in Q2 2023?"
    texts = ("The mill was sold in Q3 2023.", "The kiln was sold in Q2 2023.")
    pool = candidates(query, [block(" ".join(texts))])
    assert [each.features.other_value for each in pool] == [1.0, 0.0]
    assert [each.features.other_value for each in candidates(query, [block(texts[0])])] == [0.0]


def test_a_numbered_heading_is_no_answer() -> None:
    heading = "2. Before you take Solvin"
    source = block(f"{heading}\n\nTell your doctor if you take iron.\n", section=heading)
    answer = answer_text("What must I do before I take Solvin?", source)
    assert answer == "Tell your doctor if you take iron [1]."


FAQ = """# Sauna

Q: May children come in?
A: From the age of six, with an adult.

Q: Is there a day for women?
A: Tuesday.

1. How long is a ticket valid?
   Four hours. After that 2 euros an hour.

## Can I pay by card?

Above 10 euros.
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("May children come in?", "From the age of six, with an adult [1]."),
        ("Is there a day for women?", "Is there a day for women: Tuesday [1]."),
        (
            "How long is a ticket valid?",
            "How long is a ticket valid: Four hours [1]. After that 2 euros an hour [1].",
        ),
        ("Can I pay by card?", "Above 10 euros [1]."),
    ],
)
def test_replies_to_questions_are_quoted_and_proved(query: str, expected: str) -> None:
    answer = answer_text(query, block(FAQ))
    assert answer == expected
    assert all(find_quotation(statement.text, FAQ, ()) for statement in statements(answer))
    assert find_quotation("Can I pay by card: Tuesday", FAQ, ()) is None
    assert find_quotation("Tuesday", FAQ, ()) is None
    assert find_quotation("heat flow in watts", "Q: heat flow in watts.\n", ()) is None


def test_a_sentence_containing_the_question_is_quoted_alone() -> None:
    first, second = (
        Block(rank=rank, uuid=name, document_name=name, relevance=9, text=text)
        for rank, name, text in (
            (1, "Fits", "Signs of Ataxia are Tremor and Falls."),
            (2, "Shakes", "Signs of Chorea are Tremor and Rigor."),
        )
    )
    answer = answer_text("What are the signs of Ataxia?", first, second)
    assert answer == "Signs of Ataxia are Tremor and Falls [1]."


def test_quoted_mail_answers_only_last() -> None:
    old = block("We take the crane of 8 tonnes.", quoted=True)
    new = block("We take the crane of 12 tonnes.", rank=2)
    query = "Which crane do we take?"
    assert answer_text(query, old, new) == "We take the crane of 12 tonnes [2]."
    assert answer_text(query, old) == "We take the crane of 8 tonnes [1]."


DEPOSIT = (
    "4.1 Deposit\n\nThe tenant pays a deposit of two months, see clause 4.2. It bears no interest."
)
REPAIRS = (
    "4.2 Repairs\n\nSmall repairs up to 90 euros are paid by the tenant. The landlord pays all"
    " others."
)
KILN = (
    "Firing the kiln\n\n1. Stack the shelves.\n2. Close the lid firmly.\n3. Set the cone to six.\n"
    "4. Wait until the cone bends.\n\nGlazes:\n\n- a) Celadon, a pale green glaze.\n"
    "- b) Tenmoku, a dark brown glaze."
)
ROPES = "12.1. Ropes hang in the loft.\n12.2. Ropes are rinsed after use.\n12.3. Knots stay tied."
STEPS = "The kiln reaches step temperature after four hours. Steps of 50 degrees are usual."


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What does clause 4.2 say?",
         "Small repairs up to 90 euros are paid by the tenant [2]. The landlord pays all others"
         " [2]."),
        ("What does clause 4.1 say?",
         "The tenant pays a deposit of two months, see clause 4.2 [1]. It bears no interest [1]."),
        ("What does section 5 say?", "Pets are allowed after notice [3]."),
        ("What is step 4?", "Wait until the cone bends [4]."),
        ("What happens in step 2?", "Close the lid firmly [4]."),
        ("What is option b?", "b) Tenmoku, a dark brown glaze [4]."),
        ("What does clause 12.2 say?", "12.2. Ropes are rinsed after use [6]."),
    ],
)  # fmt: skip
def test_the_part_with_the_named_label_is_quoted(query: str, expected: str) -> None:
    pets = block("Pets are allowed after notice.", rank=3, section="Lease > 5. Animals")
    passages = [block(DEPOSIT), block(REPAIRS, rank=2), pets]
    passages += [block(KILN, rank=4, name="kiln.md"), block(STEPS, rank=5, name="kiln.md")]
    passages.append(block(ROPES, rank=6, name="ropes.md"))
    assert answer_text(query, *passages) == expected


@pytest.mark.parametrize("query", ["What is step 9 of firing the kiln?", "What is glaze option e?"])
def test_absent_parts_of_a_labelled_list_are_unanswered(query: str) -> None:
    blocks = [block(KILN), block(STEPS, rank=2)]
    assert answer_text(query, *blocks, threshold=0.01) == ABSTENTION


def test_questions_for_a_part_are_answered_if_present() -> None:
    passages = [block(REPAIRS), block(DEPOSIT, rank=2)]
    assert answered("What does clause 4.2 say?", *passages, threshold=0.99).probability == 1.0
    assert answer_text("What does clause 7.7 say?", *passages, threshold=0.5) == ABSTENTION


def test_two_parts_with_one_label_halve_the_probability() -> None:
    other = block("Cleaning\n\n1. Rinse the brush.\n2. Dry the brush slowly.", rank=2)
    assert answered("What is step 2?", block(KILN), other, threshold=0.5).probability == 0.5


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is step 4?", True),
        ("Was steht in Abschnitt 3.1?", True),
        ("What is the fee in clause 4.1?", False),
        ("What is a step?", False),
    ],
)
def test_other_words_ask_for_more_than_a_part(question: str, expected: bool) -> None:
    assert asks_for_part(question) is expected


@pytest.mark.parametrize(
    ("question", "label"),
    [
        ("Does option b cost more?", ("option", "b")),
        ("Was steht in Abschnitt 3.1?", ("abschnitt", "3.1")),
        ("What is in step 12 of 20?", ("step", "12")),
        ("Is there a section a person can read?", None),
        ("How much is paid to account 12?", None),
    ],
)
def test_labels_follow_a_listed_noun(question: str, label: tuple[str, str] | None) -> None:
    assert named_label(question) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("4. Close the hood", ("", "4")),
        ("- b) Slow mode", ("", "b")),
        ("2.2 The contract renews", ("", "2.2")),
        ("Step 4: Close", ("step", "4")),
        ("4 people live here", None),
        ("3.5 million people", None),
    ],
)
def test_parts_open_with_a_label(text: str, label: tuple[str, str] | None) -> None:
    assert opening_label(text) == label


@pytest.mark.parametrize(
    ("query", "warnings"),
    [
        ("Compare the dredger Aldra and the tug Brimo.", ("Nothing found for tug Brimo.",)),
        ("What is the difference between Aldra and Brimo?", ("Nothing found for Brimo.",)),
        ("Is Aldra longer than Brimo?", ("Nothing found for Brimo.",)),
        ("Do Aldra and Cape Ness have a port of call?", ()),
        ("How long is Aldra?", ()),
        ("When did Captain Brimo leave Aldra?", ()),
        ("Is Aldra open between 9 am and 5 pm?", ()),
        # Neither is there: the answer is the abstention.
        ("Is Dorva longer than Brimo?", ()),
    ],
)
def test_a_missing_name_of_a_comparison_warns(query: str, warnings: tuple[str, ...]) -> None:
    passages = [block("The dredger Aldra is 80 m long."), block("Cape Ness has a port.", rank=2)]
    answer = answered(query, *passages)
    assert answer.warnings == warnings
    assert "Nothing found" not in answer.text
