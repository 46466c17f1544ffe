"""Thirty-five plain questions, as a person types them, to be judged by reading the answers.

    python -m benchmarks.plain_questions --manuals FOLDER
    python -m benchmarks.plain_questions [--demo URL] [--manuals-index URL] [--json FILE]

Fifteen are put to the demo store, twenty to the manuals of this machine. The first form gathers
those into a folder that `docstokg load FOLDER` reads: man pages as `man` prints them (without
hyphens and padding) and the documentation of installed packages; nothing of it is in the
repository. The second asks every question whose store is given and prints it with the fact that
answers it, in our own words (none: the store does not know, and the answer should say so).
"""

import argparse
import gzip
import json
import os
import re
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.engine.workflow import LocalWorkflow

QUESTIONS = Path(__file__).with_name("plain_questions.jsonl")
MAN_PAGES = (
    "chmod", "cp", "curl", "du", "find", "git-clean", "git-reset", "git-stash", "grep", "gzip",
    "jq", "less", "ln", "make", "sort", "split", "ssh_config", "strace", "tail", "tar", "timeout",
    "xargs",
)  # fmt: skip
PYPARSING = "ai/best_practices.md"
PLAYWRIGHT = "driver/package/lib/tools/skills/playwright-cli/references"
ZSTD = Path("/usr/share/doc/zstd/README.md.gz")
_OVERSTRUCK = re.compile(".\b")


def main() -> None:
    """Gather the manuals, or ask and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--manuals", type=Path)
    arguments.add_argument("--demo")
    arguments.add_argument("--manuals-index")
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    if options.manuals is not None:
        gather(options.manuals)
        return
    questions = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    rows = []
    for corpus, url in (("demo", options.demo), ("manuals", options.manuals_index)):
        if url is None:
            continue
        settings = Settings.from_environment(
            {**os.environ, "DOCSTOKG_INDEX_URL": url, "DOCSTOKG_GRAPH_URL": url}
        )
        workflow = LocalWorkflow(Wiring(settings, Telemetry(level="ERROR")))
        for question in questions:
            if question["corpus"] == corpus:
                rows.append({**question, **answered(workflow, question["question"])})
                print(shown(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


def gather(folder: Path) -> None:
    """Write the manuals of this machine as files to load, and name what is not installed."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in MAN_PAGES:
        printed = subprocess.run(
            ["man", "--no-hyphenation", "--no-justification", "-P", "cat", page],
            env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            check=False,
        )
        if printed.returncode:
            print(f"no man page {page}")
            continue
        text = _OVERSTRUCK.sub("", printed.stdout.decode("utf-8"))
        (folder / f"{page}.txt").write_text(text, "utf-8")
    pyparsing, playwright = _package("pyparsing"), _package("playwright")
    files = [(pyparsing / PYPARSING, "pyparsing")]
    files += [(path, "playwright-cli") for path in sorted((playwright / PLAYWRIGHT).glob("*.md"))]
    for path, kind in files:
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / path.name).write_bytes(path.read_bytes())
    if ZSTD.exists():
        (folder / "zstd.md").write_bytes(gzip.decompress(ZSTD.read_bytes()))


def answered(workflow: LocalWorkflow, text: str) -> dict[str, Any]:
    """Ask one question with the built-in model; its answer and the passages it cites."""
    outcome = ask(
        workflow,
        {
            "query": text,
            "synthesis": {"enabled": True, "model": "extractive"},
            "budget": {"max_tokens_gen": 512, "timeout_s": 25},
        },
    )
    body = outcome.body
    if outcome.status != 200:
        return {"given": f"{outcome.status}: {body['detail']}", "cites": [], "confidence": 0.0}
    return {
        "given": body["answer"],
        "cites": [f"[{c['rank']}] {c['chunk_id']}" for c in body["citations"] if c["cited"]],
        "confidence": body["confidence"],
    }


def shown(row: Mapping[str, Any]) -> str:
    """Write one question as a reader judges it."""
    fact = row["answer"] or "(not in the store: it should say so)"
    return (
        f"{row['id']}: {row['question']}\n  fact    {fact}\n"
        f"  answer  {row['given']}\n  cites   {', '.join(row['cites'])} "
        f"confidence {row['confidence']:.2f}\n"
    )


def _package(name: str) -> Path:
    found = find_spec(name)
    assert found is not None, f"{name} is not installed"
    assert found.origin is not None, f"{name} has no folder"
    return Path(found.origin).parent


if __name__ == "__main__":
    main()
