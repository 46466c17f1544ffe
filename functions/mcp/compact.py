"""Compact responses for agents."""

from collections.abc import Iterable, Mapping
from typing import Any

from docstokg.contracts import Json
from docstokg.contracts.response import CO_MENTIONED
from docstokg.domain.answer.grounding import place_in_words, proof

# Uncited passages in addition to the cited ones.
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
    # Without an answer, the result has all passages.
    chosen = [*cited, *spare[:UNCITED_SHOWN]] if answer and cited else citations
    return {
        **_present(
            answer=answer,
            confidence_level=answer and document["confidence_level"],
            doubtful=grounding and _doubtful(answer, grounding),
        ),
        **({"grounded": grounding["grounded"], "proof": proof(grounding)} if grounding else {}),
        "citations": _citations(sorted(chosen, key=lambda c: int(c["rank"])), chosen),
        **_present(more=len(citations) - len(chosen)),
        **_graph(document),
        **_troubles(document),
    }


def compact_check(document: Json, arguments: Json) -> Json:
    """Return each sentence with its verdict, and the inconsistencies with the graph."""
    text, grounding = str(arguments.get("text", "")), document["grounding"]
    uuids = {source["rank"]: source["uuid"] for source in document["diagnostics"]["sources"]}
    sentences = []
    for checked in grounding["sentences"]:
        span, ranks = checked.get("span"), checked["citations"]
        uuid = span["uuid"] if span else next((uuids.get(rank) for rank in ranks), None)
        verdict = _present(verdict=checked["verdict"], reasons=checked["reasons"], uuid=uuid)
        sentences.append({"sentence": text[checked["start"] : checked["end"]], **verdict})
    issues = [
        {"text": text[issue["start"] : issue["end"]], "message": issue["message"]}
        for issue in (document["consistency"] or {"issues": ()})["issues"]
    ]
    verdicts = {"grounded": grounding["grounded"], "sentences": sentences}
    return verdicts | _present(issues=issues) | _troubles(document)


def compact_walk(document: Json, _: Json) -> Json:
    """Return nodes and edges without scores."""
    explain = document["explain"]
    troubles = _present(cursor=document["cursor"]) | _troubles({**document, "diagnostics": explain})
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
        place = f" (stated in [{rank}])" if rank and edge["type"] != CO_MENTIONED else ""
        facts.append(f"{source} -{edge['type']}-> {target}{place}")
    return facts


def _citations(citations: Iterable[Json], ranked: Iterable[Json]) -> list[Json]:
    ranks = {citation["uuid"]: int(citation["rank"]) for citation in ranked}
    return [
        {
            "marker": f"[{citation['rank']}]",
            "passage": citation["full_text"] or citation["snippet"],
            "source": _source(citation),
            "doc_id": citation["doc_id"],
            "uuid": citation["uuid"],
            "why": why(citation, ranks),
            **_present(uri=citation["uri"], namespace=citation["namespace"]),
            **_present(cited=citation["cited"] or None),
        }
        for citation in citations
    ]


def _source(citation: Json) -> str:
    document = citation["document_name"] or citation.get("title") or citation["doc_id"]
    return place_in_words(document, citation["section"], citation["page"])


def _doubtful(answer: str, grounding: Json) -> list[Json]:
    return [
        {
            "sentence": answer[checked["start"] : checked["end"]],
            "verdict": checked["verdict"],
            "reasons": checked["reasons"],
        }
        for checked in grounding["sentences"]
        if checked["verdict"] != "supported" and "no_claim" not in checked["reasons"]
    ]


def _graph(document: Json) -> Json:
    view = document["graph"]
    return _present(notes=document["notes"], graph=view and _nodes_and_edges(view))


def _nodes_and_edges(view: Json) -> Json:
    return {
        "nodes": _only(view["nodes"], "id", "label", "title"),
        "edges": _only(view["edges"], "src", "type", "dst"),
    }


def _troubles(document: Json) -> Json:
    reasons = (document["diagnostics"] or {}).get("degraded_reasons")
    return _present(warnings=document["warnings"], degraded_reasons=reasons)


def compact_documents(document: Json, _: Json) -> Json:
    """Return ids, titles and sizes."""
    documents = _only(document["documents"], "doc_id", "title", "chunks")
    return {"documents": documents, **_present(cursor=document["cursor"])}


def compact_namespaces(document: Json, _: Json) -> Json:
    """Return names, sizes and states."""
    names = ("namespace", "documents", "unfinished", "jobs")
    return {"namespaces": _only(document["namespaces"], *names)}


def compact_passage(document: Json, _: Json) -> Json:
    """Return the passage with its context."""
    (texts,) = _only([document], "before", "text", "after")
    origin = {"source": _source(document), "doc_id": document["doc_id"]}
    return texts | origin | _present(uri=document["uri"], lit=document["lit"])


def compact_found(document: Json, _: Json) -> Json:
    """Return id, title and address of each passage."""
    results = [
        {"id": citation["id"], "title": _source(citation), "url": citation["url"]}
        for citation in document["citations"]
    ]
    return {"results": results, **_troubles(document)}


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


def _present(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value or value is False}
