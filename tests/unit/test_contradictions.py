"""What a sentence says otherwise than its source, rule by rule."""

import pytest

from docstokg.domain.answer.claims import align, read_claim
from docstokg.domain.answer.contradictions import differences, is_misplaced_number
from docstokg.domain.answer.verdicts import judge


def differing(claim: str, *sentences: str, heading: str = "") -> set[str]:
    alignment = align(read_claim(claim, judge().weigh), sentences, heading)
    return set(differences(alignment, sentences)[0])


SOURCE = (
    "Febrile seizures occur with fever in children under five years and are caused by infections."
)


@pytest.mark.parametrize(
    ("claim", "difference"),
    [
        ("Febrile seizures do not occur with fever in children.", "contradicted"),
        ("Febrile seizures never occur with fever.", "restriction_mismatch"),
        ("Only febrile seizures occur with fever in children.", "restriction_mismatch"),
        ("All febrile seizures occur with fever in children.", "restriction_mismatch"),
        ("Kidney stones occur with fever in children under five years.", "subject_mismatch"),
    ],
)
def test_a_claim_that_differs_is_told_how(claim: str, difference: str) -> None:
    assert difference in differing(claim, SOURCE)


@pytest.mark.parametrize(
    "claim",
    [
        "Febrile seizures occur with fever in children.",
        "Febrile seizures are caused by infections.",
        "Infections cause febrile seizures.",
    ],
)
def test_a_claim_in_other_order_or_voice_does_not_differ(claim: str) -> None:
    assert not differing(claim, SOURCE)


def test_the_direction_of_a_relation_counts() -> None:
    source = "Smoking causes lung cancer."
    assert "contradicted" in differing("Lung cancer causes smoking.", source)
    assert not differing("Lung cancer is caused by smoking.", source)
    assert "contradicted" in differing("Smoking is caused by lung cancer.", source)


def test_a_negation_in_another_clause_says_nothing_of_the_claim() -> None:
    source = "Seizures occurred in 26 of 27 patients, but no death was reported."
    assert not differing("Seizures occurred in 26 of 27 patients.", source)
    assert "contradicted" in differing("Seizures did not occur in patients.", source)


def test_the_heading_can_name_the_subject() -> None:
    source = "It is treated with carbamazepine and rest."
    claim = "Angelman syndrome is treated with carbamazepine and rest."
    assert "subject_mismatch" in differing(claim, source)
    assert not differing(claim, source, heading="Angelman syndrome")


def test_a_number_belongs_to_what_its_clause_says() -> None:
    sentences = ["1233 patients show developmental delay, 870 patients show hypotonia."]
    judged = judge()
    wrong = align(read_claim("870 patients show developmental delay.", judged.weigh), sentences)
    right = align(read_claim("1233 patients show developmental delay.", judged.weigh), sentences)
    assert is_misplaced_number(wrong, sentences)
    assert not is_misplaced_number(right, sentences)


EXIT = (
    "If the command times out, then exit with status 124.",
    "EXIT status: 124 if COMMAND times out",
    "126    if COMMAND is found but cannot be invoked",
    "127    if COMMAND cannot be found",
)


def test_a_number_belongs_to_its_row() -> None:
    def misplaced(claim: str) -> bool:
        alignment = align(read_claim(claim, judge().weigh), EXIT, "timeout")
        return is_misplaced_number(alignment, EXIT)

    assert misplaced("timeout exits with 137 if the command is found but cannot be invoked.")
    assert not misplaced("timeout exits with 126 if the command is found but cannot be invoked.")


def doubted(claim: str, *sentences: str, heading: str = "") -> bool:
    alignment = align(read_claim(claim, judge().weigh), sentences, heading)
    return bool(differences(alignment, sentences)[1])


@pytest.mark.parametrize(
    "claim",
    [
        "tar -x creates a new archive.",
        "git stash deletes the repository.",
        "strace kills the traced process.",
    ],
)
def test_who_does_what_must_be_said(claim: str) -> None:
    sources = (
        "tar -x [-f ARCHIVE] [OPTIONS] [MEMBER...]",
        "Use git stash to get entries that are still in your repository.",
        "A traced process runs slowly under strace.",
    )
    assert doubted(claim, *sources)


def test_another_verb_for_the_same_is_no_doubt() -> None:
    assert not doubted("sort -u removes duplicate lines.", "sort -u discards duplicate lines.")
    assert not doubted("Staging requires imaging.", "For staging, imaging is needed.")


def test_a_list_needs_no_verb_to_say_what_occurs() -> None:
    source = (
        "Abnormalities of Angelman syndrome are absent speech and seizure in 26 of 27 patients."
    )
    assert not doubted("Seizures occur in 26 of 27 patients with Angelman syndrome.", source)
    assert doubted("Tissue outside of nodes occurs in lymphoma.", "Lymphoma is in tissue outside.")


OPTIONS = (
    "-c, --create\n       Create a new archive.",
    "Directories are archived recursively.",
    "-x, --extract, --get\n       Extract files from an archive.",
)


def test_what_stands_below_an_option_is_said_of_it() -> None:
    assert doubted("tar -x creates a new archive.", *OPTIONS)
    assert not differing("tar -c creates a new archive.", *OPTIONS)
    assert "subject_mismatch" in differing("tar -x archives directories recursively.", *OPTIONS)


def test_a_passive_needs_no_by() -> None:
    source = "Accurate imaging is needed to diagnose bone cancer."
    assert not differing("Bone cancer is diagnosed using accurate imaging.", source)


def test_not_every_denies_nothing() -> None:
    source = "Symptoms include urgency and pain, not every person has all symptoms of them."
    assert not differing("Symptoms include urgency and pain.", source)


def test_an_aside_in_brackets_does_not_end_the_clause_of_a_number() -> None:
    source = (
        "Niceness values range from -20 (most favourable to the process) to 19 (least favourable "
        "to the process)."
    )
    read = align(read_claim("Niceness values range from -20 to 19.", judge().weigh), [source], "")
    assert not is_misplaced_number(read, [source])
    wrong = align(read_claim("Niceness values range from 0 to 100.", judge().weigh), [source], "")
    assert is_misplaced_number(wrong, [source])


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        (
            "ln makes symbolic links by default.",
            "Make hard links by default, symbolic links with -s.",
        ),
        (
            "tee reads from a file and writes to standard input.",
            "tee - read from standard input and write to standard output and files",
        ),
    ],
)
def test_what_two_like_clauses_say_apart_is_not_said_together(claim: str, source: str) -> None:
    assert doubted(claim, source)


def test_a_claim_of_both_clauses_is_not_doubted() -> None:
    source = "ln makes hard links by default, symbolic links with -s."
    assert not doubted("ln makes hard links by default and symbolic links with -s.", source)
    assert not doubted("ln makes hard links by default.", source)


@pytest.mark.parametrize(
    ("claim", "elsewhere"),
    [
        ("Fever (YY:0013) was seen in 26 of 27 patients with Orlow disease (XX:0001).", False),
        (
            "Signs are Mild cough (YY:0011) in 27 of 27 and Fever (YY:0013) in 26 of 27 patients.",
            False,
        ),
        (
            "Hoarse voice (YY:0012) was seen in 26 of 27 patients with Orlow disease (XX:0001).",
            True,
        ),
        ("Fever (YY:0013) was seen in 25 of 27 patients with Orlow disease (XX:0001).", True),
        ("Fever was seen in 26 of 27 patients with Orlow disease.", False),
        ("Hoarse voice was seen in 26 of 27 patients with Orlow disease.", True),
    ],
)
@pytest.mark.parametrize("heading", ["XX:0001 Orlow disease Fever", ""])
def test_each_figure_of_a_list_belongs_to_its_item(
    claim: str, heading: str, *, elsewhere: bool
) -> None:
    source = (
        "Signs of Orlow disease (XX:0001) are Mild cough (YY:0011) in 27 of 27 patients (ZZ:8),"
        " Hoarse voice (YY:0012) in 25 of 27 patients (ZZ:8) and Fever (YY:0013) in 26 of 27"
        " patients (ZZ:8)."
    )
    aligned = align(read_claim(claim, judge().weigh), [source], heading)
    assert is_misplaced_number(aligned, [source]) is elsewhere


def test_all_of_them_is_not_stated_by_some_of_them() -> None:
    source = "Signs of Orlow disease are coughs in 27 of 27 and fever in 26 of 27 patients."
    for said, elsewhere in (("26 of 27", False), ("27 of 27", True), ("27 of the 27", True)):
        claim = f"Fever was seen in {said} patients with Orlow disease."
        aligned = align(read_claim(claim, judge().weigh), [source], "")
        assert is_misplaced_number(aligned, [source]) is elsewhere


def test_what_leads_a_list_may_be_its_first_item() -> None:
    source = "Seizures are in 26 of 27 patients, coughs are in 25 of 27 patients."
    wrong = align(read_claim("Seizures are in 25 of 27 patients.", judge().weigh), [source], "")
    right = align(read_claim("Seizures are in 26 of 27 patients.", judge().weigh), [source], "")
    assert is_misplaced_number(wrong, [source])
    assert not is_misplaced_number(right, [source])


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("A brick serves as a paperweight.", "A brick is a paperweight, too."),
        ("The river originates from two springs.", "The river develops from two springs."),
        ("The lamp is cleaned with soap and warm vinegar.", "The lamp is washed on Mondays."),
    ],
)
def test_other_words_for_the_same_raise_no_doubt(claim: str, source: str) -> None:
    sentences = (source, "A drawer holds the soap.")
    alignment = align(read_claim(claim, judge().weigh), sentences)
    assert differences(alignment, sentences) == ((), ())


@pytest.mark.parametrize(
    ("claim", "sentences"),
    [
        (
            "Measles is diagnosed using a blood test.",
            ("For those who have not been diagnosed yet, a blood test tells if it is measles.",),
        ),
        (
            "Measles most often begins with a rash.",
            ("Measles is an infection.", "It is spread by coughs.", "It often begins with a rash."),
        ),
        ("chage is only for root.", ("The chage command is restricted to the root user.",)),
    ],
)
def test_conditions_and_what_is_called_it_here_contradict_nothing(
    claim: str, sentences: tuple[str, ...]
) -> None:
    assert not differing(claim, *sentences)


def doubts(claim: str, *sentences: str) -> tuple[str, ...]:
    alignment = align(read_claim(claim, judge().weigh), sentences)
    return differences(alignment, sentences)[1]


@pytest.mark.parametrize(
    ("claim", "source", "true"),
    [
        (
            "A rash is the most common sign of flu.",
            "Flu has signs: a rash is rare and a cough is common.",
            "A rash is a sign of flu.",
        ),
        (
            "Level z turns on loop vectorization.",
            "Level z: optimize for size and turn off loop vectorization.",
            "Level z turns off loop vectorization.",
        ),
        (
            "All packages have their own lock file.",
            "All packages share a common lock file.",
            "All packages share a lock file.",
        ),
        (
            "ln -s makes hard links.",
            "ln -s makes symbolic links instead of hard links.",
            "ln -s makes symbolic links.",
        ),
    ],
)
def test_what_a_source_says_otherwise_in_few_words_is_doubted(
    claim: str, source: str, true: str
) -> None:
    assert "contradiction_suspected" in doubts(claim, source)
    assert not doubts(true, source)


def test_what_one_function_does_is_not_said_of_another() -> None:
    source = "load_settings() reads variables from a file and sets them in the environment."
    assert "subject_mismatch" in differing("read_values sets variables in the environment.", source)
    assert not differing("load_settings sets variables in the environment.", source)


def test_a_stage_is_another_one_by_its_number() -> None:
    sentences = ("Stage 4 is the last.", "It is rare.", "The disease has spread by then.")
    assert "subject_mismatch" in differing("Stage 12 disease has spread.", *sentences)
