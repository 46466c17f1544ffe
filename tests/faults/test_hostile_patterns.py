"""No expression of the product that reads a stranger's text takes time beyond its length.

Every pattern of every module is found by itself and run the way its module uses it, on 64 kB of
the inputs that backtracking engines fear: runs of one sign, of a sign and a space, ends that never
come. A pattern whose text is cut before it is asked is run on that many characters.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import docstokg
import docstokg_functions
from tests.faults.growth import Work, growth, seconds

LONG, PROBE = 65_536, 256
INSTANT_S, FAST_S = 0.1, 0.004
GROWTH = 3.0  # of twice the text; quadratic is 4, and a short run measures badly
CUT = {
    "domain.answer.consistency._WORDS": 200, "domain.answer.consistency._NO_LABEL": 200,
    "domain.text.sentences._WORD_BEFORE": 24, "domain.text.sentences._LIST_NUMBER": 6,
}  # fmt: skip
"""Characters the pattern ever sees, where its caller cuts the text."""

NEVER_STRANGERS = {"adapters.neo4j.plan_guard": "plans of our own templates"}
ONCE = {"match", "fullmatch"}
UNITS = (
    *" \t\n\xa0aA1-=*#`~[](){}<>\"'\\|:/?!;.,@\u0301\u2014",
    *("\n ", "\n\n", " \n", "a ", "A ", "A b ", "a.", "A. ", "1.", "1,", "1 ", "--a ", "a-", "A-"),
    *("# ", "[1", "[1]", "[1](/", "(a", "(a) ", "<a", "<!--", "-->", '\\"', "a:", "a:1", "a/"),
    *("HP:0000118 ", "n't ", "PASSAGE", "<PASSAGE ", "not ", "how to ", "the ", "0.5 %"),
    *("a@", "a=1"),
)
END = "! x\n"


def modules() -> Iterator[ModuleType]:
    for package in (docstokg, docstokg_functions):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(module.name)


def patterns() -> dict[str, tuple[re.Pattern[str], set[str]]]:
    """Name each pattern where it is defined, with the way it is asked there."""
    patterns = {}
    sources = {module: inspect.getsource(module) for module in modules()}
    everything = "\n".join(sources.values())
    for module, source in sources.items():
        name = module.__name__.removeprefix("docstokg.")
        if name in NEVER_STRANGERS:
            continue
        for variable, value in vars(module).items():
            if not isinstance(value, re.Pattern) or not isinstance(value.pattern, str):
                continue
            if re.search(rf"^{variable}\b", source, re.MULTILINE) is None:
                continue  # imported from where it is defined
            code = source if variable.startswith("_") else everything
            methods = set(re.findall(rf"\b{variable}\.(\w+)\(", code))
            patterns[f"{name}.{variable}"] = (value, methods)
    return patterns


PATTERNS = patterns()


def work(name: str) -> Work:
    pattern, methods = PATTERNS[name]
    if methods and methods <= ONCE:
        return lambda text: [getattr(pattern, method)(text) for method in methods]
    return lambda text: sum(1 for _ in pattern.finditer(text))


def test_the_patterns_are_found() -> None:
    assert len(PATTERNS) > 60
    assert set(CUT) <= set(PATTERNS)


@pytest.mark.parametrize("name", PATTERNS)
def test_doubled_text_takes_at_most_thrice_the_time(name: str) -> None:
    """From short texts on, so that one that would take hours is never run at full length."""
    run, longest = work(name), CUT.get(name, LONG)
    first = "" if PATTERNS[name][1] <= ONCE else "A"
    for unit in UNITS:
        for size in (PROBE, 16 * PROBE, LONG):
            text = (first + unit * (size // len(unit)) + END)[-longest:]
            if seconds(run, text) > (FAST_S if size < LONG else INSTANT_S):
                short = (first + unit * (size // 2 // len(unit)) + END)[-longest:]
                assert growth(run, text, short, GROWTH) < GROWTH, f"{unit!r}, {size} characters"
