"""Measure query expansion: other names of the question's entities in the word channels.

    python -m benchmarks.other_names STORE QUESTIONS [--weight .1 .3] [--limit 300]

STORE is a SQLite file with the documents of QUESTIONS, a file of JSON lines {id, question, gold},
or an entity list `entities.jsonl`: then "What is X?" is asked of every synonym X of an entity whose
name is the title of a document. Every question is asked as a user asks it, with the graph, and
again for every weight with the preferred names and synonyms of the entities that it names added to
BM25 and the sparse channel. Prints nDCG@10 and the share of questions whose first document is
right, with standard errors; the error of a difference is that of paired questions.

`other_names_questions.jsonl` belongs to a store written by `docstokg demo --index sqlite:///STORE`,
into which `own_company` and `own_company_names` were loaded.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docstokg.contracts.graph import SliceRequest
from docstokg.contracts.records import Scope
from docstokg.contracts.request import DEFAULT_NAMESPACE
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, Hit
from docstokg.domain import fusion
from docstokg.domain.graph.slice_graph import SliceGraph, decided, names_in, with_other_names
from docstokg.domain.text.folding import question_keys
from docstokg.domain.text.query_terms import content_words
from docstokg.domain.text.words import fold
from docstokg.observability import Telemetry
from docstokg.ports import KnowledgeGraph, SearchIndex, SparseEncoder
from docstokg.wiring import Wiring
from docstokg_local.cli.stores import settings_of
from docstokg_local.evaluation.retrieval import (
    TOP_K,
    Question,
    ask_all,
    documents,
    metrics,
    read_lines,
)

FIRST_HOP_NODES = 300
TIME_S = 60.0


class ExpandedIndex:
    """A search index that adds other names to the word channels, with a weight."""

    def __init__(self, index: SearchIndex, graph: KnowledgeGraph, encoder: SparseEncoder) -> None:
        self._index, self._graph, self._encoder = index, graph, encoder
        self.weight = 0.0
        self.expanded = 0
        self.lookups_ms: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, timeout_s: float
    ) -> tuple[ChannelResult, ...]:
        """Search the queries; fuse the BM25 hits with those of the added words."""
        own = {query.channel: query for query in queries if not query.unordered}
        added = self._added(own["bm25"].text, scope) if self.weight and "bm25" in own else ""
        if not added:
            return self._index.search(queries, scope, timeout_s)
        self.expanded += 1
        by_words = own["bm25"].model_copy(update={"text": added})
        asked = [self._sparse(q, added) if q.channel == "splade" else q for q in queries]
        *results, others = self._index.search([*asked, by_words], scope, timeout_s)
        place = queries.index(own["bm25"])
        hits = self._fused(results[place].hits, others.hits)[: own["bm25"].size]
        results[place] = results[place].model_copy(update={"hits": hits})
        return tuple(results)

    def _added(self, question: str, scope: Scope) -> str:
        """Return the words of the other names that the question lacks."""
        started = time.perf_counter()
        request = SliceRequest(alias_keys=question_keys(question), max_nodes=FIRST_HOP_NODES)
        part = self._graph.slice(request, scope, TIME_S)
        graph = SliceGraph(part, ())
        matches = with_other_names(decided(names_in(question, part.aliases), graph), graph)
        entity_ids = sorted({entity for match in matches for entity in match.entity_ids})
        names = self._graph.names(entity_ids, scope, TIME_S)
        self.lookups_ms.append((time.perf_counter() - started) * 1000)
        words = content_words(" ".join(name for own in names.values() for name in own))
        known = set(content_words(question))
        return " ".join(word for word in words if word not in known)

    def _sparse(self, query: ChannelQuery, added: str) -> ChannelQuery:
        weights = dict(query.weights)
        for token, weight in self._encoder.encode_query(added, TIME_S).items():
            weights[token] = max(weights.get(token, 0.0), self.weight * weight)
        return query.model_copy(update={"weights": weights})

    def _fused(self, own: Sequence[Hit], others: Sequence[Hit]) -> tuple[Hit, ...]:
        lists = {
            name: [(hit.uuid, hit.score) for hit in hits]
            for name, hits in (("own", own), ("others", others))
        }
        vectors = {hit.uuid: hit.vector for hit in (*own, *others)}
        fused = fusion.minmax(lists, {"own": 1.0, "others": self.weight})
        return tuple(Hit(uuid, score, vectors[uuid]) for uuid, score in fused)


def main() -> None:
    """Ask all questions with each weight and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--weight", type=float, nargs="+", default=[0.1, 0.3])
    parser.add_argument("--limit", type=int, default=300, help="evenly spaced questions")
    options = parser.parse_args()
    url = f"sqlite:///{options.store.resolve()}"
    wiring = Wiring(settings_of(url, url), Telemetry(level="ERROR"))
    encoder = wiring.sparse_encoder()
    if encoder is None:
        raise SystemExit("no sparse encoder is installed")
    every = questions_of(wiring, options.questions)
    count = min(options.limit, len(every))
    questions = [every[place * len(every) // count] for place in range(count)]
    index = ExpandedIndex(wiring.search_index(), wiring.knowledge_graph(), encoder)
    wiring.override("search_index", index)
    plain = measured(wiring, questions)
    print(f"{options.questions}: {len(questions)} questions")
    for number, name in enumerate(("nDCG@10", "first right")):
        print(f"{name} {shown([scores[number] for scores in plain])}")
    for weight in options.weight:
        index.weight, index.expanded = weight, 0
        scores = measured(wiring, questions)
        took = statistics.median(index.lookups_ms)
        print(f"weight {weight}: words added to {index.expanded}, names looked up in {took:.1f} ms")
        for number, name in enumerate(("nDCG@10", "first right")):
            changes = [
                after[number] - before[number] for before, after in zip(plain, scores, strict=True)
            ]
            up, down = (sum(sign * change > 0 for change in changes) for sign in (1, -1))
            print(f"  {name} {shown(changes, '+')}; {up} questions better, {down} worse")
    wiring.close()


def questions_of(wiring: Wiring, path: Path) -> list[Question]:
    """Read questions, or make them from the synonyms of an entity list."""
    if not path.name.startswith("entities"):
        return list(read_lines([path], Question.model_validate))
    titled: dict[str, set[str]] = {}
    for node in wiring.graph_writer().stored_nodes(DEFAULT_NAMESPACE):
        titled.setdefault(fold(node.title), set()).add(node.doc_id)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Question(id=f"{row['id']} {name}", question=f"What is {name}?", gold=tuple(sorted(gold)))
        for row in rows
        if (gold := titled.get(fold(row["name"])))
        for name in row.get("synonyms", ())
    ]


def measured(wiring: Wiring, questions: Sequence[Question]) -> list[tuple[float, float]]:
    """Return each question's nDCG@10, and whether its first document is right; 0 for errors."""
    scores = {question.id: (0.0, 0.0) for question in questions}

    def take(question: Question, body: dict[str, Any]) -> None:
        found = documents(body)
        first = float(found[:1] != [] and found[0] in question.gold)
        scores[question.id] = (metrics(found, set(question.gold))["ndcg@10"], first)

    fields = {"top_k": TOP_K, "budget": {"timeout_s": TIME_S}}
    requests = [(question, {"query": question.question, **fields}) for question in questions]
    report = ask_all(wiring, "questions", requests, take)
    if report["errors"] or report["degraded"]:
        print(f"{report['errors']} errors, {report['degraded']} degraded")
    return list(scores.values())


def shown(values: Sequence[float], sign: str = "") -> str:
    """Return a mean and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):{sign}.4f} (standard error {error:.4f})"


if __name__ == "__main__":
    main()
