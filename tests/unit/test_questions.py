"""What a question asks for decides which sentence answers it, where words and nearness do not."""

import pytest

from docstokg.contracts.state import Block
from docstokg.domain.answer import extractive, relevance
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.text.sentences import sentence_spans


def block(text: str, *cosines: float, rank: int = 1, name: str = "notes.md") -> Block:
    """A passage whose sentences are so near to the question; the last cosine is the rest's."""
    spans = sentence_spans(text)
    near = (*cosines, *(cosines[-1:] * len(spans)))[: len(spans)]
    return Block(
        rank=rank,
        uuid=f"u{rank}",
        text=text,
        document_name=name,
        relevance=round(10 * relevance.from_cosine(max(near))),
        sentences=spans,
        cosines=near,
    )


def answer(query: str, *blocks: Block) -> str:
    return extractive.answer(query, blocks, 512)


@pytest.mark.parametrize(
    "told",
    [
        "A linked tree is a copy of the work that has a place of its own.",
        'This new tree is called a "linked tree" as opposed to the main one.',
        "Linked trees (copies) are the ones that have another place.",
    ],
)
def test_what_says_what_a_thing_is_comes_before_what_mentions_it(told: str) -> None:
    mentions = "Each linked tree has a private folder in the folder of the main one."
    said = answer("What is a linked tree?", block(f"{mentions} {told}", 0.65, 0.55))
    assert said.startswith(told.rstrip("."))


def test_what_a_command_does_is_said_by_what_speaks_of_it() -> None:
    text = (
        "description: Check the packages\n\n"
        "Where no check of packages is wanted, set the audit level to none.\n\n"
        "The audit command asks a registry for known weaknesses of packages.\n"
    )
    said = answer("What does audit of packages do?", block(text, 0.6, 0.65, 0.6))
    assert said == "The audit command asks a registry for known weaknesses of packages [1]."


def test_the_first_words_below_a_title_say_what_that_is() -> None:
    text = (
        "# Class: Pool\n\nA set of clients that share one target.\n\n"
        "## New\n\n* options of the pool, if any"
    )
    assert answer("What is a pool?", block(text, 0.5, 0.5, 0.6)).startswith("A set of clients")


def test_code_that_only_loads_shows_nothing() -> None:
    text = (
        "Delete a cookie.\n\n"
        "```\nimport { deleteCookie } from 'jar'\nimport { x } from 'delete-cookie'\n```\n\n"
        "And then:\n\n```\ncookie.delete('name')\ncookie.close()\n```\n"
    )
    said = answer("How do I delete a cookie?", block(text, 0.4, 0.6, 0.5, 0.5))
    assert "cookie.delete" in said
    assert "import" not in said


def test_a_second_sentence_answers_a_comparison_only_as_the_other_side_of_it() -> None:
    text = (
        "Like clean, autoclean clears out the store of packages that were fetched.\n\n"
        "The tool stops when packages of the store would go without a question."
    )
    said = answer("What is the difference between tool clean and autoclean?", block(text, 0.8, 0.4))
    assert said.count("[1]") == 1
    assert said.startswith("Like clean")


def test_a_name_of_programs_that_is_asked_about_stands_in_the_answer() -> None:
    question = "What does find_thing do when no mode of search is given?"
    other = "The search of a mode is given up when no name was found for it."
    own = "Without one, find_thing looks in both places."
    assert answer(question, block(f"{other} {own}", 0.6, 0.5)).startswith("Without one")


def test_this_option_without_its_name_is_no_option() -> None:
    text = (
        "Note - this option does not work if --hidden was given, as hidden files have no size.\n\n"
        "-a, --all\n  Shows hidden files too."
    )
    said = answer("Engine option shows hidden files?", block(text, 0.65, 0.55))
    assert said.startswith("-a, --all Shows hidden files too")


def test_what_an_option_does_is_said_first() -> None:
    text = (
        "-U\n  --defined-only\n  Display only defined symbols.\n"
        "  By default both defined and undefined symbols are displayed.\n\n"
        "-u\n  --undefined-only\n  Display only undefined symbols.\n"
    )
    said = answer("Engine option shows undefined symbols?", block(text, 0.62, 0.72, 0.55))
    assert said == "-u --undefined-only Display only undefined symbols [1]."


def test_another_option_does_not_stand_behind_the_one_that_answers() -> None:
    text = "-u\n  Shows symbols without a definition.\n\n-v\n  Shows the version of ferret.\n"
    said = answer("Engine ferret option shows symbols?", block(text, 0.6, 0.59))
    assert said == "-u Shows symbols without a definition [1]."


@pytest.mark.parametrize(
    "beside",
    [
        "description: Retire a version of a package",
        "If you retire a package and wonder who can, see the notes about that.",
        "The following example retires a package and then says who can.",
        "The next chapter describes how to retire a package and who can.",
        "Who can retire a package is described in the [package][] section.",
        "Who can retire a package is told by the following people.",
    ],
)
def test_what_only_names_or_refers_does_not_answer(beside: str) -> None:
    text = f"{beside}\n\nYou must own a package to retire it."
    assert answer("Who can retire a package?", block(text, 0.75, 0.6)) == (
        "You must own a package to retire it [1]."
    )


def test_code_answers_what_asks_for_something_to_write() -> None:
    text = (
        "A scope groups packages that belong together.\n\nFor example:\n\n"
        "```\nadd @scope/package\nadd @scope/other\n```\n"
    )
    said = answer("Why do packages have a scope?", block(text, 0.6, 0.7))
    assert said == "A scope groups packages that belong together [1]."
    assert "```" in answer("How do I add packages of a scope?", block(text, 0.6, 0.7))


def test_what_is_so_by_default_stands_with_what_it_is_the_default_of() -> None:
    text = (
        "- **tries** `number` - Most times that a call is tried again. Default: `5`\n"
        "- **wait** `number` - Most milliseconds before the next try. Default: `30000`\n"
    )
    said = answer("How many times is a call tried again by default?", block(text, 0.6))
    assert said.startswith("**tries** `number`")
    assert "Default: `5`" in said
    assert "30000" not in said


CALLS = """### `timer.ref()`

* Returns: {Timer} a reference to `timer`

Calling `timer.ref()` many times does the same as once to `timer`.

### `timer.unref()`

* Returns: {Timer} a reference to `timer`

When called, the timer will not keep the process alive.
"""


def test_what_a_function_does_stands_below_its_name() -> None:
    said = answer("What does timer.unref() do?", block(CALLS, 0.5, 0.6, 0.62, 0.5, 0.6, 0.5))
    assert said == "When called, the timer will not keep the process alive [1]."


def test_a_function_that_is_asked_about_is_named_by_what_answers() -> None:
    text = "A name is looked up by `net.find()` at once. It is `net.lookup()` that asks the system."
    said = answer("How does net.lookup look a name up?", block(text, 0.7, 0.6))
    assert said.startswith("It is `net.lookup()`")


def test_one_sentence_that_tells_two_things_apart_answers_alone() -> None:
    both = "The `runFile()` function is similar to `run()` except that it starts no shell."
    text = f"{both} The options of `run()` are supported. What `runFile()` takes is a list."
    said = answer("What is the difference between run and runFile?", block(text, 0.6, 0.5, 0.5))
    assert said == f"{both.rstrip('.')} [1]."


def test_what_the_difference_is_stands_with_what_is_alike() -> None:
    text = (
        "Like clean, autoclean clears the store of fetched packages. The\n  difference is that it "
        "only removes what can no longer be fetched."
    )
    said = answer("What is the difference between clean and autoclean?", block(text, 0.8, 0.5))
    assert said.endswith(
        "The difference is that it only removes what can no longer be fetched [1]."
    )


def test_a_word_for_any_doing_need_not_stand_in_the_passages() -> None:
    text = "The command updates the entry of a package, removing all warnings of deprecation."
    assert answer("How do I undo a deprecation?", block(text, 0.46)) != ABSTENTION
    assert answer("How do I paint a deprecation?", block(text, 0.46)) == ABSTENTION


def test_three_dots_in_brackets_stay_three() -> None:
    text = "To take a file out of an archive, call tar with its name [MEMBER...]"
    assert "[MEMBER...] [1]" in answer("How do I take a file out of an archive?", block(text, 0.7))


def test_nothing_near_stays_silence() -> None:
    text = "A linked tree is a copy of the work."
    assert answer("What is a toolchain?", block(text, 0.2)) == ABSTENTION
