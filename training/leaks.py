"""Overlap of training and test data."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from docstokg.domain.text.words import fold

# Minimum characters of a compared paragraph.
LEAST = 60


class Leak(Exception):
    """A question or a paragraph is in a test set."""


def paragraphs(text: str) -> Iterator[str]:
    """Yield the folded paragraphs of at least LEAST characters."""
    for part in text.split("\n\n"):
        if len(folded := fold(part)) >= LEAST:
            yield folded


def kept_texts(folders: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Return the folded questions and paragraphs of test sets.

    `folders`: folders as in ../shared/data, or files of JSON lines. Raises `FileNotFoundError` for
    a missing one.
    """
    questions: set[str] = set()
    texts: set[str] = set()
    for folder in folders:
        if not folder.exists():
            raise FileNotFoundError(folder)
        for path in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
            if path.suffix == ".jsonl":
                for line in path.read_text("utf-8").splitlines():
                    row = json.loads(line)
                    questions.update(fold(row[key]) for key in ("question",) if key in row)
                    texts.update(paragraphs(row.get("text", "")))
            elif path.suffix in (".txt", ".md"):
                texts.update(paragraphs(path.read_text("utf-8")))
    return questions, texts


def refuse_shared(
    questions: Iterable[str], passages: Iterable[str], test_texts: tuple[set[str], set[str]]
) -> None:
    """Raise `Leak` with the first question or paragraph that is in a test set."""
    test_questions, texts = test_texts
    for question in questions:
        if fold(question) in test_questions:
            raise Leak(f"question {question!r} is kept for measuring")
    for passage in passages:
        for paragraph in paragraphs(passage):
            if paragraph in texts:
                raise Leak(f"paragraph {paragraph[:80]!r} is kept for measuring")
