"""Sample of public docstrings for a reader who does not know the code.

usage: python -m benchmarks.docstrings SEED [COUNT]

Prints path, signature and docstring of public functions. The reader writes what each
returns and when it fails; the answers are compared with the code (docstrings_read.tsv).
"""

import ast
import random
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("layers", "functions", "local", "infra")


def documented(body: list[ast.stmt], within: str = "") -> Iterator[str]:
    """Yield each public function with a docstring, but no method without parameters."""
    for node in body:
        if isinstance(node, ast.ClassDef) and (within or not node.name.startswith("_")):
            yield from documented(node.body, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text, parameters = ast.get_docstring(node), ast.unparse(node.args)
            if text and not node.name.startswith("_") and parameters != "self":
                returns = ast.unparse(node.returns) if node.returns else "None"
                yield f"{within}{node.name}({parameters}) -> {returns}\n\n{text}\n"


def main(seed: int, count: int = 20) -> None:
    """Print a sample."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    docstrings = [
        f"{path.relative_to(ROOT)}: {entry}"
        for path in paths
        for entry in documented(ast.parse(path.read_text("utf-8")).body)
    ]
    for number, entry in enumerate(random.Random(seed).sample(docstrings, count), 1):
        sys.stdout.write(f"{number}. {entry}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
