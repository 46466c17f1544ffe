"""Extent of quotations, and their proof."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from docstokg.contracts.state import Block
from docstokg.domain.answer import extractive
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.quotation import find_quotation, find_statement
from docstokg.domain.answer.statements import statements
from tests.unit.test_extractive import answer_text, answered, block

OPTIONS = (
    "# chrony.conf\n\n## minpoll\n\nThis option sets the shortest interval of requests.\n\n"
    "The default is 6 (64 seconds).\n\n## minsamples\n\nThis option sets how many samples are kept."
    "\n\nThe default value is 6.\n\n## maxpoll\n\nThe default value is 6.\n"
)
STEPS = (
    "Step: Step 10\nFailure: Bolt loose\nSeverity: 6\nControl: W1\n\n"
    "Step: Step 20\nFailure: Seal torn\nSeverity: 7\nControl: W2\n\n"
    "Step: Step 30\nFailure: Bolt loose\nSeverity: 8\nControl: W3\n"
)
REVENUE = (
    "Year | Quarter | Revenue\n2022 | Q1 | 410\n2022 | Q2 | 455\n2023 | Q3 | 541\n2023 | Q4 | 600\n"
)


def proven(answer: str, *blocks: Block) -> bool:
    by_rank = {each.rank: each for each in blocks}
    return all(
        any(
            find_statement(claim, by_rank[rank].text, by_rank[rank].sentences)
            for rank in claim.ranks
        )
        for claim in statements(answer)
        if claim.factual
    )


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        (
            "The option -a sets the number of arrows the hunter gets. The default is five.",
            "How many arrows does the hunter get?",
            "The option -a sets the number of arrows the hunter gets [1]. The default is five [1].",
        ),
        (OPTIONS, "What is the default of minpoll?", "minpoll: The default is 6 (64 seconds) [1]."),
        (
            "**How do I get a badge?**\n\nAsk at desk 4, please.",
            "How do I get a badge?",
            "Ask at desk 4, please [1].",
        ),
        (
            "## Can I bring my dog?\n\nYes, on Fridays. Dogs stay on a lead in the corridors.",
            "Can I bring my dog?",
            "Yes, on Fridays [1]. Dogs stay on a lead in the corridors [1].",
        ),
        (
            "The tank holds 10<sup>3</sup> litres of H<sub>2</sub>O in <b>two</b> halves.",
            "How much does the tank hold?",
            "The tank holds 10^3 litres of H2O in two halves [1].",
        ),
        (
            "The <b> tag makes text bold.",
            "What makes text bold?",
            "The <b> tag makes text bold [1].",
        ),
        (STEPS, "What is the severity of step 20?", "Step: Step 20; Severity: 7 [1]."),
        (REVENUE, "What was the revenue in the third quarter of 2023?",
         "2023: Quarter: Q3; Revenue: 541 [1]."),
        (
            "A seizure is a sudden event in the brain.\n\nSeizure is also called fit and attack.",
            "What is a seizure?",
            "A seizure is a sudden event in the brain [1].",
        ),
    ],
    ids=["default", "heading", "asked", "reply", "tags", "tag", "cells", "quarter", "definition"],
)  # fmt: skip
def test_quotation_stands_on_its_own(text: str, query: str, expected: str) -> None:
    source = block(text)
    answer = answered(query, source)
    assert answer.text == expected
    assert proven(answer.text, source)
    assert answer.text[slice(*answer.best)].endswith("[1].")


LONG_RECORD = (
    "Ticket: T-7\nReporter: Mina Orlov\nDescription: The nightly export stops after about forty"
    " thousand rows with a broken pipe. It happens on every second night, and only while an archive"
    " job runs on the same host, which has less memory than the others of the rack.\n"
    "Steps: Start the archive job, wait for its lock, then start the export with the option --full"
    f"{' and watch the log' * 12}.\nWorkaround: Run it after six\nFixed in: 4.2.1"
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("In which version is T-7 fixed?", "Ticket: T-7; Fixed in: 4.2.1 [1]."),
        ("What is the workaround for T-7?", "Ticket: T-7; Workaround: Run it after six [1]."),
        ("Who is the reporter of T-7?", "Ticket: T-7; Reporter: Mina Orlov [1]."),
    ],
)
def test_a_long_record_with_sentences_answers_with_its_key_and_a_cell(
    query: str, expected: str
) -> None:
    source = block(f"{LONG_RECORD}\n\n{LONG_RECORD.replace('T-7', 'T-8').replace('.2', '.3')}")
    answer = answered(query, source)
    assert answer.text == expected
    assert proven(answer.text, source)


def test_a_row_of_a_table_is_read_as_words() -> None:
    cow = block("Cow | Farm | Milk\nAlma | Ost | 28 l\nBerta | Ost | 31 l\n")
    read: list[str] = []

    def reader(question: str, texts: Sequence[str]) -> list[float]:
        read.extend(texts)
        return [0.0] * len(texts)

    extractive.answer("How much milk does Berta give?", [cow], 300, 0.0, reader)
    assert ": Cow Berta; Milk of Berta is 31 l; Farm of Berta is Ost" in read


RESCUE = "Ring the bell if the lift stops between two floors."
NEXT = "A porter comes within nine minutes."


@pytest.mark.parametrize(
    ("following", "max_tokens", "expected"),
    [
        (f" {NEXT} Spare keys hang in the lodge.", 300, f"{RESCUE} {NEXT}"),
        (f" A porter comes from far{' away' * 50}.", 300, RESCUE),
        (f" Is the bell broken? {NEXT}", 300, RESCUE),
        (f" You need this number:\n\n- {NEXT}", 300, RESCUE),
        (f"\n\n{NEXT}", 300, RESCUE),
        (f" {NEXT}", 20, RESCUE),
    ],
    ids=["paragraph", "60 words", "question", "announcement", "next paragraph", "few tokens"],
)
def test_the_following_sentence_of_the_paragraph_is_quoted(
    following: str, max_tokens: int, expected: str
) -> None:
    source = block(RESCUE + following)
    answer = answered("What if the lift stops?", source, max_tokens=max_tokens)
    assert answer.text.replace(" [1]", "") == expected
    assert answer.text[slice(*answer.best)].replace(" [1]", "") == RESCUE
    assert proven(answer.text, source)


TWO_ROWS = "The answer shows 2 of 2 matching rows in the passages read"


def test_all_matching_rows_answer_with_a_notice() -> None:
    answer = answered("What is the total revenue of 2022?", block(REVENUE))
    assert answer.text == (
        "2022: Quarter: Q1; Revenue: 410 [1]. 2022: Quarter: Q2; Revenue: 455 [1]."
    )
    assert answer.warnings == (f"{TWO_ROWS}, and leaves out 2 that match less of the question.",)


def test_rows_with_another_question_word_do_not_match() -> None:
    rows = "PX24 | Ada | Inverness\nPO25 | Bo | Inverness\nYD23 | Pool vehicle | Leeds\n"
    source = block("Number | Driver | Base\n" + rows)
    answer = answered("Which vehicles are based in Inverness?", source)
    assert (
        answer.text
        == "PX24: Driver: Ada; Base: Inverness [1]. PO25: Driver: Bo; Base: Inverness [1]."
    )
    assert answer.warnings == (f"{TWO_ROWS}, and leaves out 1 that match less of the question.",)


@pytest.mark.parametrize("tail", ["?", ", and how much is it?"])
def test_rows_answer_extremes_whatever_the_title_says(tail: str) -> None:
    rows = ["Fees — Pitch: Van; Day: 31.", "Fees — Pitch: Pen (spring market); Day: 26."]
    source = block("\n\n".join(rows), subject="Rules of the Torvik Market")
    query = f"Which pitch at Torvik market has the highest fee{tail}"
    answer = answered(query, source)
    assert all(row in answer.text for row in ("Van; Day: 31", "Pen (spring market); Day: 26"))
    assert answer.warnings == (f"{TWO_ROWS}.",)


def test_comparison_quotes_both_subjects() -> None:
    text = "Selby was founded in 1410. Torvik was founded in 1622. Urdal was founded in 1350."
    assert answer_text("Is Selby older than Torvik?", block(text)) == (
        "Selby was founded in 1410 [1]. Torvik was founded in 1622 [1]."
    )


def test_missing_kind_is_an_abstention() -> None:
    text = "Halden Motors makes engines for boats. Halden Motors buys its steel abroad."
    assert answer_text("How many people work at Halden Motors?", block(text)) == ABSTENTION


def test_each_half_of_a_question_is_answered() -> None:
    blocks = [
        block("The bridge was built by Ada Corvin.", 0.6),
        block("The tower is 40 metres high.", 0.6, rank=2, name="tower.md"),
    ]
    query = "Who built the bridge, and how high is the tower?"
    assert answer_text(query, *blocks) == (
        "The bridge was built by Ada Corvin [1]. The tower is 40 metres high [2]."
    )


def forged() -> list[tuple[str, str]]:
    """Return wrong headings, cells of other rows and cells without a key, 60 in all."""
    headings = [
        f"{heading}: {sentence}"
        for heading, sentence in (
            ("minpoll", "The default value is 6."),
            ("minsamples", "The default is 6 (64 seconds)."),
            ("maxpoll", "The default is 6 (64 seconds)."),
            ("chrony.conf", "The default is 6 (64 seconds)."),
        )
    ]
    rows = [("Step 10", "Bolt loose", 6, "W1"), ("Step 20", "Seal torn", 7, "W2"),
            ("Step 30", "Bolt loose", 8, "W3")]  # fmt: skip
    names = ("Failure", "Severity", "Control")
    cells = [
        f"Step: {step}; {name}: {value}."
        for step, *values in rows
        for other, *foreign in rows
        for name, cell, value in zip(names, values, foreign, strict=True)
        if other != step and cell != value
    ]
    keyless = [
        f"{first}: {value}; {second}: {other}."
        for _, *values in rows
        for (first, value), (second, other) in permutations(zip(names, values, strict=True), 2)
    ]
    swapped = [f"Step: {row[0]}; Severity: {row[3]}; Control: {row[2]}." for row in rows]
    single = [f"{name}: {row[i]}." for row in rows for i, name in ((1, "Failure"), (2, "Severity"))]
    tables = [
        f"{year}: {cells}"
        for year in (2022, 2023)
        for cells in ("Quarter: Q1; Revenue: 600", "Quarter: Q2; Revenue: 541",
                      "Quarter: Q3; Revenue: 410", "Quarter: Q4; Revenue: 455")
    ]  # fmt: skip
    texts = [(text, OPTIONS) for text in headings]
    texts += [(text, STEPS) for text in (*cells, *keyless, *swapped, *single)]
    texts += [(text, REVENUE) for text in tables]
    return [*texts, *((f"{year}: Revenue: {value}", REVENUE) for year, value in
            ((2022, 541), (2022, 600), (2023, 410), (2023, 455), (2021, 410)))]  # fmt: skip


def test_forged_quotations_are_refused() -> None:
    attempts = forged()
    assert len(attempts) >= 60
    proofs = [text for text, source in attempts if find_quotation(text, source, ())]
    assert proofs == []


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("minpoll: The default is 6 (64 seconds).", OPTIONS),
        ("maxpoll: The default value is 6.", OPTIONS),
        ("Step: Step 20; Severity: 7.", STEPS),
        ("Severity: 7; Step: Step 20.", STEPS),
        ("Step 20: Control: W2; Failure: Seal torn", STEPS),
        ("2023: Revenue: 600; Quarter: Q4", REVENUE),
        ("2023: Revenue: 600", REVENUE),
    ],
)
def test_heading_or_cells_in_any_order_are_proven(text: str, source: str) -> None:
    assert find_quotation(text, source, ())
