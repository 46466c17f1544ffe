"""Two editions of the same books, and a reader who notices when both stand in one answer."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from docstokg.contracts.records import Scope
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import chunk_uuid
from docstokg.errors import DocsToKGError
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.engine.workflow import LocalWorkflow
from tests.faults.load_processes import LoadProcesses

BOOKS = 3
PARTS = {1: 150, 2: 110}
"""The second edition is shorter: chunks of the first have to go."""

QUESTION = "Which lamp is lit at the harbour?"


def write_editions(folder: Path, sizes: Mapping[int, int] = PARTS) -> dict[int, Path]:
    """Write both; every third part is the same in both, every other names its edition."""
    folders = {}
    for edition, parts in sizes.items():
        folders[edition] = folder / f"edition{edition}"
        folders[edition].mkdir(parents=True)
        for book in range(BOOKS):
            text = f"---\ndoc_id: book{book}\n---\n# The lamps of book {book}\n\n"
            for part in range(parts):
                label = f"edition{edition}" if part % 3 else "any edition"
                line = f"Lamp {part} of book {book} is lit at the harbour, says {label}. "
                text += f"## Part {part}\n\n{line * 12}\n\n"
            (folders[edition] / f"book{book}.md").write_text(text, encoding="utf-8")
    return folders


@pytest.fixture
def loaders() -> Iterator[tuple[LoadProcesses, LoadProcesses]]:
    """Two processes that load."""
    with closing(LoadProcesses()) as first, closing(LoadProcesses()) as second:
        yield first, second


class Reader:
    """Reads whole books, and asks questions, while somebody loads."""

    def __init__(self, settings: Settings) -> None:
        self._wiring = Wiring(settings, Telemetry(level="ERROR"))
        self._index = self._wiring.search_index()
        self._workflow = LocalWorkflow(self._wiring)
        self._books = {
            book: [chunk_uuid("default", f"book{book}#{n}") for n in range(3 * PARTS[1])]
            for book in range(BOOKS)
        }
        self.reads = self.answers = self.failed = 0
        self.editions: set[str] = set()
        self.mixed: list[str] = []
        self._stop = threading.Event()

    def read(self) -> None:
        """Read every book once."""
        for book, uuids in self._books.items():
            try:
                chunks = self._index.get(
                    uuids, Scope(namespace="default"), Deadline.after(5.0)
                ).chunks
            except DocsToKGError:
                self.failed += 1
                continue
            self.reads += 1
            self._look(f"book {book}", [chunk.text for chunk in chunks.values()])

    def ask_questions(self) -> None:
        """Ask for as many passages as there may be, with their whole texts."""
        budget = {"max_chunks": 100, "timeout_s": 10}
        request = {"query": QUESTION, "top_k": 100, "verbosity": "full", "budget": budget}
        outcome = submit(self._workflow, request)
        if outcome.status != 200:
            self.failed += 1
            return
        self.answers += 1
        texts: dict[str, list[str]] = {}
        for citation in outcome.body["citations"]:
            passages = texts.setdefault(citation["doc_id"], [])
            passages += [citation["snippet"], citation.get("full_text") or ""]
        for doc_id, passages in texts.items():
            self._look(f"answer on {doc_id}", passages)

    def _look(self, label: str, texts: list[str]) -> None:
        seen = {name for name in ("edition1", "edition2") for text in texts if name in text}
        self.editions |= seen
        if len(seen) > 1:
            self.mixed.append(label)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read and ask in a thread of its own meanwhile."""
        self._stop.clear()
        thread = threading.Thread(target=self._loop, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(60)

    def _loop(self) -> None:
        turn = 0
        while not self._stop.wait(0.01):
            self.read()
            turn += 1
            if turn % 10 == 0:
                self.ask_questions()

    def close(self) -> None:
        """Give the stores back."""
        self._wiring.close()

    def report(self) -> str:
        """Print the observations as JSON."""
        return json.dumps(
            {
                "reads": self.reads,
                "answers": self.answers,
                "failed": self.failed,
                "editions": sorted(self.editions),
                "mixed": len(self.mixed),
            }
        )
