"""Quotable units of a passage with the text above them; never a heading or a question."""

from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer.parts import LONGEST, parts, units

TABLE = """## Limits

| step | asks for | keeps back |
|---|---|---|
| retrieve | 3.0 | 0.25 |
| expand | 1.5 | |
"""
PLAIN_TABLE = "Allowances\n\nCountry | Meals\nNorway | 56 euros\nSpain | 32 euros\n"
RECORD = "part: S-1\nshelf: B12\nsupplier: Nordpak\n"
STEPS = "## Gateway silent\n\n1. Look at the page.\n2. Restart it.\n"
KINDS = "It comes in two kinds:\n- fast\n- slow and steady\n\nThat is all there is.\n"
MANUAL = """## OPTIONS

       -p pid
       --attach=pid
              Attach to the process with this ID. The trace ends at a keyboard interrupt.
"""
CODE = "Undo a commit:\n\n```sh\ntool reset --soft HEAD^\n```\n\nNothing else is changed by that.\n"
QUESTIONS = "## May I use it for beer?\n\nYes, with the other seal. It is in the box.\n"
FUNCTION = "### `os.freemem()`\n\n<!-- YAML\nadded: v1\n-->\n\nReturns the amount of free memory.\n"


def unit_texts(text: str) -> list[str]:
    return [unit.text for unit in units(text)]


def test_rows_are_read_with_their_column_names() -> None:
    assert unit_texts(TABLE) == [
        "retrieve: asks for: 3.0; keeps back: 0.25",
        "expand: asks for: 1.5",
    ]
    assert {unit.above for unit in units(TABLE)} == {"Limits"}
    assert unit_texts(PLAIN_TABLE) == ["Norway: Meals: 56 euros", "Spain: Meals: 32 euros"]


def test_struck_out_text_is_not_quoted() -> None:
    text = "The sail is ~~70~~ 85 euros. The boat is <del>9</del> 8 euros.\n\n~~It was 7 euros.~~\n"
    assert unit_texts(text) == ["The sail is 85 euros.", "The boat is 8 euros."]


def test_a_record_on_a_line_is_a_row() -> None:
    (row, sentence) = units("Choir: Altos; 2021: 17.\n\nNote: the choir sings; it is loud.\n")
    assert (row.kind, row.fields) == ("row", (("Choir", "Altos"), ("2021", "17.")))
    assert sentence.kind == "sentence"


def test_column_names_may_have_signs_and_the_table_a_name() -> None:
    (row,) = units("Rates, per year — Term: 2 years; €1,000 to €9,999: 2 %; Size [m²]: 4.\n")
    assert row.fields == (
        ("Rates, per year — Term", "2 years"),
        ("€1,000 to €9,999", "2 %"),
        ("Size [m²]", "4."),
    )
    (sentence,) = units("Call it `a: b; c: d` or {x: 1; y: 2}; nothing else works.\n")
    assert sentence.kind == "sentence"


def test_a_letter_before_a_definition_is_no_speaker() -> None:
    assert unit_texts("Q: heat flow in watts.\nA: area of the wall.\n") == [
        "Q: heat flow in watts.",
        "A: area of the wall.",
    ]
    assert unit_texts("Q: Is it old?\nA: Since 1990, they say.\n") == ["Since 1990, they say."]


def test_brief_sentences_keep_their_question_within_a_limit() -> None:
    pieces = parts("When is the gate open? From dawn. Not on Sunday. It is blue.")
    assert pieces[-1].before == "When is the gate open? From dawn. Not on Sunday."
    long_parts = parts("Why? " + "It is so. " * 999)
    assert max(len(part.before) for part in long_parts) < LONGEST + 20


def test_a_record_is_one_row() -> None:
    assert unit_texts(RECORD) == ["part: S-1; shelf: B12; supplier: Nordpak"]


def test_lists_stand_whole_with_announcement_and_by_entry() -> None:
    assert unit_texts(KINDS) == [
        "It comes in two kinds: fast; slow and steady.",
        "slow and steady",
        "That is all there is.",
    ]
    assert unit_texts(STEPS)[0] == "Gateway silent: Look at the page; Restart it."


def test_an_option_is_quoted_with_its_description() -> None:
    first, second = units(MANUAL)
    assert first.text == "-p pid --attach=pid Attach to the process with this ID."
    assert second.text == "The trace ends at a keyboard interrupt."
    assert "--attach=pid" in second.before


def test_function_descriptions_have_their_name_without_comments() -> None:
    (unit,) = units(FUNCTION)
    assert (unit.text, unit.above) == ("Returns the amount of free memory.", "`os.freemem()`")


def test_sentences_keep_abbreviations_that_look_like_list_marks() -> None:
    assert unit_texts("It is text (i.e. not binary) in b. small letters.\n") == [
        "It is text (i.e. not binary) in b. small letters."
    ]


def test_code_is_whole_under_its_introducing_line() -> None:
    code, prose = units(CODE)
    assert (code.kind, code.text, code.above) == (
        "code",
        "tool reset --soft HEAD^",
        "Undo a commit:",
    )
    assert prose.above == ""
    indented = "To restore it, add this to the file:\n\n  QoS af21 cs1\n\nThat is all of it.\n"
    assert [unit.kind for unit in units(indented)] == ["code", "sentence"]


def test_a_line_of_yaml_has_the_names_above_it() -> None:
    text = (
        "depot: Veska\nlimits:\n  tries: 4   # of each call\n"
        ' # for all\n  web:\n    image: box:1.2\n    title: "Ticket #7"\nlast:\n'
    )
    assert [(unit.kind, unit.text) for unit in units(text)] == [
        ("row", "depot: Veska"),
        ("row", "limits.tries: 4"),
        ("row", "limits.web.image: box:1.2"),
        ("row", 'limits.web.title: "Ticket #7"'),
    ]
    (hours,) = units("Opening hours:\n  Monday: from 9 to 17\n  on Sunday closed")
    assert hours.kind == "sentence"


def test_a_line_of_toml_or_ini_has_the_name_of_its_section() -> None:
    text = (
        '[depot]\ncows=4\nmilk = 31  # litres\n; of each\n\n[depot.hut]\ndoor = "red"\nroof = 2\n'
    )
    assert [(unit.kind, unit.text) for unit in units(text)] == [
        ("row", "depot.cows=4"),
        ("row", "depot.milk = 31"),
        ("row", 'depot.hut.door = "red"'),
        ("row", "depot.hut.roof = 2"),
    ]
    (sentence,) = units("The sum of both is\na = b + c in each year.")
    assert sentence.kind == "sentence"
    code = units("Feed the cows like this\n\n    cow = Cow(4)\n    feed = cow.eat(hay)\n")
    assert [unit.text for unit in code][-2:] == ["cow = Cow(4)", "feed = cow.eat(hay)"]
    assert unit_texts("#cows of the depot\n#milk of each cow\n") != []


def test_headings_and_questions_stay_above_never_quoted() -> None:
    first, second = units(QUESTIONS)
    assert first.text == "Yes, with the other seal."
    assert first.above == second.above == "May I use it for beer?"
    assert (first.before, second.before) == (first.above, f"{first.above} {first.text}")


def test_rules_after_a_blank_line_make_no_heading() -> None:
    assert unit_texts("It begins here. It rings at 8:15 each day.\n\n---\n\nThat is the end.") == [
        "It begins here.",
        "It rings at 8:15 each day.",
        "That is the end.",
    ]
    assert unit_texts("It rings at 8:15 each day\n---\n\nThat is the end.") == ["That is the end."]


@given(st.text(alphabet=list("ab.:`-#*|=? \n~1\t"), max_size=300))
def test_units_are_stretches_of_the_text(text: str) -> None:
    for unit in units(text):
        assert 0 <= unit.start < unit.end <= len(text)
        assert 0 < len(unit.text) <= LONGEST
        assert not unit.text.rstrip().endswith("?")
