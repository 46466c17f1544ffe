"""Load rate compared with an earlier commit, in alternating runs with an empty vector cache.

usage: python -m benchmarks.bench_load_rate BASE [--chunks N] [--rounds N] [--report FILE]

The commit is checked out under build/ with an environment from its own lock. Passages of about 60
and 200 words are cut from the docstrings of the standard library, so no data is copied into the
repository. Both versions load through the command line into a new embedded store, with both
encoders. Wall time and processor time of all processes are reported; a busy machine changes the
latter little. The start-up time (a load of one passage) is subtracted from both.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.onnx.splade import OnnxSplade
from docstokg.domain.text.sentences import sentence_spans

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = (60, 200)


class Took(NamedTuple):
    """Wall and processor seconds of one load."""

    wall: float
    cpu: float


def passages(words: int, count: int) -> list[str]:
    """Cut the standard library's docstrings into passages of a number of words."""
    passages = []
    stream = _words()
    while len(passages) < count:
        passages.append(" ".join(word for word, _ in zip(stream, range(words), strict=False)))
    return passages


def _words() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield from (ast.get_docstring(node) or "").split()


def checked_out(base: str) -> Path:
    """Return a folder with that commit and its own environment."""
    tree = ROOT / "build" / f"base-{base}"
    if not tree.exists():
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(tree), base], check=True, cwd=ROOT
        )
    if not (tree / ".venv" / "bin" / "docstokg").exists():
        subprocess.run(["scripts/setup", "requirements.lock"], check=True, cwd=tree)
    return tree


def load(tree: Path, rows: list[dict[str, str]], options: list[str]) -> Took:
    """Load passages into a new store with an empty cache."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "passages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [
            str(tree / ".venv" / "bin" / "docstokg"), "load", str(folder / "passages.jsonl"),
            "--index", f"sqlite:///{folder / 'store.sqlite'}", *options,
        ]  # fmt: skip
        environment = os.environ | {"DOCSTOKG_CACHE_DIR": str(folder / "cache")}
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}: {errors.decode()}")
        return Took(time.monotonic() - begun, usage.ru_utime + usage.ru_stime)


def bare(texts: list[str]) -> Took:
    """Encode the texts with both encoders in parallel, without loading them."""
    dense, sparse = OnnxMiniLm(threads=1), OnnxSplade()
    dense.embed(["warm"], None)  # use the encoder of loads, not of questions
    sparse.warm()
    begun, spent = time.monotonic(), time.process_time()
    with ThreadPoolExecutor(2) as beside:
        weighing = beside.submit(sparse.encode, texts, None)
        dense.embed_parts(
            texts, [[(s.start, s.end) for s in sentence_spans(text)] for text in texts]
        )
        weighing.result()
    return Took(time.monotonic() - begun, time.process_time() - spent)


def compare(base: str, count: int, rounds: int) -> list[str]:
    """Return the lines of the table."""
    trees = {
        f"at {base}": (checked_out(base), list[str]()),
        "here": (ROOT, ["--workers", "1"]),
        "here, --workers 2": (ROOT, ["--workers", "2"]),
    }
    lines = [
        "| words per passage | version | chunks/s | chunks per processor second | ratio to base |",
        "|---|---|---|---|---|",
    ]
    for words in LENGTHS:
        texts = passages(words, count)
        rows = [
            {"id": f"p{i}", "doc_id": f"d{i}", "title": f"Passage {i}", "text": text}
            for i, text in enumerate(texts)
        ]
        best: dict[str, Took] = {}
        for _ in range(rounds):
            for name, (tree, options) in trees.items():
                start, whole = load(tree, rows[:1], options), load(tree, rows, options)
                took = Took(whole.wall - start.wall, whole.cpu - start.cpu)
                best_so_far = best.get(name, took)
                best[name] = Took(min(best_so_far.wall, took.wall), min(best_so_far.cpu, took.cpu))
        best["both encoders alone"] = bare(texts)
        first = best[f"at {base}"].cpu
        for name, took in best.items():
            lines.append(
                f"| {words} | {name} | {count / took.wall:.1f} | {count / took.cpu:.1f}"
                f" | {first / took.cpu:.2f}x |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Compare and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--report", type=Path)
    chosen = parser.parse_args()
    lines = compare(chosen.base, chosen.chunks, chosen.rounds)
    load_now = os.getloadavg()[0]
    page_lines = [
        "# Load rate",
        "",
        f"`make bench-load-rate BASE={chosen.base}`: {chosen.chunks} passages, best of"
        f" {chosen.rounds}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, load average"
        f" {load_now:.1f}.",
        "",
        *lines,
    ]
    if chosen.report is not None:
        chosen.report.write_text("\n".join(page_lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
