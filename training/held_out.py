"""What is measured must not be learned from: fitted pairs that share text with a measured set."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

MEASURED = ("musique100", "twowiki101", "medical_guidelines")
_SHORTEST = 40
_WORDS = re.compile(r"[^\W_]+")
_PARAGRAPH = re.compile(r"\n\s*\n")


class SharedTextError(ValueError):
    """A fitted text stands in a measured set too."""


def refuse_shared(texts: Iterable[str], data: Path) -> None:
    """Raise SharedTextError where a text has a question or a paragraph of a measured set.

    Compared by their words alone; what is shorter than 40 characters tells nothing.
    """
    measured = {_plain(part): name for name in MEASURED for part in _parts(data / name)}
    for text in texts:
        for part in (text, *_PARAGRAPH.split(text)):
            if (name := measured.get(_plain(part))) and len(_plain(part)) >= _SHORTEST:
                raise SharedTextError(f"{name} holds {part[:80]!r} too")


def _parts(folder: Path) -> Iterable[str]:
    """Give the questions, passages and paragraphs of a set."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            yield from (row[key] for key in ("question", "text", "answer") if key in row)
            yield from row.get("evidence", ())
    for path in sorted(folder.glob("*.txt")):
        yield from _PARAGRAPH.split(path.read_text("utf-8"))


def _plain(text: str) -> str:
    return " ".join(_WORDS.findall(str(text).casefold()))
