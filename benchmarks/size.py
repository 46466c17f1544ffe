"""Code by folder at a commit, or in the work tree: what the limits of lines are held against.

usage: python -m benchmarks.size [COMMIT]

Code is a Python file without blank lines, comments and docstrings, and any other line of a script,
page or state machine that is not blank. Product: functions/, layers/, local/, infra/, scripts/,
training/, examples/. Markdown is counted in words.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

PRODUCT = ("functions", "layers", "local", "infra", "scripts", "training", "examples")
COUNTED = (*PRODUCT, "statemachine", "tests", "benchmarks")
SCRIPTS = (".js", ".html", ".css", ".sh", ".cypher", ".vtl")
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """Count the lines of Python that hold code."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                held -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held)


def git(*arguments: str) -> str:
    """Give what git prints."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print one row a folder: Python code, other scripts, all non-blank Python lines."""
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    listed = ["ls-tree", "-r", "--name-only", commit] if commit else ["ls-files", "-c"]
    code, scripts, lines, words = Counter[str](), Counter[str](), Counter[str](), 0
    for path in git(*listed).splitlines():
        folder = path.partition("/")[0]
        is_script = path.endswith(SCRIPTS) or (folder == "scripts" and "." not in path)
        if not (path.endswith((".py", ".md")) or is_script):
            continue
        try:
            text = git("show", f"{commit}:{path}") if commit else Path(path).read_text("utf-8")
        except (FileNotFoundError, IsADirectoryError):
            continue
        if path.endswith(".md"):
            words += len(text.split())
        elif folder in COUNTED and path.endswith(".py"):
            code[folder] += code_lines(text)
            lines[folder] += sum(bool(line.strip()) for line in text.splitlines())
        elif folder in COUNTED:
            scripts[folder] += sum(bool(line.strip()) for line in text.splitlines())
    print(f"{'':14}{'code':>8}{'scripts':>9}{'non-blank':>11}")
    for folder in COUNTED:
        print(f"{folder:14}{code[folder]:8,}{scripts[folder]:9,}{lines[folder]:11,}")
    total = [sum(counter[f] for f in PRODUCT) for counter in (code, scripts, lines)]
    print(f"{'product':14}{total[0]:8,}{total[1]:9,}{total[2]:11,}")
    print(f"Markdown: {words:,} words")


if __name__ == "__main__":
    main()
