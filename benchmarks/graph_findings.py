"""Every defect a review found in the graph, asked again of today's product, and what it gives now.

    python -m benchmarks.graph_findings [FOLDER=STORE[:NAMESPACE] ...]

Three small corpora are loaded as `docstokg load` does (the demo's, one disease known by another
name, a chain of five links) and asked over HTTP. A given set (a folder with questions.jsonl and the
SQLite file it was loaded into, which is only read) adds what needs many questions: how often no
model would be called, what counts as named, and how large an answer is. Exit code 1 if one row
does not hold.
"""

import argparse
import json
import re
import shutil
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from docstokg_functions.expand import handler as expand
from docstokg_functions.ground import handler as ground
from docstokg_functions.retrieve import handler as retrieve
from docstokg_functions.validate import handler as validate
from starlette.testclient import TestClient

from benchmarks.loaded_sets import WRITTEN, LoadedSet
from benchmarks.profile_answer import envelope
from docstokg.contracts.state import Block, Grounded
from docstokg.domain.answer.prompt import block_text
from docstokg.domain.text.words import fold
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.demo import QUESTION, SECOND, THIRD
from docstokg_local.cli.demo_corpus import write_corpus
from docstokg_local.evaluation.retrieval import Question, read_questions
from docstokg_local.loading.stores import stores_of
from docstokg_local.server import application
from docstokg_local.server.prometheus import PrometheusSink
from tests.model_server import serving

MODEL_READS = 5
SEVERAL = 20
RELEVANT = 0.3
MOST_CITATIONS, MOST_KB = 20, 25.0
OK, REFUSED = 200, 400
PATIENT_S = 25
DEMO = (
    QUESTION,
    SECOND,
    THIRD,
    "Which diseases show febrile seizures?",
    "What occurs together with hypotonia?",
    "Is ataxia a kind of seizure?",
)
Json = dict[str, Any]


@dataclass
class Table:
    """Rows of finding, what was asked, what comes now; `bad` counts those that do not hold."""

    rows: list[str] = field(default_factory=list)
    bad: int = 0

    def add(self, finding: str, asked: str, now: str, good: bool) -> None:
        """Add a row and show it."""
        self.bad += not good
        cells = (finding, asked, now, "yes" if good else "NO")
        self.rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        print(self.rows[-1], flush=True)


class Product:
    """The real application over one store, and its steps one by one."""

    def __init__(self, store: Path, cache: Path, namespace: str = "default", **more: Any) -> None:
        url = f"sqlite:///{store}"
        values: Json = {
            "index_url": url, "graph_url": url, "cache_dir": str(cache),
            "graph_budget_per_minute": 1000, "log_level": "ERROR", **more,
        }  # fmt: skip
        self.store, self.namespace, self._number = store, namespace, 0
        sink = PrometheusSink()
        settings = Settings(**values)
        self.wiring = Wiring(settings, Telemetry(sink, lambda line: None))
        self._client = TestClient(application(settings, self.wiring, sink))

    def close(self) -> None:
        """Close the application and what it opened."""
        self._client.close()
        self.wiring.close()

    def post(self, path: str, body: Json) -> tuple[int, Json]:
        """Send a request; give status and body."""
        if "query" in body and path != "/v1/traverse":
            patient = {"timeout_s": PATIENT_S, **body.get("budget", {})}
            body = {**body, "budget": patient}
        reply = self._client.post(path, json={"namespace": self.namespace, **body})
        return reply.status_code, reply.json()

    def answer(self, query: str, **more: Any) -> Json:
        """Ask `/v1/answer`."""
        return self.post("/v1/answer", {"query": query, **more})[1]

    def search(self, query: str, **more: Any) -> Json:
        """Ask `/v1/search`."""
        return self.post("/v1/search", {"query": query, **more})[1]

    def tool(self, name: str, arguments: Json) -> Json:
        """Call a tool of `/mcp`."""
        call = {"name": name, "arguments": {"namespace": self.namespace, **arguments}}
        return self.rpc({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})

    def rpc(self, body: Json) -> Json:
        """Send a message to `/mcp`."""
        accepted = {"Accept": "application/json, text/event-stream"}
        return dict(self._client.post("/mcp", json=body, headers=accepted).json()["result"])

    def grounded(self, query: str) -> Grounded:
        """Run the steps up to what a model would be given."""
        self._number += 1
        event = {"envelope": envelope(query, self.namespace, self._number)}
        made = validate.build(self.wiring)(event, None)
        state: Json = {"plan": made["plan"], "scope": made["scope"]}
        state["retrieval"] = retrieve.build(self.wiring)(state, None)
        state["expansion"] = expand.build(self.wiring)({"mode": "expand", **state}, None)
        return Grounded.model_validate(ground.build(self.wiring)(state, None))

    def names_of(self) -> dict[str, set[str]]:
        """Read every folded name of every entity from the store's own file, past the product."""
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as db:
            rows = db.execute(
                "SELECT e.id, a.key FROM graph_aliases a JOIN graph_entities e USING (entity)"
                " WHERE a.namespace = ?",
                (self.namespace,),
            )
            names: dict[str, set[str]] = {}
            for entity, key in rows:
                names.setdefault(entity, {fold(entity)}).add(key)
        return names


def stats(answer: Json) -> Json:
    """Give `kg_stats` of a response."""
    return dict(answer["diagnostics"]["kg_stats"])


def brought(answer: Json) -> list[Json]:
    """List what the graph brought."""
    return [one for one in answer["citations"] if one["source"] == "kg_expansion"]


def is_named(question: str, names: set[str]) -> bool:
    """Tell whether a question holds one of the folded names as whole words, a plural's s aside."""
    held = f" {fold(question)} "
    return any(f" {name} " in held or f" {name}s " in held for name in names)


def written(folder: Path, **files: Sequence[Json]) -> Path:
    """Write JSON lines."""
    folder.mkdir(parents=True)
    for name, rows in files.items():
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / f"{name}.jsonl").write_text(text + "\n", encoding="utf-8")
    return folder


def sheets(folder: Path) -> Path:
    """Write one disease that its only page calls by its preferred name, among thirty others."""
    pages: list[Json] = [
        {"id": f"c{i}", "doc_id": f"d{i}", "text": f"Disorder number {i} is treated with rest."}
        for i in range(30)
    ]
    text = "Zorbium syndrome responds to quinine."
    pages.append({"id": "z", "doc_id": "dz", "title": "Sheet 31", "text": text})
    entity = {
        "id": "D:1", "name": "Zorbium syndrome", "type": "Disease",
        "synonyms": ["Kappler disease", "ZS-4"],
    }  # fmt: skip
    return written(folder, passages=pages, entities=[entity])


CHAIN = ("Alverin", "Bertolin", "Cordevan", "Dasperit", "Elmorin")


def chain(folder: Path) -> Path:
    """Write five things, each on a page that names nothing else, each made into the next."""
    pages: list[Json] = [
        {
            "id": f"l{i}",
            "doc_id": f"l{i}",
            "title": name,
            "text": f"Keep it {i} weeks, cool and dry.",
        }
        | ({"topics": ["last"]} if i == len(CHAIN) else {})
        for i, name in enumerate(CHAIN, 1)
    ]
    pages += [
        {"id": f"f{i}", "doc_id": f"f{i}", "text": f"Alverino and Alverix leave hall {i} in drums."}
        for i in range(60)
    ]
    entities = [
        {"id": f"X:{i}", "name": name, "type": "Substance"} for i, name in enumerate(CHAIN, 1)
    ]
    relations = [
        {"source": f"X:{i}", "type": "made_into", "target": f"X:{i + 1}"}
        for i in range(1, len(CHAIN))
    ]
    return written(folder, passages=pages, entities=entities, relations=relations)


def loaded(store: Path, folder: Path, cache: Path) -> None:
    """Load the three small corpora, each into its namespace."""
    corpora = {
        "demo": write_corpus(cache, False),
        "sheets": sheets(folder / "sheets"),
        "chain": chain(folder / "chain"),
    }
    url = f"sqlite:///{store}"
    wiring = Wiring(Settings(index_url=url, graph_url=url, cache_dir=str(cache)))
    for namespace, corpus in corpora.items():
        load([corpus], LoadOptions(namespace=namespace), stores_of(wiring), RejectLog(None))
    wiring.close()


def copied(store: Path, folder: Path) -> Path:
    """Copy a store with its arrays, so that nothing is written beside the given one."""
    folder.mkdir()
    shutil.copy(store, folder / store.name)
    shutil.copytree(f"{store}.d", folder / f"{store.name}.d")
    return folder / store.name


@contextmanager
def product(store: Path, cache: Path, namespace: str, **more: Any) -> Iterator[Product]:
    """Open the product over a namespace of a store."""
    opened = Product(store, cache, namespace, **more)
    try:
        opened.answer("The first question opens models and files.")
        yield opened
    finally:
        opened.close()


def small_corpora(table: Table, store: Path, cache: Path) -> None:
    """Ask what needs no set."""
    with product(store, cache, "sheets") as asked:
        by_another_name(table, asked)
    with product(store, cache, "chain") as asked:
        hops(table, asked)
        seeds(table, asked)
    with product(store, cache, "demo") as asked:
        hops_of_the_demo(table, asked)
        nothing_named(table, asked)
        bounds(table, asked)
        counted(table, asked)
        walks(table, asked)
        routes_and_filters(table, asked)
    lost(table, store, cache)
    told(table, store, cache)
    models(table, store, cache)


def by_another_name(table: Table, asked: Product) -> None:
    """D1: what the graph finds is first, relevant and answered from."""
    for name in ("Kappler disease", "D:1", "ZS-4"):
        question = f"How is {name} treated?"
        body = asked.answer(
            question,
            synthesis={"enabled": True, "model": "extractive"},
            budget={"max_tokens_gen": 200},
        )
        first = body["citations"][0]
        evidence = first["kg_evidence"] or {}
        now = (
            f"`{first['chunk_id']}` first, score {first['score']}, kg_path {first['kg_path']}, "
            f"{evidence.get('match_type')}; answer: {body['answer']}"
        )
        good = first["chunk_id"] == "z" and first["score"] >= RELEVANT
        good &= first["kg_path"] == ["D:1"] and "quinine" in body["answer"]
        table.add("D1", question, now, good)
    table.add(
        "D16, F.6",
        "a page with a title only: `document_name`",
        first["document_name"],
        first["document_name"] == "Sheet 31",
    )


def hops(table: Table, asked: Product) -> None:
    """D3: each hop leads one relation further, and says so."""
    found: list[list[str]] = []
    done: list[int] = []
    lost: list[str] = []
    for count in (1, 2, 3):
        body = asked.answer(CHAIN[0], top_k=1, kg_expansion={"hops": count})
        lost += body["diagnostics"]["degraded_reasons"]
        found.append(max((one["kg_path"] for one in body["citations"]), key=len))
        done.append(stats(body)["hops_executed"])
    table.add(
        "D3, F.6",
        f'"{CHAIN[0]}", a chain of five, hops 1, 2, 3',
        f"longest kg_path {found}, hops_executed {done} {lost or ''}",
        [len(path) for path in found] == [2, 3, 4] and done == [1, 2, 3],
    )


def seeds(table: Table, asked: Product) -> None:
    """F.6: chunks, documents and topics are seeds as entities are."""
    given = {"an entity": "X:5", "a chunk": "l5", "a document": "doc:l5", "a topic": "topic:last"}
    for what, seed in given.items():
        body = asked.answer("Where is it kept?", top_k=2, kg_expansion={"seeds": [seed], "hops": 1})
        there = [one["chunk_id"] for one in body["citations"]]
        unknown = [line for line in body["warnings"] if "seeds not in the graph" in line]
        now = f"l5 at place {there.index('l5') + 1 if 'l5' in there else '-'}, warnings {unknown}"
        table.add("F.6", f"{what} as seed, `{seed}`", now, "l5" in there and not unknown)


def hops_of_the_demo(table: Table, asked: Product) -> None:
    """D3: the review's six questions, whose second and third hop added nothing."""
    same = []
    for question in DEMO:
        counts = []
        for count in (1, 2, 3):
            body = asked.answer(question, kg_expansion={"hops": count})
            counts.append((stats(body)["concepts_expanded"], stats(body)["hops_executed"]))
        honest = all(
            more[0] > less[0] if more[1] > less[1] else more == less
            for less, more in pairwise(counts)
        )
        same.append((counts, honest))
    now = "; ".join(str([entities for entities, _ in counts]) for counts, _ in same)
    done = sum(counts[2][1] > 1 for counts, _ in same)
    table.add(
        "D3",
        "six demo questions, hops 1, 2, 3: concepts_expanded",
        f"{now}; every hop that is reported brought entities, {done} of 6 have more than one",
        all(honest for _, honest in same) and done > 0,
    )


def nothing_named(table: Table, asked: Product) -> None:
    """D4 (a): a question that names nothing has no evidence, and what was added its path."""
    body = asked.answer("what is this about")
    evidence = [one for one in body["citations"] if one["kg_evidence"] is not None]
    added = brought(body)
    table.add(
        "D4, F.6",
        '"what is this about"',
        f"{len(body['citations'])} citations, {len(evidence)} with kg_evidence (40 before); "
        f"{len(added)} brought by the graph, {sum(bool(one['kg_path']) for one in added)} of them "
        "with a kg_path",
        not evidence and all(one["kg_path"] for one in added),
    )


def bounds(table: Table, asked: Product) -> None:
    """D12: types and relations bound what is added."""
    question = "What is associated with Angelman syndrome and febrile seizures?"
    free = len(brought(asked.answer(question, kg_expansion={"hops": 2})))
    for limits in ({"concept_types": ["mondo"]}, {"relations": ["nope"]}):
        body = asked.answer(question, kg_expansion={"hops": 2, **limits})
        now = f"{len(brought(body))} added (32 before; {free} without the bound)"
        table.add("D12, F.6", f"`{json.dumps(limits)}`", now, free > 0 and not brought(body))
    body = asked.answer(question, kg_expansion={"hops": 2, "concept_types": ["hp"]})
    ends = {one["kg_path"][-1] for one in brought(body)}
    table.add(
        "D12, F.6",
        '`{"concept_types": ["hp"]}`',
        f"{len(brought(body))} added, each by way of an HP term: {sorted(ends)[:3]}",
        bool(ends) and all(end.startswith("HP:") for end in ends),
    )


def counted(table: Table, asked: Product) -> None:
    """D16, section 2 of the review: what is counted is what is there."""
    wrong, added, unseen = 0, 0, 0
    for question in DEMO:
        body = asked.answer(question, budget={"max_chunks": 10})
        own = [one["uuid"] for one in brought(body)]
        new = [one["uuid"] for one in brought(body) if not one["channels"]]
        gain = body["diagnostics"]["graph_gain"]
        wrong += stats(body)["chunks_added"] != len(own) or list(gain["added"]) != new
        added, unseen = added + len(own), unseen + len(new)
    table.add(
        "D16, F.6",
        "six demo questions, max_chunks 10: chunks_added and graph_gain.added",
        f"{wrong} of 6 differ from the citations ({added} added, {unseen} found by no channel)",
        not wrong,
    )
    off = asked.answer(QUESTION, kg_expansion={"enabled": False})["diagnostics"]["graph_gain"]
    now = f"skipped `{off['skipped']}`"
    table.add("D16, F.6", "kg_expansion.enabled false", now, off["skipped"] == "disabled")
    sizes = [len(asked.search(question)["citations"]) for question in DEMO]
    table.add("D11, F.7", "search with top_k 8, six demo questions", f"{sizes}", max(sizes) <= 8)
    second, alone = (
        [one["uuid"] for one in asked.answer(SECOND, kg_expansion=more)["citations"]][:MODEL_READS]
        for more in ({}, {"enabled": False})
    )
    new = [uuid for uuid in second if uuid not in alone]
    now = f"{len(new)} of the first {MODEL_READS} are not there without the graph"
    table.add("D16, F.9", f'the demo\'s second question: "{SECOND}"', now, bool(new))


def walks(table: Table, asked: Product) -> None:
    """D13, and the view of an answer's graph."""
    seed = {"seed_ids": ["HP:0001250"], "max_depth": 2}
    status, body = asked.post("/v1/traverse", dict(seed))
    formula = body["explain"]["scoring"]["formula"]
    table.add(
        "D13, F.6",
        "traverse without `query`, HTTP",
        f"{status}, {len(body['nodes'])} nodes, scored by: {formula}",
        status == OK and bool(body["nodes"]) and formula.startswith("weight"),
    )
    result = asked.tool("traverse_relationships", dict(seed))
    nodes = result.get("structuredContent", {}).get("nodes", [])
    failed = result.get("isError")
    now = f"isError {failed}, {len(nodes)} nodes"
    table.add("D13, F.6", "the same, MCP", now, not failed and bool(nodes))
    expanded = pruned = 0
    for question in DEMO:
        spent = asked.answer(question, verbosity="graph")["graph"]["budget"]
        expanded, pruned = expanded + spent["expanded"], pruned + spent["pruned"]
    now = f"{pruned} pruned, {expanded} expanded (0 of 1,000 before)"
    table.add("section 4, F.6", "verbosity graph, six demo questions", now, pruned > 0)
    few = asked.answer(THIRD, verbosity="graph", limits={"graph": {"max_nodes_hard": 6}})["graph"]
    cursor = few["budget"]["cursor"]
    status, rest = asked.post("/v1/traverse", {"cursor": cursor})
    shown = {node["id"] for node in few["nodes"]}
    new = [node for node in rest.get("nodes", []) if node["id"] not in shown]
    table.add(
        "section 4, F.6",
        "graph.budget.cursor of a view of 6 nodes, sent to traverse",
        f"{status}, {len(rest.get('nodes', []))} nodes, {len(new)} of them new",
        bool(new) and len(new) == len(rest["nodes"]),
    )


def routes_and_filters(table: Table, asked: Product) -> None:
    """D16: what a route could not do is told, an empty list is refused."""
    route = {"route": True, "seeds": ["NO:1"]}
    lines = asked.search(QUESTION, kg_expansion=route)["warnings"]
    table.add(
        "D16, F.6",
        "route with a seed that is not there",
        "; ".join(lines),
        any("kg_expansion.route" in line for line in lines),
    )
    status, body = asked.post("/v1/search", {"query": QUESTION, "filter": {"doc_id": []}})
    where = [one["path"] for one in body.get("errors", [])]
    table.add("D16, F.6", "`filter: {doc_id: []}`", f"{status} at {where}", status == REFUSED)


def lost(table: Table, store: Path, cache: Path) -> None:
    """D10: what is lost is said without diagnostics."""
    gone = f"sqlite:///{store.parent / 'nowhere.sqlite'}"
    with product(store, cache, "demo", graph_url=gone) as asked:
        body = asked.answer(QUESTION, diagnostics=False)
        lines = [line for line in body["warnings"] if "kg_unavailable" in line]
        now = f"diagnostics {body['diagnostics']}, warnings {body['warnings']}"
        table.add("D10, F.6", "a dead graph, diagnostics false", now, bool(lines))
    with product(store, cache, "demo", feature_traversal_tool=False) as asked:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        tools = asked.rpc(call)["tools"]
        names = [tool["name"] for tool in tools]
        now = ", ".join(names)
        good = "traverse_relationships" not in names
        table.add("D16", "FEATURE_TRAVERSAL_TOOL off: tools of /mcp", now, good)


def told(table: Table, store: Path, cache: Path) -> None:
    """D14: a trace says how much of the walk began at each entity."""
    with product(store, cache, "demo", traces="local") as asked:
        asked.answer("Do Angelman syndrome and Dravet syndrome show febrile seizures?")
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute(
            "SELECT entity, round(score, 4) FROM trace_focused_on WHERE query = ("
            " SELECT id FROM trace_queries ORDER BY at DESC LIMIT 1) ORDER BY score DESC, entity"
        ).fetchall()
    scores = [score for _, score in rows]
    table.add(
        "D14, F.6",
        "FOCUSED_ON of a question with three entities",
        ", ".join(f"{entity} {score}" for entity, score in rows[:4]),
        len(set(scores)) > 1 and 0 < sum(scores) <= 1,
    )


def models(table: Table, store: Path, cache: Path) -> None:
    """D4 (c), D16: what a model is sent, in which order, and what an old name costs."""
    wanted = {"enabled": True, "model": "claude-3-haiku"}
    with serving() as server:
        at = {"llm_base_url": server.url, "llm_api_key": "k"}
        with product(store, cache, "demo", **at) as asked:
            body = asked.answer(THIRD, synthesis=wanted, budget={"max_tokens_gen": 100})
        prompt = server.requests[-1][1]["messages"][1]["content"]
    cost = body["diagnostics"]["estimated_cost_usd"]
    table.add("D16", "claude-3-haiku: estimated_cost_usd", f"{cost}", cost > 0)
    lines = [line.strip() for line in prompt.splitlines() if "Related:" in line]
    typed = [line for line in lines if re.search(r"\([a-z_]+\)", line)]
    now = f"`{typed[0] if typed else lines[:1]}`; {len(typed)} of {len(lines)} name a relation"
    table.add("D4 (c), F.5", "the prompt's line `Related:`", now, bool(typed))
    places = [int(place) for place in re.findall(r"^\[(\d+)\] Source", prompt, re.MULTILINE)]
    now = f"{places}"
    table.add("F.5", "order of the blocks a model is sent", now, places == sorted(places))


def of_a_set(table: Table, asked: Product, name: str, questions: Sequence[Question]) -> None:
    """D1, D3, D4, D11, F.7: what needs many questions."""
    named = asked.names_of()
    silent = whole = false = direct = 0
    match = relation = related = 0
    citations: list[int] = []
    sizes: list[float] = []
    searched: list[int] = []
    for question in questions:
        grounded = asked.grounded(question.question)
        first = {one.doc_id for one in grounded.citations[:MODEL_READS]}
        silent += not grounded.relevant
        whole += not grounded.relevant and set(question.gold) <= first
        for one in grounded.citations:
            if one.kg_evidence is not None and one.kg_evidence.match_type == "direct_mention":
                direct += 1
                false += not is_named(question.question, named[one.kg_evidence.entity_id])
        texts = [block_text(block) for block in grounded.blocks]
        match += sum("- direct mention" in text for text in texts)
        related += sum("Related:" in text for text in texts)
        relation += sum(_typed(block) for block in grounded.blocks)
        body = asked.answer(question.question)
        citations.append(len(body["citations"]))
        sizes.append(len(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()))
        searched.append(len(asked.search(question.question)["citations"]))
    count = len(questions)
    table.add(
        "D1",
        f"{name}, {count} questions: no model called",
        f"{silent} (17 of 100 before), {whole} of them with all gold documents in the first five "
        "(5 before)",
        not whole,
    )
    table.add(
        "D4 (a, b), F.6",
        f"{name}: direct_mention of what the question does not name",
        f"{false} of {direct} citations",
        not false,
    )
    table.add(
        "D4 (c), F.5",
        f"{name}: `Related:` in the blocks",
        f"{related} of {sum(1 for _ in questions) * MODEL_READS} blocks, {relation} with a "
        "relation's type",
        related > 0,
    )
    most = statistics.median(citations), statistics.median(sizes) / 1000
    table.add(
        "F.7",
        f"{name}: a default answer, median",
        f"{most[0]:g} citations, {most[1]:.1f} KB (most {max(citations)}, {max(sizes) / 1000:.1f})",
        most[0] <= MOST_CITATIONS and most[1] <= MOST_KB,
    )
    now = f"{max(searched)} at most (40 before)"
    table.add("D11, F.7", f"{name}: citations of a search, top_k 8", now, max(searched) <= 8)
    third_hops(table, asked, name, questions[:SEVERAL])


def third_hops(table: Table, asked: Product, name: str, questions: Sequence[Question]) -> None:
    """D3: a third hop differs from a second where the graph leads on."""
    grown = changed = 0
    for question in questions:
        two, three = (
            asked.answer(question.question, kg_expansion={"hops": count}) for count in (2, 3)
        )
        grown += stats(three)["concepts_expanded"] > stats(two)["concepts_expanded"]
        lists = [[one["uuid"] for one in body["citations"]] for body in (two, three)]
        changed += lists[0] != lists[1]
    table.add(
        "D3",
        f"{name}, {len(questions)} questions: hops 3 beside 2",
        f"more entities in {grown}, other citations in {changed} (3 of 20 before)",
        grown > 0,
    )


def _typed(block: Block) -> bool:
    return any("via shared documents" not in line for line in block.related)


def main() -> None:
    """Ask everything and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", type=LoadedSet.read, metavar=WRITTEN)
    parser.add_argument("--limit", type=int, default=100)
    options = parser.parse_args()
    table = Table()
    print("| finding | asked | now | holds |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, cache = folder / "store.sqlite", Path(Settings().cache_dir).expanduser()
        loaded(store, folder, cache)
        small_corpora(table, store, cache)
        for place, file, namespace in options.sets:
            copy = copied(file, folder / place.name)
            questions = read_questions(place, options.limit)
            with product(copy, cache, namespace) as asked:
                of_a_set(table, asked, place.name, questions)
    print(f"\n{len(table.rows)} rows, {table.bad} do not hold")
    sys.exit(1 if table.bad else 0)


if __name__ == "__main__":
    main()
