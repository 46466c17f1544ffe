"""How large the product is at a commit and now: lines by folder, largest blocks, settings.

usage: python -m benchmarks.shape [COMMIT]   (default: the state the first review of the code read)

Code is what is left of a Python file without blank lines, comments and docstrings. Complexity and
parameters are counted as `tests/unit/test_step_shape.py` counts them (radon's rules, a nested
function counted into the one that holds it; `self` is no parameter).
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.test_step_shape import complexity, functions, parameters

REVIEWED = "00a8a1a"
ROOT = Path(__file__).resolve().parents[1]
COMMON = "layers/common/python/docstokg"
STEPS = ("functions", f"{COMMON}/usecases")
PRODUCT = ("functions", "layers", "local", "infra")
BESIDE = ("tests", "benchmarks")
SETTINGS = f"{COMMON}/settings.py"
NO_CODE = frozenset(
    {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }
)  # fmt: skip


@dataclass(slots=True)
class Shape:
    """Lines of each folder, as (code, all); the worst blocks, each with its place."""

    code: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    complex: tuple[int, str] = (0, "")
    complex_step: tuple[int, str] = (0, "")
    parameters_step: tuple[int, str] = (0, "")
    longest_file: tuple[int, str] = (0, "")
    settings: int = 0


def _sources(commit: str | None) -> Iterator[tuple[str, str]]:
    """Give each Python file's path and text, of a commit or of the work tree."""
    listed = ["ls-files"] if commit is None else ["ls-tree", "-r", "--name-only", commit]
    for path in _git(*listed).splitlines():
        if path.endswith(".py") and path.partition("/")[0] in (*PRODUCT, *BESIDE):
            yield (
                path,
                (
                    (ROOT / path).read_text("utf-8")
                    if commit is None
                    else _git("show", f"{commit}:{path}")
                ),
            )


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def folder_of(path: str) -> str:
    """Name the row of the table a file counts in."""
    if path.startswith(f"{COMMON}/"):
        rest = path.removeprefix(f"{COMMON}/").split("/")
        return f"layers: {rest[0]}" if len(rest) > 1 else "layers: root"
    if path.startswith("local/docstokg_local/loading/"):
        return "layers: loading"  # it moved there
    return path.partition("/")[0]


def code_lines(text: str, module: ast.Module) -> int:
    """Count the lines that hold code."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(module):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                held -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held)


def measured(sources: Iterable[tuple[str, str]]) -> Shape:
    """Count all there is."""
    shape = Shape()
    for path, text in sources:
        module, folder = ast.parse(text), folder_of(path)
        count = text.count("\n")
        shape.code[folder] += code_lines(text, module)
        shape.lines[folder] += count
        shape.files[folder] += 1
        if folder in BESIDE:
            continue
        shape.longest_file = max(shape.longest_file, (count, path))
        if path == SETTINGS:
            shape.settings = _fields(module)
        for function in functions(module):
            place = f"{path.removeprefix(COMMON + '/')}: {function.name}"
            shape.complex = max(shape.complex, (complexity(function), place))
            if path.startswith(STEPS):
                shape.complex_step = max(shape.complex_step, (complexity(function), place))
                shape.parameters_step = max(shape.parameters_step, (parameters(function), place))
    return shape


def _fields(module: ast.Module) -> int:
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    return sum(isinstance(node, ast.AnnAssign) for one in classes for node in one.body)


def table(before: Shape, now: Shape) -> str:
    """Write both beside each other, as Markdown."""
    rows = [("folder", "files", "code", "all lines"), ("---",) * 4]
    product = sorted((now.code.keys() | before.code.keys()) - set(BESIDE))
    for folder in (*product, *BESIDE):
        counts = (before.files, now.files), (before.code, now.code), (before.lines, now.lines)
        rows.append((folder, *(f"{a[folder]:,} -> {b[folder]:,}" for a, b in counts)))
    counts = (before.files, now.files), (before.code, now.code), (before.lines, now.lines)
    sums = (f"{_sum(a, product):,} -> {_sum(b, product):,}" for a, b in counts)
    rows.insert(2, ("**product**", *sums))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", "| largest | then | now |", "|---|---|---|"]
    for title, name in (
        ("cyclomatic complexity, steps and use cases", "complex_step"),
        ("cyclomatic complexity, anywhere in the product", "complex"),
        ("parameters, steps and use cases", "parameters_step"),
        ("lines of a file", "longest_file"),
    ):
        (a, at), (b, there) = getattr(before, name), getattr(now, name)
        lines.append(f"| {title} | {a:,} (`{at}`) | {b:,} (`{there}`) |")
    lines.append(f"| settings | {before.settings} | {now.settings} |")
    return "\n".join(lines)


def _sum(counts: Counter[str], folders: Iterable[str]) -> int:
    return sum(counts[folder] for folder in folders)


if __name__ == "__main__":
    then = measured(_sources(sys.argv[1] if len(sys.argv) > 1 else REVIEWED))
    sys.stdout.write(table(then, measured(_sources(None))) + "\n")
