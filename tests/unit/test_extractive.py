"""The built-in model: rows, definitions, options and comparisons are answers; nothing else is."""

import pytest

from docstokg.contracts.state import Block, OtherName
from docstokg.domain.answer import extractive, questions, relevance, tables
from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.quoting import as_read
from docstokg.domain.answer.units import units
from docstokg.domain.text.sentences import sentence_spans
from docstokg.usecases.check_answer import check_answer

LIMITS = """| step | asks for at most, s | keeps back |
|---|---|---|
| retrieve | 3.0 | 0.25 |
| expand | 1.5 | 0.3 |
| empty | | |
"""
WORDS = """| plan | what validate decided for all later steps |
| pool | everything retrieval found, at most 220 |
"""
KINDS = """Simple seizure (HP:1): A seizure that lasts a few minutes and does not come back.

Complex seizure (HP:2): A seizure of more than a quarter of an hour, or one that comes back.

Both kinds of seizure frighten parents who see them for the first time.
"""
MANUAL = """OPTIONS
       -p pid
       --attach=pid
              Attach to the process with this ID and begin to trace it. The trace ends at
              a keyboard interrupt. The process goes on to run after that.
"""
NOTES = """Undo a commit and do it again

               $ tool reset --soft HEAD^
               $ tool commit

Nothing else is changed by that.
"""


def block(text: str, cosine: float = 0.3, rank: int = 1, name: str = "notes.md") -> Block:
    spans = sentence_spans(text)
    return Block(
        rank=rank,
        uuid=f"u{rank}",
        text=text,
        document_name=name,
        relevance=round(10 * relevance.from_cosine(cosine)),
        sentences=spans,
        cosines=(cosine,) * len(spans),
    )


def answer(query: str, *blocks: Block) -> str:
    return extractive.answer(query, blocks, 512)


def test_a_row_is_read_with_the_names_of_its_columns() -> None:
    said = answer("How long may the expand step take?", block(LIMITS))
    assert said == "expand: asks for at most, s: 1.5; keeps back: 0.3 [1]."


def test_a_row_without_its_head_still_says_what_its_first_cell_is() -> None:
    said = answer("What is a pool?", block(WORDS, 0.1))
    assert said == "pool: everything retrieval found, at most 220 [1]."


def test_a_row_that_is_read_aloud_counts_as_quoted() -> None:
    given = block(LIMITS)
    checked = check_answer(answer("How long may the expand step take?", given), [given])
    assert checked.grounding is not None
    assert [s.verdict for s in checked.grounding.sentences] == ["supported"]
    assert checked.grounding.sentences[0].support == 1.0
    changed = check_answer("expand: asks for at most, s: 2.5; keeps back: 0.3 [1].", [given])
    assert changed.grounding is not None
    assert changed.grounding.sentences[0].verdict != "supported"


def test_rows_without_a_value_and_lines_that_are_no_rows_say_nothing() -> None:
    assert tables.readings(["| empty | | |", "no row", "|---|---|", "| only |"]) == ()
    assert tables.row("| a | b \\| c |", ()) == "a: b | c"


@pytest.mark.parametrize(
    ("query", "term"),
    [
        ("What is a pool?", {"pool"}),
        ("What does degraded reason mean?", {"degrad", "reason"}),
        ("define seizure", {"seizur"}),
        ("How long may a step take?", set()),
        ("What are the signs and the first treatment of it?", set()),
    ],
)
def test_what_a_question_wants_explained(query: str, term: set[str]) -> None:
    assert questions.asked_term(query) == term


def test_only_a_line_about_the_term_itself_defines_it() -> None:
    spans = sentence_spans(WORDS)
    assert questions.defines(frozenset({"pool"}), WORDS, spans)
    assert not questions.defines(frozenset({"retrieval"}), WORDS, spans)
    glossary = "**Pool**: all that was found.\n**Plan**: what was decided."
    assert questions.defines(frozenset({"pool"}), glossary, sentence_spans(glossary))


def test_a_difference_is_one_quotation_of_each_side() -> None:
    said = answer("What is the difference between simple and complex seizures?", block(KINDS, 0.6))
    assert said.startswith("Simple seizure (HP:1): A seizure that lasts a few minutes")
    assert "Complex seizure (HP:2):" in said
    assert "frighten" not in said


def test_what_an_option_does_stands_with_its_names() -> None:
    said = answer("Can I trace a process that goes on to run?", block(MANUAL, 0.5))
    assert said.startswith("-p pid --attach=pid Attach to the process")
    assert "goes on to run" in said


def test_commands_of_plain_text_are_code_under_their_title() -> None:
    said = answer("How do I undo my last commit?", block(NOTES, 0.5, name="tool.txt"))
    assert said == (
        "Undo a commit and do it again [1]:\n\n```\n$ tool reset --soft HEAD^\n$ tool commit\n```\n"
    )


def test_of_two_sentences_alike_the_shorter_answers() -> None:
    short = "The lamp lasts about nine years."
    long = (
        "Besides frame, handle, wheels, saddle, brakes, chain, pedals, cables, mirrors and bell, "
        "which differ between models and markets, the lamp lasts about nine years."
    )
    assert answer("How long does the lamp last?", block(f"{long} {short}", 0.5)).startswith(
        short[:-1]
    )


def test_a_short_question_with_a_word_that_stands_nowhere_is_not_answered() -> None:
    signs = "Signs of epilepsy are seizures in 19 of 19 patients and fatigue in 3 of 19 patients."
    assert answer("How is epilepsy treated?", block(signs, 0.47)) == ABSTENTION
    treated = "Epilepsy is treated with medicine that prevents seizures."
    assert answer("How is epilepsy treated?", block(treated, 0.47)) != ABSTENTION
    named = "Status epilepticus is also called prolonged seizure."
    assert answer("How is epilepsy treated?", block(named, 0.55)) == ABSTENTION, "near, no word"
    other = (OtherName(in_question="epilepsy", in_passage="seizure"),)
    kinds = block("Status epilepticus is a kind of seizure.", 0.55)
    kinds = kinds.model_copy(update={"other_names": other})
    assert answer("How is epilepsy treated?", kinds) == ABSTENTION, "near by its other name only"


GZIP = """       --rsyncable
              When you synchronize a large compressed file between two computers, this option
              allows rsync to transfer only files that were changed in the archive.
"""
RULES = """## Ownership rules

First, let's take a look at the rules of ownership. Keep them in mind:

- Each value has an owner.
- There is one owner at a time.
"""
PATTERN = """       -f, --full
              The pattern is matched against the name. When -f is set, the full command line
              is used.

       -v, --inverse
              Negates the matching.
"""


def test_a_passage_about_something_else_is_not_quoted() -> None:
    near = "Server support is required, otherwise several of the workers cannot start."
    assert answer("How do I start the server with several workers?", block(near, 0.2)) == ABSTENTION
    assert answer("How do I start the server with several workers?", block(near, 0.6)) != ABSTENTION


@pytest.mark.parametrize(
    "query", ["What does rsync --delete do?", "What does gzip --delete do?", "What is cp -r for?"]
)
def test_an_option_is_answered_from_what_names_it_or_not_at_all(query: str) -> None:
    assert answer(query, block(GZIP, 0.6, name="gzip.txt")) == ABSTENTION
    known = block(GZIP, 0.6, name="gzip.txt")
    assert answer("What does gzip --rsyncable do?", known).startswith("--rsyncable When you")


def test_letters_behind_one_dash_are_options_each() -> None:
    assert answer("What does pgrep -fv do?", block(PATTERN, 0.6, name="pgrep.txt")) != ABSTENTION


def test_what_the_question_names_and_no_passage_names_speaks_against_an_answer() -> None:
    text = "The president of the Irish Chess Union was elected in Dublin by its members."
    asked = "Who was president of the Irish Chess Union when the Belfast Harbour opened?"
    assert answer(asked, block(text, 0.5)) == ABSTENTION
    assert answer("Who was president of the Irish Chess Union?", block(text, 0.5)) != ABSTENTION


def test_a_list_answers_what_asks_for_several_and_an_announcement_nothing() -> None:
    said = answer("What are the rules of ownership?", block(RULES, 0.6))
    assert said.startswith("Keep them in mind: Each value has an owner; There is one owner")
    assert "take a look" not in said


def test_what_an_option_does_includes_the_sentence_that_names_it() -> None:
    said = answer("What does pgrep -f match against?", block(PATTERN, 0.6, name="pgrep.txt"))
    assert said == (
        "-f, --full The pattern is matched against the name [1]. "
        "When -f is set, the full command line is used [1]."
    )


def test_the_running_title_of_a_manual_is_no_statement() -> None:
    text = "FOLD(1)      User Commands about lines that fold makes      FOLD(1)"
    assert answer("How wide are the lines that fold makes?", block(text, 0.7)) == ABSTENTION


def test_a_term_and_its_description_are_told_apart() -> None:
    text = "www-data\n    Some web servers run as www-data, a user without rights."
    said = answer("What is www-data?", block(text))
    assert said == "www-data: Some web servers run as www-data, a user without rights [1]."


def test_the_rule_of_a_title_is_never_quoted() -> None:
    text = "==\nyq\n==\nyq is a processor of YAML documents on the command line.\n=====\n"
    text = text.replace("==\nyq\n==\n", "=====\nAbout\n=====\n")
    said = answer("What is yq?", block(text))
    assert said == "yq is a processor of YAML documents on the command line [1]."


def test_what_stands_in_brackets_behind_a_rows_name_does_not_hide_it() -> None:
    text = (
        "| who | may |\n| --- | --- |\n| front gateway (`/v1/answer`, more) | `StartExecution` |\n"
    )
    heads = [unit.head for unit in units(text, sentence_spans(text))]
    assert [head.strip() for head in heads] == ["front gateway"]


def test_a_sentence_cut_within_code_is_not_quoted() -> None:
    cut = "A line of the form `| pool | ...\n\nAll that search has found is the pool of a question."
    assert answer("What is the pool?", block(cut, 0.6)).startswith("All that search has found")


def test_how_often_is_answered_by_an_amount_in_figures_or_words() -> None:
    text = "The lymphoma may spread to another organ. The lymphoma rarely has spread when found."
    assert "rarely" in answer("How often does the lymphoma spread?", block(text, 0.6))


def test_a_question_is_read_in_the_words_of_the_passages() -> None:
    sheet = block("Zorbium syndrome responds to quinine in most patients.", 0.45)
    question = "What does Kappler disease respond to?"
    assert answer(question, sheet) == ABSTENTION
    known = (OtherName(in_question="Kappler disease", in_passage="Zorbium syndrome"),)
    told = sheet.model_copy(update={"other_names": known})
    assert answer(question, told) == "Zorbium syndrome responds to quinine in most patients [1]."
    # A passage that has the question's own name for it is read as it stands.
    own = block("Kappler disease responds to quinine in most patients.", 0.6, rank=2)
    assert answer(question, own.model_copy(update={"other_names": known})).endswith("[2].")
    assert questions.in_their_words("Is MSA like MS?", [told]) == "Is MSA like MS?"
    short = sheet.model_copy(
        update={"other_names": (OtherName(in_question="MS", in_passage="sclerosis"),)}
    )
    assert questions.in_their_words("Is MSA like MS?", [short]) == "Is MSA like sclerosis?"


def test_a_table_of_contents_and_the_way_through_the_pages_answer_nothing() -> None:
    contents = (
        "7. Finder: a detector of races\n\n7.1. Overview 7.2. Detected errors: Locks "
        "7.3. Detected errors: Races 7.3.1. A Simple Race 7.3.2. The Algorithm 7.4. Hints"
    )
    asked = "Engine tool finds simple races?"
    assert "7." not in answer(asked, block(contents, 0.7))
    steering = "Next: Thread Safety, Previous: The Closure API, Up: Using the library [Index]"
    assert answer("How do I write a closure?", block(steering, 0.7)) == ABSTENTION


def test_a_title_that_explains_its_term_answers_what_it_is() -> None:
    text = "9. Massive: a profiler of heaps\n\nBy default these are not measured by Massive."
    assert answer("What is Massive?", block(text, 0.5)) == "Massive: a profiler of heaps [1]."
    amounts = "12 patients: nobody fell ill again in the year after."
    heads = [(unit.start, unit.head) for unit in units(amounts, sentence_spans(amounts))]
    assert heads == [(0, "12 patients")], "a number of its own is no number of a section"


def test_what_names_the_place_of_an_answer_is_none() -> None:
    text = (
        "The format of suppressions is described in Suppressing errors. "
        "A suppression names the tool and the kind of error."
    )
    assert answer("How are suppressions written?", block(text, 0.5)).startswith("A suppression")
    asked = "Where are suppressions described?"
    assert answer(asked, block(text, 0.5)).startswith("The format")


CHECKING = """--leak-check=<no|summary|full> [default: summary]
    When enabled, search for leaks when the program ends. If set to summary, it says how many leaks
    occurred. If set to full, each leak is shown in detail.
"""


def test_what_a_value_of_an_option_does_is_told_by_the_option_itself() -> None:
    news = "The results of --leak-check=full are those of --leak-check=summary now, full and short."
    option = block(CHECKING, 0.4, rank=2)
    said = answer("What does --leak-check=full do?", block(news, 0.6), option)
    assert said.endswith("If set to full, each leak is shown in detail [2].")
    assert said.count("--leak-check=") == 1, "the names of an option are said once"
    check = check_answer(said, [option], repair="report")
    assert [one.verdict for one in check.grounding.sentences] == ["supported"] * 2


PROGRAM = """Here is how the struct is defined:

struct tm {
    int tm_sec;
    /* Those are for future use. */
    long int tm_gmtoff;
    const char *tm_zone;
};
"""


def test_code_without_a_mark_around_it_stays_whole_and_is_carried_by_its_lead() -> None:
    said = answer("How is the struct tm defined?", block(PROGRAM, 0.6))
    assert said.startswith("Here is how the struct is defined [1]:\n\n```\nstruct tm {\n")
    assert "    const char *tm_zone;\n};\n```" in said
    check = check_answer(said, [block(PROGRAM, 0.6)], repair="report")
    assert check.grounding.grounded
    forged = said.replace("long int tm_gmtoff;", "double of_another_kind;")
    check = check_answer(forged, [block(PROGRAM, 0.6)], repair="report")
    assert not check.grounding.grounded, "what stands in code is held against its source"


PACKING = """Store the packed files of a folder in one archive on the disk.

       -i, --ignore-zeros
              Ignore zeroed blocks in the archive.
"""


def test_what_holds_nothing_of_a_question_but_its_documents_name_answers_nothing() -> None:
    asked = "How do I resize pictures with packer?"
    assert answer(asked, block(PACKING, 0.55, name="packer.txt")) == ABSTENTION
    fitting = block(f"{PACKING}\n       -s, --shrink\n              Resize pictures.\n", 0.55)
    assert "Resize pictures" in answer(
        asked, fitting.model_copy(update={"document_name": "packer"})
    )


def test_how_to_do_what_no_passage_names_is_answered_by_options_and_code_alone() -> None:
    prose = "This helps when the branch on which you ran it has changed since then."
    page = block(prose, 0.7, name="keeper.txt")
    assert answer("How do I rename branches with keeper?", page) == ABSTENTION
    assert answer("How do I handle branches with keeper?", page) != ABSTENTION
    assert answer("How do clinics handle branches with keeper?", page) != ABSTENTION
    code = "Move a branch aside:\n\n               $ keeper mv branch\n\nThat is all of it.\n"
    assert "keeper mv" in answer("How do I rename branches with keeper?", block(code, 0.7))


def test_how_a_command_is_called_and_what_it_is_do_not_tell_how_to_use_it() -> None:
    synopsis = "edit [-n] [--quiet] [-e script] [--lines] file and further files of a script"
    option = "-n, --quiet\n    Print no line unless the script says so."
    page = block(f"NAME\n   edit - Change the lines of files by script\n\n{synopsis}.\n", 0.6)
    told = answer("How do I print lines of a script with edit?", page, block(option, 0.45, rank=2))
    assert told == "-n, --quiet: Print no line unless the script says so [2]."
    assert "[--quiet]" not in told


def test_an_invitation_to_read_on_is_no_answer() -> None:
    page = block("Keep reading to learn what is best. Rest is best for most of us.", 0.6)
    assert answer("What is best?", page).startswith("Rest is best")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "The [release team](https://a.example/x) builds every version.",
            "The release team builds",
        ),
        ("The [`build()`][] call makes every version of it.", "The `build()` call makes every"),
        ("The :ref:`release team <team>` builds every version.", "The release team builds every"),
        ("The :option:`--build` option builds every version.", "The `--build` option builds"),
        (".. note:: The `release team`_ builds every version.", "The release team builds every"),
    ],
)
def test_links_and_roles_are_read_as_their_words(text: str, said: str) -> None:
    answered = answer("What builds every version?", block(text, 0.7))
    assert answered.startswith(said)
    assert answered.endswith("[1].")
    checked = check_answer(answered, [block(text)])
    assert checked.grounding is not None
    assert [s.verdict for s in checked.grounding.sentences] == ["supported"]


def test_code_is_no_link() -> None:
    assert as_read("a `m[i][j](k)` and m[i][j] stay") == "a `m[i][j](k)` and m[i][j] stay"


@pytest.mark.parametrize("element", ["<script>", "<img src=x>", "<x onclick=a()>", "</p>", "<!--"])
def test_an_element_of_a_page_is_not_quoted_and_a_placeholder_is(element: str) -> None:
    question = "Where is the cache of a build kept?"
    for put, is_told in ((element, False), ("<cache-dir>", True)):
        said = answer(question, block(f"The cache of a build is kept in {put} of its user.", 0.8))
        assert (said != ABSTENTION) is is_told


def test_which_variable_it_is_is_answered_by_its_name() -> None:
    text = "The prefix of an install may be relative. `ROOT_DIR` says where an install begins."
    assert answer("Engine variable holds the prefix of an install?", block(text, 0.7)) == (
        "`ROOT_DIR` says where an install begins [1]."
    )


def test_code_that_is_told_to_be_wrong_does_not_show_how() -> None:
    text = (
        "Set the kind of a build.\n\n```\n# WARNING: This is wrong: it sets no kind of a build.\n"
        "set(build kind)\n```\n\nOr so:\n\n```\nbuild(kind)\nend()\n```\n"
    )
    said = answer("How do I set the kind of a build?", block(text, 0.7))
    assert said == "Or so [1]:\n\n```\nbuild(kind)\nend()\n```\n"


def test_what_is_to_be_done_with_a_tool_is_told_by_what_speaks_of_it() -> None:
    push = block("-t, --tags  Push a tag to the remote repository.", 0.7, 1, "git-push.txt")
    clean = block("-n  Do not remove anything, just show.", 0.5, 2, "git-clean.txt")
    assert answer("How do I push a tag with git clean?", push, clean) == ABSTENTION
    assert answer("How do I push a tag with git push?", push, clean).startswith("-t, --tags")
    assert answer("How do I show what goes with git clean?", push, clean).startswith("-n")


def test_a_tool_that_no_passage_names_does_nothing() -> None:
    of_pdf = block("The library can encrypt a PDF with passwords.", 0.7, 1, "pdftool.md")
    assert "encrypt a PDF" in answer("How do I encrypt a PDF with passwords?", of_pdf)
    assert answer("How do I encrypt a PDF with metertool?", of_pdf) == ABSTENTION


def test_prose_that_names_an_option_tells_how() -> None:
    hook = block(
        "The hook runs before a commit and can be bypassed with the --no-verify option.", 0.6
    )
    assert "--no-verify" in answer("How do I skip the hook before a commit?", hook)


def test_a_language_is_named_by_its_code() -> None:
    text = """dedent(text)
        Remove any common leading whitespace from every line.

        >>> dedent("  a")
        'a'
"""
    question = "How do I remove common leading whitespace in Python?"
    assert "Remove any common" in answer(question, block(text, 0.7))
    assert answer(question.replace("Python", "Fortran"), block(text, 0.7)) == ABSTENTION


@pytest.mark.parametrize(
    "text",
    [
        "_`Sorted List`: http://example.org/sorted/list.html\n..",
        "def test_sorted_list(self): return sorted_list(self.values)",
    ],
)
def test_where_a_link_leads_and_a_line_of_a_program_are_no_answers(text: str) -> None:
    assert answer("How do I keep a sorted list?", block(text, 0.8)) == ABSTENTION


@pytest.mark.parametrize(
    "end", ["\u201cclassic type.\u201d", '"classic type."', "common (so far.)"]
)
def test_a_stop_inside_quotation_marks_leaves_no_sentence_without_its_marker(end: str) -> None:
    source = block(f"The most common subtype is {end}", 0.8)
    said = answer("What is the most common subtype?", source)
    assert said.endswith(" [1].")
    checked = check_answer(said, [source])
    assert checked.grounding is not None
    assert [one.verdict for one in checked.grounding.sentences] == ["supported"]


KEEP = "-k, --keep\n    Keep the input files and do not remove them."
NAMED = "The keeper of the lamps keeps a list of input files."


@pytest.mark.parametrize(
    ("query", "cosine", "name", "more"),
    [
        ("How do I keep the input files?", 0.6, "gzip.txt", 1),
        ("How do I keep the input files with zip?", 0.6, "zip.txt", 1),  # the question names it
        ("How do I keep the input files?", 0.6, "zip.txt", None),  # of another document
        ("How do I keep the input files?", 0.4, "gzip.txt", None),  # not near enough
        ("What is a keep?", 0.6, "gzip.txt", None),  # what only names a thing is near it too
    ],
)
def test_a_passage_behind_the_first_that_answers_better_is_found(
    query: str, cosine: float, name: str, more: int | None
) -> None:
    first = block("Compresses with a lamp at night.", 0.3, name="gzip.txt")
    behind = block(KEEP, cosine, rank=7, name=name)
    assert extractive.telling_more(query, [first, behind], 1) == more
    assert extractive.telling_more(query, [first], 1) is None
    assert extractive.telling_more(query, [behind, first], 1) is None  # not worth as much


def test_of_several_behind_the_first_the_best_is_found_and_of_equals_the_first() -> None:
    first = block("Compresses with a lamp at night.", 0.3, name="gzip.txt")
    some = [block(NAMED, 0.55, 6, "gzip.txt"), *(block(KEEP, 0.6, n, "gzip.txt") for n in (7, 8))]
    query = "How do I keep the input files?"
    assert extractive.telling_more(query, [first, *some], 1) == 2


def test_a_sentence_behind_code_is_read_apart_from_it() -> None:
    code = block(NOTES, 0.5, name="tool.md")
    more = block("The files keep all changes after a soft reset.", 0.5, 2, "tool.md")
    made = answer("How do I undo a commit but keep the changes in my files?", code, more)
    assert "```\n\nThe files keep" in made
    checked = check_answer(made, [code, more])
    assert checked.grounding is not None
    last = checked.grounding.sentences[-1]
    assert (made[last.start :].startswith("The files"), last.verdict) == (True, "supported")


COMMANDS = """       hide UNIT...
           Take one or more lamps out of sight. This will put a cloth over
           them. Use it with care.

       dim UNIT
           Turn the lamp down and all others off.

       show-lamps [PATTERN...]
           Print the lamps.
"""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "What does lampctl hide do?",
            "Take one or more lamps out of sight [1]. This will put a cloth over them [1].",
        ),
        ("What does lampctl dim do?", "dim UNIT Turn the lamp down and all others off [1]."),
        ("What does lampctl show-lamps do?", "show-lamps [PATTERN...] Print the lamps [1]."),
    ],
)
def test_a_command_of_a_manual_is_told_by_its_own_lines(query: str, said: str) -> None:
    beside = block(
        "This will undo what lampctl hide, dim and show-lamps do.", 0.6, 2, "lampctl.txt"
    )
    assert answer(query, block(COMMANDS, 0.4, name="lampctl.txt"), beside) == said
    topic = questions.Topic.of(query)
    assert topic.is_explained(COMMANDS, sentence_spans(COMMANDS))
    assert not topic.is_explained(beside.text, sentence_spans(beside.text))


def test_what_happens_asks_for_no_word_that_happens() -> None:
    first = block("A pipe may be closed by either side of it. Nothing else ends it.", 0.64)
    other = block("Writing to a closed pipe raises an error.", 0.5, rank=2)
    said = answer("What happens when you write to a closed pipe?", first, other)
    assert said == "Writing to a closed pipe raises an error [2]."


def test_what_a_thing_is_defined_as_is_what_it_is() -> None:
    text = (
        "Programmers are urged to avoid a data race in all that they write. A data race is defined"
        " as a write that happens beside another access to the same place."
    )
    said = answer("What is a data race?", block(text, 0.6))
    assert said.startswith("A data race is defined as a write")
