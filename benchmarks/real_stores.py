"""What the real stores cost and whether they answer as the embedded ones do.

    python -m benchmarks.real_stores latency SET_FOLDER... --namespace NS [--own]
    python -m benchmarks.real_stores same SET_FOLDER... --namespace NS --embedded sqlite:///STORE
    python -m benchmarks.real_stores visibility [--requests 1000]

The stores are those of the settings (DOCSTOKG_INDEX_URL, DOCSTOKG_GRAPH_URL, ...), loaded before.

Questions of several sets are mixed. `latency`: requests without synthesis through the whole state
machine, each question asked for the first time, p50 and p95 of each step; then the bare calls of
the same requests (search, slice, second hop, get, both query encodings), issued alone by the same
clients in the same run. The ratio divides the medians of a request's wall time and of the sum of
its own bare calls; `own_cpu_ms`: this process' processor time for either. `--hops 1`: no second
hop. `--own`: servers of this run's own, loaded with the first folder's passages before (its triples
as well).
`same`: how many citations the embedded and the real stores have in common, and in what order.
`visibility`: a generated corpus over 5 namespaces and 20 groups in a namespace prefix of its own;
counts everything an answer shows that its caller may not see.
"""

import argparse
import base64
import hashlib
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.load_stores import real_stores
from docstokg.contracts.envelope import Caller, Envelope
from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import (
    ChunkNode,
    ChunkRecord,
    EntityRecord,
    FactRecord,
    IndexInfo,
    MentionRecord,
    RelationRecord,
    Scope,
)
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, Hydrated
from docstokg.domain.vectors import pack
from docstokg.domain.visibility import facets, may_see
from docstokg.errors import Unavailable
from docstokg.observability import Telemetry
from docstokg.ports import KnowledgeGraph, SearchIndex
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.engine.workflow import LocalWorkflow

PATIENT_S = 30.0
WARM_UP = 40
SPACES = tuple(f"vis-{name}" for name in "abcde")
TOPICS = 30
GROUPS = tuple(f"g{number}" for number in range(20))


class RecordingIndex:
    """An index that remembers what it was asked, so that the same can be asked alone."""

    def __init__(self, inner: SearchIndex) -> None:
        self.inner = inner
        self.searches: list[tuple[Sequence[ChannelQuery], Scope]] = []
        self.reads: list[tuple[Sequence[str], Scope]] = []
        self.took: dict[str, list[float]] = {"search": [], "get": []}

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, timeout_s: float
    ) -> tuple[ChannelResult, ...]:
        """Remember and pass on."""
        self.searches.append((tuple(queries), scope))
        begun = time.perf_counter()
        found = self.inner.search(queries, scope, timeout_s)
        self.took["search"].append((time.perf_counter() - begun) * 1000)
        return found

    def get(self, uuids: Sequence[str], scope: Scope, timeout_s: float) -> Hydrated:
        """Remember and pass on."""
        self.reads.append((tuple(uuids), scope))
        begun = time.perf_counter()
        found = self.inner.get(uuids, scope, timeout_s)
        self.took["get"].append((time.perf_counter() - begun) * 1000)
        return found

    def generation(self, timeout_s: float) -> str | None:
        """Pass on."""
        return self.inner.generation(timeout_s)

    def info(self, timeout_s: float) -> IndexInfo:
        """Pass on."""
        return self.inner.info(timeout_s)


class RecordingGraph:
    """A graph that remembers its slices."""

    def __init__(self, inner: KnowledgeGraph) -> None:
        self.inner = inner
        self.slices: list[tuple[SliceRequest, Scope]] = []
        self.widened: list[tuple[Sequence[str], SliceRequest, Scope]] = []
        self.took: dict[str, list[float]] = {"slice": [], "second_hop": []}

    def slice(self, request: SliceRequest, scope: Scope, timeout_s: float) -> GraphSlice:
        """Remember and pass on."""
        self.slices.append((request, scope))
        begun = time.perf_counter()
        found = self.inner.slice(request, scope, timeout_s)
        self.took["slice"].append((time.perf_counter() - begun) * 1000)
        return found

    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, timeout_s: float
    ) -> GraphSlice:
        """Remember and pass on."""
        self.widened.append((tuple(frontier), request, scope))
        begun = time.perf_counter()
        found = self.inner.widen(frontier, request, scope, timeout_s)
        self.took["second_hop"].append((time.perf_counter() - begun) * 1000)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def main() -> int:
    """Do one of the three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["latency", "same", "visibility"])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--hops", type=int, choices=[1, 2, 3], help="default: adaptive")
    parser.add_argument("--embedded", help="sqlite:///STORE with the same content")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--own", action="store_true", help="start servers and load them")
    given = parser.parse_intermixed_args()
    with ExitStack() as stack:
        variables = dict(os.environ)
        if given.own:
            variables |= stack.enter_context(
                real_stores(given.folders[0], given.namespace)
            ).environment()
        return measured(given, Settings.from_environment(variables), parser)


def measured(given: argparse.Namespace, settings: Settings, parser: argparse.ArgumentParser) -> int:
    """Measure with these stores and print the report; 1 when something leaked."""
    if given.what == "visibility":
        report = visibility(settings, given.requests)
    elif not given.folders:
        parser.error("a folder with questions.jsonl is needed")
    else:
        wanted = questions_of(given.folders)[: given.limit]
        if given.what == "latency":
            report = latency(settings, wanted, given.namespace, given.hops)
        else:
            report = same(settings, given.embedded, wanted, given.namespace)
    text = json.dumps(report, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", "utf-8")
    return 1 if report.get("leaks") else 0


def questions_of(folders: Sequence[Path]) -> list[str]:
    """Read every set's questions, mixed in a fixed order, none twice."""
    found: dict[str, None] = {}
    for folder in folders:
        lines = (folder / "questions.jsonl").read_text("utf-8").strip().split("\n")
        found |= dict.fromkeys(json.loads(line)["question"] for line in lines)
    mixed = list(found)
    random.Random(3).shuffle(mixed)
    return mixed


def latency(
    settings: Settings, questions: Sequence[str], namespace: str, hops: int | None
) -> dict[str, Any]:
    """Time whole requests, then their bare calls."""
    wiring = Wiring(settings, Telemetry(level="ERROR"))
    index = RecordingIndex(wiring.search_index())
    graph = RecordingGraph(wiring.knowledge_graph())
    with tempfile.TemporaryDirectory() as cache:  # every question is encoded, as a new one is
        fresh = Wiring(settings.model_copy(update={"cache_dir": cache}), wiring.telemetry)
        made = {
            "search_index": index,
            "knowledge_graph": graph,
            "embedder": fresh.embedder(),
            "sparse_encoder": fresh.sparse_encoder(),
        }
        workflow = LocalWorkflow(Wiring(settings, wiring.telemetry, made))
        for question in questions[:WARM_UP]:  # compilers of both servers warm up
            ask(workflow, request(f"Again: {question}", namespace, hops))
        for kept in (index.searches, index.reads, graph.slices, graph.widened):
            kept.clear()
        for times in (*index.took.values(), *graph.took.values()):
            times.clear()
        steps: dict[str, list[float]] = {}
        walls, kinds, degraded = [], Counter[int](), Counter[str]()
        one_hop: list[float] = []
        calls: list[tuple[int, int, int, int]] = []
        spent = [time.process_time()]
        for question in questions:
            seen = (len(index.searches), len(graph.slices), len(graph.widened), len(index.reads))
            begun = time.perf_counter()
            outcome = ask(workflow, request(question, namespace, hops))
            walls.append((time.perf_counter() - begun) * 1000)
            calls.append(seen)
            assert outcome.status == 200, outcome
            diagnostics = outcome.body["diagnostics"]
            degraded.update(diagnostics["degraded_reasons"])
            kinds[diagnostics["kg_stats"]["hops_executed"]] += 1
            if diagnostics["kg_stats"]["hops_executed"] == 1:
                one_hop.append(diagnostics["timings_ms"]["kg_expansion"])
            for step, taken in diagnostics["timings_ms"].items():
                steps.setdefault(step, []).append(taken)
        calls.append((len(index.searches), len(graph.slices), len(graph.widened), len(index.reads)))
        spent.append(time.process_time())
        inside = {name: quantiles(found) for name, found in (index.took | graph.took).items()}
        bare = {
            "search": timed(lambda one: index.inner.search(*one, PATIENT_S), index.searches),
            "slice": timed(lambda one: graph.inner.slice(*one, PATIENT_S), graph.slices),
            "second_hop": timed(lambda one: graph.inner.widen(*one, PATIENT_S), graph.widened),
            "get": timed(lambda one: index.inner.get(*one, PATIENT_S), index.reads),
        }
        floors = [
            sum(
                sum(bare[name][first:last])
                for name, first, last in zip(bare, begin, end, strict=True)
            )
            for begin, end in itertools.pairwise(calls)
        ]
        dense, sparse = uncached(made["embedder"]), uncached(made["sparse_encoder"])
        if dense is not None:
            bare["encode"] = timed(lambda text: dense.embed([text], PATIENT_S), questions)
        if sparse is not None:
            bare["encode_sparse"] = timed(lambda text: sparse.encode_query(text, None), questions)
        spent.append(time.process_time())
        for name in ("encode", "encode_sparse"):
            floors = [
                a + b for a, b in zip(floors, bare.get(name, [0.0] * len(floors)), strict=True)
            ]
    return {
        "namespace": namespace,
        "requests": len(questions),
        "load": os.getloadavg()[0],
        "steps_ms": {step: quantiles(found) for step, found in steps.items()},
        "one_hop_expansion_ms": quantiles(one_hop),
        "wall_ms": quantiles(walls),
        "inside_ms": inside,
        "bare_ms": {name: quantiles(found) for name, found in bare.items()},
        "bare_sum_ms": quantiles(floors),
        "own_cpu_ms": {
            name: round((after - before) / len(questions) * 1000, 1)
            for name, (before, after) in zip(
                ("request", "bare"), itertools.pairwise(spent), strict=True
            )
        },
        "ratio_of_medians": round(statistics.median(walls) / statistics.median(floors), 2),
        "searches_per_request": len(index.searches) / len(questions),
        "reads_per_request": len(index.reads) / len(questions),
        "requests_by_hops": dict(kinds),
        "degraded": dict(degraded),
    }


def uncached(encoder: object) -> Any:
    """Give the model behind a cache."""
    return getattr(encoder, "_inner", None)


def timed[Asked](work: Callable[[Asked], object], asked: Iterable[Asked]) -> list[float]:
    """Milliseconds of each call."""
    found = []
    for one in asked:
        begun = time.perf_counter()
        work(one)
        found.append((time.perf_counter() - begun) * 1000)
    return found


def quantiles(found: Sequence[float]) -> dict[str, float]:
    """Give p50 and p95, in milliseconds."""
    ordered = sorted(found) or [0.0]
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], 1),
    }


def request(question: str, namespace: str, hops: int | None = None) -> dict[str, Any]:
    """Make a request without synthesis."""
    chosen = {} if hops is None else {"kg_expansion": {"hops": hops}}
    return {"query": question, "namespace": namespace, "budget": {"timeout_s": 25}, **chosen}


def same(
    settings: Settings, embedded: str | None, questions: Sequence[str], namespace: str
) -> dict[str, Any]:
    """Ask both kinds of stores and compare the first ten citations."""
    if embedded is None:
        raise SystemExit("--embedded sqlite:///STORE is needed")
    local = settings.model_copy(update={"index_url": embedded, "graph_url": embedded})
    answers: list[list[list[str]]] = []
    for chosen in (settings, local):
        workflow = LocalWorkflow(Wiring(chosen, Telemetry(level="ERROR")))
        answers.append([])
        for question in questions:
            body = ask(workflow, request(question, namespace)).body
            answers[-1].append([row["uuid"] for row in body.get("citations", [])])
    pairs = list(zip(*answers, strict=True))
    shared = [len(set(a[:10]) & set(b[:10])) / max(1, len(b[:10])) for a, b in pairs]
    return {
        "questions": len(pairs),
        "same_first": sum(a[:1] == b[:1] for a, b in pairs) / len(pairs),
        "same_ten_in_order": sum(a[:10] == b[:10] for a, b in pairs) / len(pairs),
        "overlap_of_ten": round(statistics.mean(shared), 3),
        "identical": sum(a == b for a, b in pairs) / len(pairs),
    }


# --- visibility -------------------------------------------------------------------------------


def visibility(settings: Settings, requests: int) -> dict[str, Any]:
    """Load a generated corpus, ask as many callers, count what they should not have seen."""
    wiring = Wiring(settings, Telemetry(level="ERROR"))
    rng = random.Random(20)
    acl = _load_secrets(wiring, rng)
    workflow = LocalWorkflow(wiring)
    leaks: Counter[str] = Counter()
    shown = 0
    try:
        for number in range(requests):
            space = rng.choice(SPACES)
            groups = tuple(sorted(rng.sample(GROUPS, rng.randrange(4))))
            topics = [rng.randrange(TOPICS) for _ in range(3)]
            words = " ".join(f"topic{topic}" for topic in topics)
            reply = workflow.run(
                Envelope(
                    route="answer",
                    request_id=uuid.UUID(int=rng.getrandbits(128)).hex,
                    caller=Caller(sub=f"caller-{number}", namespaces=(space,), groups=groups),
                    body_b64=base64.b64encode(
                        json.dumps(
                            {
                                "query": f"What of {words}?",
                                "namespace": space,
                                "verbosity": rng.choice(["snippet", "graph"]),
                                "budget": {"timeout_s": 25},
                            }
                        ).encode()
                    ).decode(),
                )
            )
            body = json.loads(reply.body)
            if reply.statusCode != 200:
                leaks[f"status {reply.statusCode} {body.get('code')}"] += 1
                continue
            shown += len(body["citations"])
            leaks.update(_leaks(body, acl, space, groups))
            leaks.update(_miscounts(wiring, acl, Scope(namespace=space, groups=groups), topics))
    finally:
        for space in SPACES:
            wiring.index_writer().delete(space, None)
            wiring.graph_writer().delete(space, None)
        wiring.index_writer().close_load()
        wiring.graph_writer().close_load()
        wiring.close()
    return {"requests": requests, "citations": shown, "leaks": dict(leaks)}


def _load_secrets(wiring: Wiring, rng: random.Random) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Write 60 chunks a namespace; every word of a closed chunk's entities is its own."""
    acl: dict[str, tuple[str, tuple[str, ...]]] = {}
    index, graph = wiring.index_writer(), wiring.graph_writer()
    try:
        info = wiring.search_index().info(PATIENT_S)
    except Unavailable:  # an embedded store is made by its first load
        info = IndexInfo()
    embedder = wiring.embedder()
    model = info.embedding_model or (embedder.model if embedder else None)
    dimension = info.dimension or (embedder.dimension if embedder else None)
    index.open_load("visibility", model, dimension, info.sparse_model)
    for space in SPACES:
        chunks, nodes, entities, relations, facts = [], [], [], [], []
        mentions: dict[str, list[MentionRecord]] = {}
        for place in range(60):
            name = str(uuid.uuid5(uuid.NAMESPACE_URL, f"docstokg:{space}/{place}"))
            groups = tuple(rng.sample(GROUPS, rng.randrange(3)))
            acl[name] = (space, groups)
            topic = place % TOPICS
            text = f"On topic{topic} and topic{(topic + 1) % TOPICS}, note {place} of {space}."
            vector = [rng.gauss(0, 1) for _ in range(dimension or 8)]
            common = {
                "uuid": name,
                "chunk_id": f"c{place}",
                "namespace": space,
                "doc_id": f"{space}-d{place}",
                "title": f"Note {place}",
                "acl": groups,
            }
            chunks.append(
                (
                    ChunkRecord(
                        **common,
                        text=text,
                        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
                        vector=pack(vector) if model else None,
                        sparse={f"topic{topic}": 1.0},
                        run_id="visibility",
                    ),
                    f"print {place}",
                )
            )
            nodes.append(ChunkNode(**common, facets=facets({"doc_id": common["doc_id"]}, (), {})))
            own = f"ent:{space}-{place}"  # an entity that this chunk alone brought
            entities.append(
                EntityRecord(id=own, namespace=space, name=f"private {place} {space}", listed=False)
            )
            shared = f"ent:{space}-topic{topic}"
            mentions[name] = [
                MentionRecord(uuid=name, entity=own),
                MentionRecord(uuid=name, entity=shared),
                MentionRecord(uuid=name, entity=f"ent:{space}-topic{(topic + 1) % TOPICS}"),
            ]
            relations.append(
                RelationRecord(
                    namespace=space, source=shared, type="implies", target=own, evidence_uuid=name
                )
            )
            facts.append(
                FactRecord(
                    id=f"f{place}",
                    namespace=space,
                    text=f"topic{topic} implies private {place}",
                    source=shared,
                    type="implies",
                    target=own,
                    evidence_uuid=name,
                    doc_id=str(common["doc_id"]),
                    acl=groups,
                )
            )
        for topic in range(TOPICS):
            entities.append(
                EntityRecord(
                    id=f"ent:{space}-topic{topic}",
                    namespace=space,
                    name=f"topic{topic}",
                    listed=False,
                )
            )
        index.put(chunks)
        index.put_facts(facts)
        graph.put_chunks(nodes)
        graph.put_entities(entities)
        graph.put_relations(relations)
        graph.put_mentions(space, mentions)
    index.close_load()
    graph.close_load()
    return acl


def _leaks(
    body: Mapping[str, Any],
    acl: Mapping[str, tuple[str, tuple[str, ...]]],
    space: str,
    groups: tuple[str, ...],
) -> Iterable[str]:
    """Name everything in an answer that this caller may not see."""
    hidden_entities = {
        f"ent:{where}-{place}"
        for place, (name, (where, access)) in _places(acl)
        if where != space or not may_see(access, groups)
    }
    visible = {
        name for name, (where, access) in acl.items() if where == space and may_see(access, groups)
    }
    for row in body["citations"]:
        if row["uuid"] not in visible:
            yield "citation"
        if set(row["kg_path"]) & hidden_entities:
            yield "path"
        evidence = row["kg_evidence"]
        if evidence and evidence["entity_id"] in hidden_entities:
            yield "evidence entity"
        for edge in (evidence or {}).get("path", []):
            if {edge["src"], edge["dst"]} & hidden_entities:
                yield "evidence edge"
            stated = edge.get("evidence") or {}
            if stated.get("uuid") not in (None, *visible):
                yield "evidence chunk"
    for node in (body.get("graph") or {}).get("nodes", []):
        if node["id"] in hidden_entities or (node["id"] in acl and node["id"] not in visible):
            yield "graph node"
    text = json.dumps(body, ensure_ascii=False)
    for entity in hidden_entities:
        where, _, place = entity.removeprefix("ent:").rpartition("-")
        if f'"{entity}"' in text:
            yield "id anywhere"
        if f'"private {place} {where}"' in text:
            yield "name anywhere"


def _miscounts(
    wiring: Wiring,
    acl: Mapping[str, tuple[str, tuple[str, ...]]],
    scope: Scope,
    topics: Sequence[int],
) -> Iterable[str]:
    """Compare facts and counts the stores give this caller with what the generated lists say."""
    visible = {
        name: place
        for place, (name, (where, access)) in _places(acl)
        if where == scope.namespace and may_see(access, scope.groups)
    }
    holders = Counter(
        topic for place in visible.values() for topic in (place % TOPICS, (place + 1) % TOPICS)
    )
    wanted = {f"ent:{scope.namespace}-topic{topic}": holders[topic] for topic in topics}
    found = wiring.knowledge_graph().entities(list(wanted), scope, PATIENT_S)
    if {row.id: row.mentions for row in found} != {k: n for k, n in wanted.items() if n}:
        yield "count"
    words = " ".join(f"topic{topic}" for topic in topics)
    asked = [ChannelQuery(channel="facts", size=20, text=words)]
    (result,) = wiring.search_index().search(asked, scope, PATIENT_S)
    if any(fact.evidence_uuid not in visible for fact in result.facts):
        yield "fact"


def _places(
    acl: Mapping[str, tuple[str, tuple[str, ...]]],
) -> Iterable[tuple[int, tuple[str, tuple[str, tuple[str, ...]]]]]:
    for order, (name, access) in enumerate(acl.items()):
        yield order % 60, (name, access)


if __name__ == "__main__":
    sys.exit(main())
