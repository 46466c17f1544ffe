"""What can be quoted by itself stays whole: options, lists after a colon, code."""

from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer.units import LONGEST, Unit, units
from docstokg.domain.text.sentences import sentence_spans

MANUAL = """OPTIONS
       -k, --keep
              Keep (don't delete) input files. This option is off by default.
              Files are named as before.

       Other text. It goes on.
"""
CODE = """## Save the state

Save cookies and storage:

```bash
# to a file with a name made for it
tool save

# to your own
tool save my.json
```

Then close it.
"""
LIST = "It comes in two kinds:\n- fast\n- slow and steady\n\nNothing else is known."


def found(text: str) -> list[tuple[str, Unit]]:
    return [(text[u.start : u.end], u) for u in units(text, sentence_spans(text))]


def test_an_option_keeps_what_it_does() -> None:
    rows = found(MANUAL)
    assert rows[0][0].split()[:4] == ["-k,", "--keep", "Keep", "(don't"]
    assert rows[0][0].endswith("This option is off by default.")
    assert (rows[0][1].option, rows[0][1].lead) == ("-k, --keep", "")
    assert rows[1][0] == "Files are named as before."
    assert (rows[1][1].option, rows[1][1].lead) == ("-k, --keep", "-k, --keep")
    assert [(text, unit.option, unit.leaning) for text, unit in rows[2:]] == [
        ("Other text.", "", False),
        ("It goes on.", "", True),
    ]


def test_code_is_one_piece_with_the_line_that_introduces_it() -> None:
    ((text, unit),) = [row for row in found(CODE) if row[1].kind == "code"]
    assert text.splitlines()[0] == "# to a file with a name made for it"
    assert text.splitlines()[-1] == "tool save my.json"
    assert unit.lead == "Save cookies and storage:"
    assert "Save the state" not in [row[0] for row in found(CODE)], "a heading says nothing"


def test_long_code_is_taken_by_paragraphs() -> None:
    text = "```\n" + "\n\n".join(f"command {n} " + "x" * 200 for n in range(4)) + "\n```"
    pieces = [row[0] for row in found(text)]
    assert [piece.split()[1] for piece in pieces] == ["0", "1", "2", "3"]


def test_a_list_belongs_to_what_it_lists() -> None:
    whole = [text for text, unit in found(LIST) if len(unit.parts) > 1]
    assert whole == ["It comes in two kinds:\n- fast\n- slow and steady"]


@given(st.text(alphabet=list("ab.:`-#* \n~1\t"), max_size=300))
def test_units_are_stretches_of_the_text(text: str) -> None:
    spans = sentence_spans(text)
    for unit in units(text, spans):
        assert 0 <= unit.start < unit.end <= len(text)
        assert unit.parts
        assert all(0 <= part < len(spans) for part in unit.parts)
        assert unit.kind == "prose" or unit.end - unit.start <= LONGEST


def test_an_option_is_one_with_what_stands_below_a_blank_line() -> None:
    text = "**--soft**\n\n   Leaves the files alone. It is quick.\n\n`-m, --mixed`\n\nResets it.\n"
    rows = found(text)
    assert [(one.split()[0], one.split()[-1], unit.option) for one, unit in rows] == [
        ("**--soft**", "alone.", "--soft"),
        ("It", "quick.", "--soft"),
        ("`-m,", "it.", "-m, --mixed"),
    ]
    assert [one for one, _ in found("-x\n\n-y\n")] == ["-x", "-y"], "nothing says what -x does"


def test_units_know_the_title_above_them() -> None:
    ((_, unit),) = found("## Rules\n\nEach value has an owner.")
    assert unit.heading == "Rules"


SPHINX = """Options
^^^^^^^

.. option:: -j <jobs>, --parallel <jobs>

 Run the tests in parallel.

 It can be set by :envvar:`PARALLEL` too.

.. option:: --junit <file>

 .. versionadded:: 3.21

 Write results as JUnit does.

.. function:: find_path(name, *more)

   Look for a file in the usual places.

For instance:

.. code-block:: cmake

  # It is found.
  find_path(a)

  find_path(b)

Nothing else is said.
"""


def test_what_a_directive_describes_stands_with_its_description() -> None:
    rows = [(" ".join(text.split()), u.kind, u.lead, u.option, u.head) for text, u in found(SPHINX)]
    jobs, junit = "-j <jobs>, --parallel <jobs>", "--junit <file>"
    assert rows == [
        (f"{jobs} Run the tests in parallel.", "prose", "", jobs, jobs),
        ("It can be set by :envvar:`PARALLEL` too.", "prose", jobs, jobs, ""),
        ("Write results as JUnit does.", "prose", junit, junit, junit),
        (
            "Look for a file in the usual places.",
            "prose",
            "find_path(name, *more)",
            "",
            "find_path",
        ),
        ("# It is found. find_path(a) find_path(b)", "code", "For instance:", "", ""),
        ("Nothing else is said.", "prose", "", "", ""),
    ]
    assert {unit.heading for _, unit in found(SPHINX)} == {"Options"}


def test_what_something_is_called_stands_with_what_it_is() -> None:
    text = "A file may do without the section. This is called a virtual file. It is rare."
    assert [stretch for stretch, _ in found(text)] == [
        "A file may do without the section. This is called a virtual file.",
        "It is rare.",
    ]


def test_a_bare_name_stands_with_what_it_is() -> None:
    text = "The sixth field (passno). This field gives the order. The seventh (none). Nobody knows."
    assert [stretch for stretch, _ in found(text)] == [
        "The sixth field (passno). This field gives the order.",
        "The seventh (none).",
        "Nobody knows.",
    ]


def test_code_at_the_start_of_a_passage_is_as_deep_as_what_closes_it() -> None:
    """The space before its first line is no part of a passage."""
    text = "fn half(n: u32) -> u32 {\n        let m = n / 2;\n        m;\n    }"
    assert found(text)[0][1].shown == "fn half(n: u32) -> u32 {\n    let m = n / 2;\n    m;\n}"
    nested = "if (a) {\n  b();\n  c();\n}"
    assert found(nested)[0][1].shown == nested
    hanging = "names = {\n    1: {};\n    2: {};\n    }"
    assert found(hanging)[0][1].shown == hanging
    below = "The same:\n\n    if (a) {\n            b();\n            c();\n        }\n"
    assert found(below)[0][1].shown == "if (a) {\n        b();\n        c();\n    }"
