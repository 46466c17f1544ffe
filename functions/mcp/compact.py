"""Compact responses for agents."""

from collections.abc import Iterable, Mapping
from typing import Any

from docstokg.contracts import Json
from docstokg.contracts.response import CO_MENTIONED
from docstokg.domain.answer.grounding import proof

# Uncited passages shown in addition to the cited ones.
UNCITED_SHOWN = 2

_CHANNELS = {
    "bm25": "words",
    "splade": "related words",
    "dense": "meaning",
    "facts": "a stated fact",
}


def compact_search(document: Json, _: Json) -> Json:
    """Return the passages in order, with warnings and degraded reasons."""
    citations = document["citations"]
    return {
        "citations": _citations(citations, citations),
        **_graph(document),
        **_troubles(document),
    }


def compact_answer(document: Json, _: Json) -> Json:
    """Return the answer, its cited and some further passages, and unsupported sentences."""
    answer, grounding = document["answer"], document["grounding"]
    citations = document["citations"]
    cited = [citation for citation in citations if citation["cited"]]
    spare = [citation for citation in citations if not citation["cited"]]
    # Without an answer, all passages are shown.
    shown = [*cited, *spare[:UNCITED_SHOWN]] if answer and cited else citations
    return {
        **_said(
            answer=answer,
            confidence_level=answer and document["confidence_level"],
            doubtful=grounding and _doubtful(answer, grounding),
        ),
        **({"grounded": grounding["grounded"], "proof": proof(grounding)} if grounding else {}),
        "citations": _citations(sorted(shown, key=lambda c: int(c["rank"])), shown),
        **_said(more=len(citations) - len(shown)),
        **_graph(document),
        **_troubles(document),
    }


def compact_check(document: Json, arguments: Json) -> Json:
    """Return each sentence with its verdict, and the inconsistencies with the graph."""
    text, grounding = str(arguments.get("text", "")), document["grounding"]
    uuids = {source["rank"]: source["uuid"] for source in document["diagnostics"]["sources"]}
    sentences = []
    for one in grounding["sentences"]:
        span = one.get("span")
        passage = span["uuid"] if span else next((uuids.get(r) for r in one["citations"]), None)
        said = _said(verdict=one["verdict"], reasons=one["reasons"], uuid=passage)
        sentences.append({"sentence": text[one["start"] : one["end"]], **said})
    issues = [
        {"text": text[issue["start"] : issue["end"]], "message": issue["message"]}
        for issue in (document["consistency"] or {"issues": ()})["issues"]
    ]
    made = {"grounded": grounding["grounded"], "sentences": sentences}
    return made | _said(issues=issues) | _troubles(document)


def compact_walk(document: Json, _: Json) -> Json:
    """Return nodes and edges without scores."""
    explain = document["explain"]
    troubles = _said(cursor=document["cursor"]) | _troubles({**document, "diagnostics": explain})
    return _nodes_and_edges(document) | troubles


def why(citation: Json, ranks: Mapping[str, int]) -> str:
    """Return the channels that found a passage, and the graph path to it; `ranks`: by uuid."""
    ways = [_CHANNELS[name] for name in _CHANNELS if name in citation["channels"]]
    remarks = ["by " + ", ".join(ways)] if ways else []
    evidence = citation["kg_evidence"]
    if evidence is not None:
        name = f"{evidence['matched_entity']} ({evidence['entity_id']})"
        if evidence["match_type"] == "direct_mention":
            remarks.append(f"names {name}")
        else:
            remarks.append(f"graph: {'; '.join(graph_facts(citation, ranks))}")
    elif citation["kg_path"]:
        remarks.append("graph: found by the walk")
    return "; ".join(remarks)


def graph_facts(citation: Json, ranks: Mapping[str, int]) -> list[str]:
    """Return the edges of a citation's path as `A -type-> B (stated in [n])`."""
    evidence, facts = citation["kg_evidence"], []
    names = {citation["kg_path"][0]: evidence["related_to"]} if citation["kg_path"] else {}
    names[evidence["entity_id"]] = evidence["matched_entity"]
    for edge in evidence["path"]:
        source, target = (names.get(end) or end for end in (edge["src"], edge["dst"]))
        rank = ranks.get(edge["evidence"]["uuid"]) if edge["evidence"] else None
        stated = f" (stated in [{rank}])" if rank and edge["type"] != CO_MENTIONED else ""
        facts.append(f"{source} -{edge['type']}-> {target}{stated}")
    return facts


def _citations(chosen: Iterable[Json], shown: Iterable[Json]) -> list[Json]:
    ranks = {one["uuid"]: int(one["rank"]) for one in shown}
    return [
        {
            "marker": f"[{one['rank']}]",
            "passage": one["full_text"] or one["snippet"],
            "source": _source(one),
            "doc_id": one["doc_id"],
            "uuid": one["uuid"],
            "why": why(one, ranks),
            **_said(uri=one["uri"], namespace=one["namespace"]),
            **_said(cited=one["cited"] or None),
        }
        for one in chosen
    ]


def _source(citation: Json) -> str:
    source = str(citation["document_name"] or citation.get("title") or citation["doc_id"])
    if citation["section"]:
        source += f", {citation['section']}"
    return source if citation["page"] is None else f"{source}, page {citation['page']}"


def _doubtful(answer: str, grounding: Json) -> list[Json]:
    return [
        {"sentence": answer[one["start"] : one["end"]]} | _only([one], "verdict", "reasons")[0]
        for one in grounding["sentences"]
        if one["verdict"] != "supported" and "no_claim" not in one["reasons"]
    ]


def _graph(document: Json) -> Json:
    view = document["graph"]
    return _said(notes=document["notes"], graph=view and _nodes_and_edges(view))


def _nodes_and_edges(view: Json) -> Json:
    return {
        "nodes": _only(view["nodes"], "id", "label", "title"),
        "edges": _only(view["edges"], "src", "type", "dst"),
    }


def _troubles(document: Json) -> Json:
    reasons = (document["diagnostics"] or {}).get("degraded_reasons")
    return _said(warnings=document["warnings"], degraded_reasons=reasons)


def compact_documents(document: Json, _: Json) -> Json:
    """Return ids, titles and sizes."""
    documents = _only(document["documents"], "doc_id", "title", "chunks")
    return {"documents": documents, **_said(cursor=document["cursor"])}


def compact_namespaces(document: Json, _: Json) -> Json:
    """Return names, sizes and states."""
    names = ("namespace", "documents", "unfinished", "jobs")
    return {"namespaces": _only(document["namespaces"], *names)}


def compact_passage(document: Json, _: Json) -> Json:
    """Return the passage with its context."""
    (made,) = _only([document], "before", "text", "after")
    made |= {"source": _source(document), "doc_id": document["doc_id"]}
    return made | _said(uri=document["uri"], lit=document["lit"])


def compact_found(document: Json, _: Json) -> Json:
    """Return id, title and address of each passage."""
    found = [
        {"id": one["id"], "title": _source(one), "url": one["url"]} for one in document["citations"]
    ]
    return {"results": found, **_troubles(document)}


def compact_fetched(document: Json, arguments: Json) -> Json:
    """Return a passage with its context as one text."""
    return {
        "id": arguments["id"],
        "title": _source(document),
        "text": document["before"] + document["text"] + document["after"],
        "url": document["url"],
        "metadata": {"doc_id": document["doc_id"]},
    }


def _only(rows: Iterable[Json], *names: str) -> list[Json]:
    return [{name: row[name] for name in names} for row in rows]


def _said(**made: Any) -> Json:
    return {name: value for name, value in made.items() if value or value is False}
