"""Whether what is fitted on is among what is measured on."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from docstokg.domain.text.words import fold

LEAST = 60
"""Characters of a paragraph that two texts do not share by chance."""


class Leak(Exception):
    """A question or a paragraph is in a set that is kept for measuring."""


def paragraphs(text: str) -> Iterator[str]:
    """Give the folded paragraphs that are long enough to be told."""
    for part in text.split("\n\n"):
        if len(folded := fold(part)) >= LEAST:
            yield folded


def kept_texts(folders: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Read the questions and the paragraphs of folders as in ../shared/data, or of JSON lines.

    `FileNotFoundError` for a place that is not there: a check of nothing would pass.
    """
    asked: set[str] = set()
    texts: set[str] = set()
    for folder in folders:
        if not folder.exists():
            raise FileNotFoundError(folder)
        for path in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
            if path.suffix == ".jsonl":
                for line in path.read_text("utf-8").splitlines():
                    row = json.loads(line)
                    asked.update(fold(row[key]) for key in ("question",) if key in row)
                    texts.update(paragraphs(row.get("text", "")))
            elif path.suffix in (".txt", ".md"):
                texts.update(paragraphs(path.read_text("utf-8")))
    return asked, texts


def refuse_shared(
    questions: Iterable[str], passages: Iterable[str], kept: tuple[set[str], set[str]]
) -> None:
    """Raise `Leak` with the first question or paragraph that is kept for measuring."""
    asked, texts = kept
    for question in questions:
        if fold(question) in asked:
            raise Leak(f"question {question!r} is kept for measuring")
    for passage in passages:
        for paragraph in paragraphs(passage):
            if paragraph in texts:
                raise Leak(f"paragraph {paragraph[:80]!r} is kept for measuring")
