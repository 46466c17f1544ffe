"""Three ways to cut documents, compared at an equal budget of tokens for the reader.

`python -m benchmarks.chunking --folder ../shared/data/medical_guidelines --work DIR --limit 450`:
each way's chunks are loaded with the same encoders, every question is put to each store, and the
share of the gold answer's content words that stand in the first 1,000 tokens of what came back
is averaged over the questions (three seeds of 150). So are: whether the right document came first,
and F1 of the extractive answer, as `docstokg eval --answers` counts it, from 1,000 tokens of
passages (`docs/decisions/loading-chunks.md`).
"""

import argparse
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from docstokg.adapters.conversion.formats import FORMATS
from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.adapters.onnx.wordpieces import WordPieces
from docstokg.domain.text.query_terms import content_words
from docstokg.domain.text.sentences import sentence_spans
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read import chunking
from docstokg.loading.read.given import GivenChunk
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.readers.documents import document_chunks, read_documents
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.evaluation.answers import MAX_TOKENS_GEN, WrittenAnswer, judged
from docstokg_local.loading.stores import stores_of

BUDGET_TOKENS = 1000
SEEDS = (1, 2, 3)
SAMPLE = 150
CONVERTER = ChildConverter()
Seen = tuple[float, float, float]
Cutter = Callable[[Path, str], Iterator[tuple[str, str]]]


def by_outline(pieces: int) -> Cutter:
    """Cut as the loader does, at most `pieces` word pieces a chunk."""

    def cut(path: Path, doc_id: str) -> Iterator[tuple[str, str]]:
        chunking.ENCODER_PIECES, before = pieces, chunking.ENCODER_PIECES
        try:
            (document,) = read_documents(path, doc_id, CONVERTER)
            chunks: list[GivenChunk] = list(document_chunks(document, path.name, WordPieces()))
        finally:
            chunking.ENCODER_PIECES = before
        for chunk in chunks:
            place = (chunk.title, *chunk.headings) if chunk.title else chunk.headings
            yield chunking.SEPARATOR.join(place), chunk.text

    return cut


def by_sentences(characters: int) -> Cutter:
    """Pack sentences up to `characters`, blind to headings and blocks."""

    def cut(path: Path, doc_id: str) -> Iterator[tuple[str, str]]:
        text = read_documents(path, doc_id, CONVERTER)[0].text
        start = end = -1
        for span in sentence_spans(text):
            if start >= 0 and span.end - start > characters:
                yield path.stem, text[start:end]
                start = -1
            start, end = (span.start if start < 0 else start), span.end
        if start >= 0:
            yield path.stem, text[start:end]

    return cut


def by_windows(words: int, overlap: int) -> Cutter:
    """Cut windows of words that overlap, the usual default elsewhere."""

    def cut(path: Path, doc_id: str) -> Iterator[tuple[str, str]]:
        text = read_documents(path, doc_id, CONVERTER)[0].text
        places = [match.span() for match in re.finditer(r"\S+", text)]
        for first in range(0, max(1, len(places) - overlap), words - overlap):
            window = places[first : first + words]
            if window:
                yield path.stem, text[window[0][0] : window[-1][1]]

    return cut


WAYS: dict[str, Cutter] = {
    "outline-256": by_outline(256),
    "outline-128": by_outline(128),
    "sentences-1200-characters": by_sentences(1200),
    "windows-180-words-overlap-30": by_windows(180, 30),
}


def make_store(way: str, folder: Path, work: Path) -> Wiring:
    """Load the folder's documents, cut one way, unless that was done before."""
    store = work / f"chunking-{folder.name}-{way}.sqlite"
    url = f"sqlite:///{store}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    if not store.exists():
        lines = work / f"chunks-{folder.name}-{way}.jsonl"
        with lines.open("w", encoding="utf-8") as out:
            for path in sorted(p for p in folder.rglob("*") if p.suffix in FORMATS):
                doc_id = path.relative_to(folder).as_posix()
                for number, (title, text) in enumerate(WAYS[way](path, doc_id)):
                    line = {"id": f"{doc_id}#{number}", "doc_id": doc_id, "text": text}
                    out.write(json.dumps({**line, "title": title}) + "\n")
        load([lines], LoadOptions(), stores_of(wiring), RejectLog(None))
    return wiring


def measure(wiring: Wiring, questions: list[dict[str, str]]) -> list[Seen]:
    """Give, per question: share of answer words seen, 1.0 where the right document led, F1."""
    flow = LocalWorkflow(wiring)
    found: list[Seen] = []
    for question in questions:
        fields = {
            "query": question["question"],
            "top_k": 20,
            "verbosity": "full",
            "kg_expansion": {"enabled": False},
            "budget": {"timeout_s": 30, "max_chunks": 20},
        }
        body = ask(flow, fields).body
        left, seen = BUDGET_TOKENS, set()
        for citation in body["citations"]:
            text = citation["full_text"].encode()[: left * 4].decode(errors="ignore")
            seen |= set(content_words(text))
            left -= math.ceil(len(text.encode()) / 4)
            if left <= 0:
                break
        wanted = set(content_words(question.get("answer", "")))
        share = len(wanted & seen) / len(wanted) if wanted else 0.0
        first = body["citations"][0]["doc_id"] if body["citations"] else ""
        score = answered(flow, question)
        found.append((share, float(first in question.get("gold", ())), score))
    return found


def answered(flow: LocalWorkflow, question: dict[str, str]) -> float:
    """Give F1 of the answer that the extractive reader makes of passages of so many tokens."""
    if not question.get("answer"):
        return 0.0
    fields = {
        "query": question["question"],
        "verbosity": "full",
        "kg_expansion": {"enabled": False},
        "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {
            "timeout_s": 30,
            "max_tokens_gen": MAX_TOKENS_GEN,
            "max_tokens_context": BUDGET_TOKENS,
        },
    }
    body = ask(flow, fields).body
    kept = {key: question.get(key) for key in ("id", "question", "answer")}
    return float(judged(WrittenAnswer.model_validate(kept), body)["f1"])


def main() -> None:
    """Print a table: each way, its chunks, the shares of the three samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=450)
    parser.add_argument("--ways", default=",".join(WAYS))
    chosen = parser.parse_args()
    (file,) = [*chosen.folder.glob("answers*.jsonl"), *chosen.folder.glob("questions*.jsonl")][:1]
    questions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    questions = questions[: chosen.limit]
    samples = [random.Random(seed).sample(range(len(questions)), min(SAMPLE, len(questions)))
               for seed in SEEDS]  # fmt: skip
    for way in chosen.ways.split(","):
        wiring = make_store(way, chosen.folder, chosen.work)
        chunks = wiring.search_index().info(10).chunks
        found = measure(wiring, questions)
        wiring.close()
        cells = []
        for part in range(3):
            means = [sum(found[i][part] for i in sample) / len(sample) for sample in samples]
            every = sum(row[part] for row in found) / len(found)
            cells.append(" ".join(f"{mean:.3f}" for mean in (every, *means)))
        print(f"| {way} | {chunks} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
