"""Break one line of a requirement's code and run the tests that `docs/requirements.md` names.

    python -m benchmarks.requirements SEED N          # N rows drawn by the seed
    python -m benchmarks.requirements SEED N 4 17     # only rows 4 and 17

The seed draws among the rows that name Python code. The break is applied in a clone of the last
commit with an environment of its own, so that all processes of a test import the clone. Operators:
a condition is negated, an argument with a default is dropped, a result is emptied. A row is "found"
if a named test fails with the break and passes without it, "late" if its tests take over 300 s.
Breaks that change no output stand in `requirements_equal.tsv` with the reason; the row's next break
is tried instead.
"""

import ast
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EQUAL = Path(__file__).with_name("requirements_equal.tsv")
LIMIT_S = 300
ROW = re.compile(r"^\| (\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
CODE = ("benchmarks", "examples", "functions", "infra", "integrations", "layers", "local")
EMPTY = {
    **{"str": "''", "list": "[]", "tuple": "()", "Sequence": "()", "Collection": "()"},
    **{"dict": "{}", "Mapping": "{}", "set": "set()", "frozenset": "frozenset()"},
    **{"bool": "False", "int": "0", "float": "0.0"},
}
type Site = tuple[int, str, ast.AST, dict[str, Any]]


def rows() -> dict[int, tuple[list[tuple[str, str]], list[str]]]:
    """Return code, as file and function (or ""), and tests of each row that names Python code."""
    page = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    table = {
        int(number): (
            re.findall(r"`([^`]+\.py)(?:::([\w.]+))?`", code),
            re.findall(r"`([^`]+::test_\w+)`", tests),
        )
        for number, code, tests in ROW.findall(page)
    }
    return {number: row for number, row in table.items() if row[0]}


def optional_names() -> dict[str, set[str]]:
    """Return parameters and fields with a default by the name of their function or class."""
    names: dict[str, set[str]] = {}
    for file in (file for folder in CODE for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                pairs = [
                    *zip(reversed(arguments.args), reversed(arguments.defaults), strict=False),
                    *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
                ]
                names.setdefault(node.name, set()).update(
                    name.arg for name, value in pairs if value
                )
            elif isinstance(node, ast.ClassDef):
                fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
                names.setdefault(node.name, set()).update(
                    ast.unparse(field.target) for field in fields if field.value
                )
    return names


def sites(node: ast.AST, optional: Mapping[str, set[str]], empty: str = "") -> Iterator[Site]:
    """Yield each break below a node: line, operator, broken node and its new fields.

    `empty`: source of the empty result of the enclosing function, "" if it has none.
    """
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            annotation = ast.unparse(node.returns) if node.returns else ""
            has_none = annotation.endswith(" | None")
            empty = "None" if has_none else EMPTY.get(re.split(r"\W", annotation)[0], "")
        case ast.If() | ast.While() | ast.IfExp():
            yield node.lineno, "condition negated", node, {"test": _negated(node.test)}
        case ast.comprehension(ifs=[first, *others]):
            yield first.lineno, "condition negated", node, {"ifs": [_negated(first), *others]}
        case ast.Call():
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            for argument in node.keywords:
                if argument.arg in optional.get(called, ()):
                    others = [keyword for keyword in node.keywords if keyword is not argument]
                    operator = f"argument {argument.arg} dropped"
                    yield argument.lineno, operator, node, {"keywords": others}
        case ast.Return() if node.value and empty not in ("", ast.unparse(node.value)):
            value = ast.parse(empty, mode="eval").body
            yield node.lineno, "result emptied", node, {"value": value}
    for child in ast.iter_child_nodes(node):
        yield from sites(child, optional, empty)


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def carrier(tree: ast.AST, name: str) -> Any:
    """Return the function, class or method of a dotted name, the module for ""."""
    node: Any = tree
    for part in filter(None, name.split(".")):
        node = next(child for child in node.body if getattr(child, "name", "") == part)
    return node


def breaks(
    folder: Path, row: int, seed: str, optional: Mapping[str, set[str]]
) -> Iterator[tuple[str, int, str, str, str]]:
    """Yield the breaks of a row in random order: file, line, its text, operator, new source."""
    places = []
    for file, name in rows()[row][0]:
        source = (folder / file).read_text(encoding="utf-8")
        tree = ast.parse(source)
        for site in sites(carrier(tree, name), optional):
            places.append((file, source.splitlines()[site[0] - 1].strip(), tree, site))
    Random(f"{seed} {row}").shuffle(places)
    for file, text, tree, (line, operator, node, fields) in places:
        kept = dict(vars(node))
        vars(node).update(fields)
        yield file, line, text, operator, ast.unparse(ast.fix_missing_locations(tree))
        vars(node).update(kept)


def clone(folder: Path) -> None:
    """Clone the last commit; the environment of the clone has our packages and its modules."""
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, folder], check=True)
    old, new = Path(sys.prefix), folder / ".venv"
    packages = Path(sysconfig.get_path("purelib"))
    site = new / packages.relative_to(old)
    site.mkdir(parents=True)
    for entry in packages.iterdir():
        (site / entry.name).symlink_to(entry)
    paths = site / "_docstokg.pth"
    text = paths.read_text(encoding="utf-8").replace(str(ROOT), str(folder))
    paths.unlink()
    paths.write_text(text, encoding="utf-8")
    shutil.copytree(old / "bin", new / "bin", symlinks=True)
    for script in (new / "bin").iterdir():
        if not script.is_symlink() and (content := script.read_bytes()).startswith(b"#!"):
            script.write_bytes(content.replace(bytes(old), bytes(new)))
    shutil.copy2(old / "pyvenv.cfg", new)
    for cache in (".uv", ".cache"):
        (ROOT / cache).mkdir(exist_ok=True)
        (folder / cache).symlink_to(ROOT / cache)


def run_tests(folder: Path, tests: Sequence[str], mark: str = "") -> tuple[str, str]:
    """Return "passed", "failed", "late" or "not run", and the first failed test.

    `mark`: expression of the marks of tests that run.
    """
    command = [folder / ".venv/bin/python", "-m", "pytest", "-x", "-q", "-m", mark]
    process = subprocess.Popen(
        [*command, *(f"tests/{test}" for test in tests)],
        **{"cwd": folder, "text": True, "start_new_session": True},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
    )
    try:
        output = process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "late", ""
    failed = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - |$)", output, re.MULTILINE)
    if failed:
        return "failed", failed[1]
    return "passed" if re.search(r"\d+ passed", output) else "not run", ""


def outcome_of(folder: Path, tests: Sequence[str]) -> tuple[str, str]:
    """Return the outcome of tests, those on real servers last, and the first failed test."""
    outcomes = []
    for mark in ("not services", "services"):
        outcomes.append(run_tests(folder, tests, mark))
        if outcomes[-1][0] in ("failed", "late"):
            return outcomes[-1]
    return min(outcomes, key=lambda pair: pair[0] == "not run")


def tried(folder: Path, file: str, source: str, tests: Sequence[str]) -> tuple[str, str]:
    """Return the outcome of the tests with this source of a file, and the first failed test."""
    kept = (folder / file).read_text(encoding="utf-8")
    (folder / file).write_text(source, encoding="utf-8")
    outcome, test = outcome_of(folder, tests)
    (folder / file).write_text(kept, encoding="utf-8")
    if outcome == "failed":
        again = run_tests(folder, [test])[0]
        return "found" if again == "passed" else f"{again} without the break", test
    return "survived" if outcome == "passed" else outcome, test


def main(seed: str, count: str, *chosen: str) -> int:
    """Print one line per row; return 1 unless all are found."""
    table, optional = rows(), optional_names()
    drawn = sorted(Random(int(seed)).sample(sorted(table), int(count)))
    with EQUAL.open(encoding="utf-8") as lines:
        equal = {
            (line["file"], line["text"], line["operator"]): line["reason"]
            for line in csv.DictReader(lines, delimiter="\t")
        }
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="requirements-") as name:
        folder = Path(name)
        clone(folder)
        for row in drawn if not chosen else map(int, chosen):
            for file, line, text, operator, source in breaks(folder, row, seed, optional):
                place = f"row {row}  {file}:{line}  {operator}"
                if reason := equal.get((file, text, operator)):
                    print(f"{place}  skipped: {reason}", flush=True)
                    continue
                started = time.monotonic()
                outcome, test = tried(folder, file, source, table[row][1])
                seconds = time.monotonic() - started
                print(f"{place}  {outcome}  {seconds:.0f} s  {test}", flush=True)
                outcomes.append(outcome)
                break
    print(", ".join(f"{outcomes.count(kind)} {kind}" for kind in sorted(set(outcomes))))
    return int(set(outcomes) != {"found"})


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
