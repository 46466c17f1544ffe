"""Count tokens of code by folder, at a commit or in the work tree.

    python -m benchmarks.size [COMMIT]

A token of Python is a token of its grammar without comments, docstrings and line ends; a string
counts one per started eight characters, so that words packed into strings save nothing. Product:
every Python file outside tests and benchmarks. Markdown is counted in words, other code in bytes.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path, PurePosixPath

APART = ("tests", "benchmarks")
OTHER = (".js", ".css", ".html", ".vtl", ".sh", ".json")
TEXTS = (tokenize.STRING, tokenize.FSTRING_MIDDLE)
CHARACTERS_PER_TOKEN = 8
NO_CODE = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    )
)


def code_tokens(text: str) -> int:
    """Return the number of tokens of a Python file."""
    docstrings = docstring_lines(text)
    return sum(
        -(-len(token.string) // CHARACTERS_PER_TOKEN) or 1 if token.type in TEXTS else 1
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE and token.start[0] not in docstrings
    )


def docstring_lines(text: str) -> set[int]:
    """Return the numbers of the lines that belong to docstrings, from 1."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Module(body=[first, *_]) | ast.ClassDef(body=[first, *_]):
                pass
            case ast.FunctionDef(body=[first, *_]) | ast.AsyncFunctionDef(body=[first, *_]):
                pass
            case _:
                continue
        match first:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def git(*arguments: str) -> str:
    """Return the output of git."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def read(path: str, commit: str | None) -> str | None:
    """Return a file's text; None for a link and for a file that is missing."""
    if commit:
        return git("show", f"{commit}:{path}")
    file = Path(path)
    return file.read_text("utf-8") if file.is_file() and not file.is_symlink() else None


def main() -> None:
    """Print one line per folder, then product, tests, benchmarks, other code and Markdown."""
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    listed = ["ls-tree", "-r", commit] if commit else ["ls-files", "-s"]
    # Mode 120000 is a link, whose target is counted elsewhere.
    entries = [line.split("\t") for line in git(*listed).splitlines()]
    paths = [path for about, path in entries if not about.startswith("120000")]
    tokens, skips, other, words = Counter[str](), Counter[str](), Counter[str](), 0
    for path in paths:
        suffix = PurePosixPath(path).suffix
        if suffix not in (".py", ".md", *OTHER) or path.endswith("openapi.json"):
            continue
        text = read(path, commit)
        if text is None:
            continue
        folder = path.partition("/")[0]
        if suffix == ".py":
            tokens[folder] += code_tokens(text)
            skips[folder] += text.count("# fmt: skip")
        elif suffix == ".md":
            words += len(text.split())
        else:
            other[suffix] += len(text.encode())
    print(f"{'':14}{'tokens':>9}{'fmt: skip':>11}")
    for folder in sorted(tokens):
        print(f"{folder:14}{tokens[folder]:9,}{skips[folder]:11,}")
    product = [folder for folder in tokens if folder not in APART]
    total = [sum(counter[folder] for folder in product) for counter in (tokens, skips)]
    print(f"{'product':14}{total[0]:9,}{total[1]:11,}")
    print(
        "Other code: " + ", ".join(f"{kind} {size:,} bytes" for kind, size in sorted(other.items()))
    )
    print(f"Markdown: {words:,} words")


if __name__ == "__main__":
    main()
