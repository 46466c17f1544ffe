"""Tokens of the product by concept, against the budgets of `size_budget.toml`.

    python -m benchmarks.size            # fails if a concept or the sum exceeds its budget by 3 %
    python -m benchmarks.size --update   # writes today's tokens as the budgets

Tokens of Python without comments, docstrings and blank lines; a string counts one token per started
eight characters, so that text packed into strings is counted.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = Path(__file__).with_name("size_budget.toml")
EXCESS = 1.03
APART = ("benchmarks/", "tests/")
_TEXTS = {tokenize.STRING, tokenize.FSTRING_MIDDLE}
_LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def token_count(source: str) -> int:
    """Return the number of tokens of a module; raise SyntaxError if it is not Python."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(
        -(-len(token.string) // 8) or 1 if token.type in _TEXTS else 1
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _LAYOUT and token.start[0] not in docstrings
    )


def python_files() -> list[str]:
    """Return the tracked Python files, relative to the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return [path for path in listing.stdout.splitlines() if not (ROOT / path).is_symlink()]


def concept_of(path: str, patterns: dict[str, Sequence[str]]) -> str | None:
    """Return the concept of the longest pattern that matches, or None."""
    matches = [
        (len(pattern), concept)
        for concept, its_patterns in patterns.items()
        for pattern in its_patterns
        if fnmatch(path, pattern)
    ]
    return max(matches)[1] if matches else None


def main(arguments: Sequence[str]) -> int:
    """Print each excess and return the exit code."""
    text = BUDGETS.read_text(encoding="utf-8")
    document = tomllib.loads(text)
    concepts = document["concepts"]
    patterns = {name: concept["files"] for name, concept in concepts.items()}
    counts: Counter[str] = Counter(dict.fromkeys(concepts, 0))
    others: Counter[str] = Counter()
    problems = []
    for path in python_files():
        count = token_count((ROOT / path).read_text(encoding="utf-8"))
        if path.startswith(APART):
            others[path.partition("/")[0]] += count
        elif (concept := concept_of(path, patterns)) is not None:
            counts[concept] += count
        else:
            problems.append(f"{path}: no concept of {BUDGETS.name} names this file")
    if "--update" in arguments:
        BUDGETS.write_text(_updated(text, counts), encoding="utf-8")
        return 0
    budgets = {name: concept["tokens"] for name, concept in concepts.items()}
    problems += [
        f"{name}: {counts[name]} tokens, budget {budget}"
        for name, budget in budgets.items()
        if counts[name] > budget * EXCESS
    ]
    if counts.total() > document["tokens"]:
        problems.append(f"product: {counts.total()} tokens, budget {document['tokens']}")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"Remove code, or raise the budget in {BUDGETS.name} with a reason.", file=sys.stderr)
        return 1
    apart = ", ".join(f"{folder} {count}" for folder, count in sorted(others.items()))
    print(f"tokens: product {counts.total()} of {document['tokens']}, {apart}")
    return 0


def _updated(text: str, counts: Counter[str]) -> str:
    text = re.sub(r"^tokens = \d+", f"tokens = {counts.total()}", text, count=1, flags=re.MULTILINE)
    for name, count in counts.items():
        header = re.escape(f'[concepts."{name}"]\n')
        text = re.sub(rf"({header})tokens = \d+", rf"\g<1>tokens = {count}", text)
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
