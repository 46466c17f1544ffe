"""What an agent reads of a response: passages, sources, markers, and why each was found.

Numbers, offsets and hashes cost an agent most of its tokens and tell it little; they come on
request, with the route's whole response.
"""

from collections.abc import Mapping
from typing import Any, Final

UNCITED_SHOWN: Final = 2
"""Passages shown beside those an answer cites."""

_CHANNELS: Final = {
    "bm25": "words",
    "splade": "related words",
    "dense": "meaning",
    "facts": "a stated fact",
}


def compact_search(document: dict[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Give passages in their order, and what went wrong."""
    citations = document["citations"]
    return {
        "citations": [_citation(citation) for citation in citations],
        **_graph(document),
        **_troubles(document),
    }


def compact_answer(document: dict[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Give the answer, the passages it cites and a few more, and what of it is not supported."""
    answer, grounding = document["answer"], document["grounding"]
    citations = document["citations"]
    cited = [citation for citation in citations if citation["cited"]]
    spare = [citation for citation in citations if not citation["cited"]]
    # Without an answer the passages are all there is.
    shown = [*cited, *spare[:UNCITED_SHOWN]] if answer and cited else citations
    made: dict[str, Any] = {}
    if answer:
        made |= {"answer": answer, "confidence_level": document["confidence_level"]}
    if grounding is not None:
        made["grounded"] = grounding["grounded"]
        if doubtful := _doubtful(answer, grounding):
            made["doubtful"] = doubtful
    made["citations"] = [_citation(c) for c in sorted(shown, key=lambda c: int(c["rank"]))]
    if len(shown) < len(citations):
        made["more"] = len(citations) - len(shown)
    return {**made, **_graph(document), **_troubles(document)}


def compact_check(document: dict[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Give each sentence with its verdict, and what is inconsistent with the graph."""
    text, grounding = str(arguments.get("text", "")), document["grounding"]
    uuids = {source["rank"]: source["uuid"] for source in document["diagnostics"]["sources"]}
    sentences = []
    for one in grounding["sentences"]:
        shown = {"sentence": text[one["start"] : one["end"]], "verdict": one["verdict"]}
        if one["reasons"]:
            shown["reasons"] = one["reasons"]
        span = one.get("span")
        passage = span["uuid"] if span else next((uuids.get(r) for r in one["citations"]), None)
        sentences.append({**shown, "uuid": passage} if passage else shown)
    made = {"grounded": grounding["grounded"], "sentences": sentences}
    if issues := document["consistency"]["issues"]:
        made["issues"] = [
            {"text": text[issue["start"] : issue["end"]], "message": issue["message"]}
            for issue in issues
        ]
    if reasons := document["diagnostics"]["degraded_reasons"]:
        made["degraded_reasons"] = reasons
    return made


def compact_walk(document: dict[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Give nodes and edges without scores."""
    made: dict[str, Any] = _nodes_and_edges(document)
    if document["cursor"] is not None:
        made["cursor"] = document["cursor"]
    if document["warnings"]:
        made["warnings"] = document["warnings"]
    if reasons := document["explain"]["degraded_reasons"]:
        made["degraded_reasons"] = reasons
    return made


def why(citation: Mapping[str, Any]) -> str:
    """Say why a passage was found: by which search, and what the graph knows of it."""
    ways = [_CHANNELS[name] for name in _CHANNELS if name in citation["channels"]]
    remarks = ["by " + ", ".join(ways)] if ways else []
    evidence = citation["kg_evidence"]
    if evidence is not None:
        name = f"{evidence['matched_entity']} ({evidence['entity_id']})"
        if evidence["match_type"] == "direct_mention":
            remarks.append(f"names {name}")
        else:
            steps = (f"{edge['src']} -{edge['type']}-> {edge['dst']}" for edge in evidence["path"])
            remarks.append(f"graph: {'; '.join(steps)}")
    elif citation["kg_path"]:
        remarks.append("graph: found by the walk")
    return "; ".join(remarks)


def _citation(citation: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "marker": f"[{citation['rank']}]",
        "passage": citation["full_text"] or citation["snippet"],
        "source": _source(citation),
        "doc_id": citation["doc_id"],
        "uuid": citation["uuid"],
        "why": why(citation),
    }
    if citation["uri"]:
        made["uri"] = citation["uri"]
    if citation["cited"]:
        made["cited"] = True
    return made


def _source(citation: Mapping[str, Any]) -> str:
    source = str(citation["document_name"] or citation["doc_id"])
    if citation["section"]:
        source += f", {citation['section']}"
    return source if citation["page"] is None else f"{source}, page {citation['page']}"


def _doubtful(answer: str, grounding: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "sentence": answer[one["start"] : one["end"]],
            "verdict": one["verdict"],
            "reasons": one["reasons"],
        }
        for one in grounding["sentences"]
        if one["verdict"] != "supported"
    ]


def _graph(document: Mapping[str, Any]) -> dict[str, Any]:
    view = document["graph"]
    return {"graph": _nodes_and_edges(view)} if view is not None else {}


def _nodes_and_edges(view: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nodes": [
            {"id": node["id"], "label": node["label"], "title": node["title"]}
            for node in view["nodes"]
        ],
        "edges": [
            {"src": edge["src"], "type": edge["type"], "dst": edge["dst"]} for edge in view["edges"]
        ],
    }


def _troubles(document: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if document["warnings"]:
        made["warnings"] = document["warnings"]
    diagnostics = document["diagnostics"]
    if diagnostics is not None and diagnostics["degraded_reasons"]:
        made["degraded_reasons"] = diagnostics["degraded_reasons"]
    return made


def compact_documents(document: dict[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Give ids, titles and sizes."""
    made: dict[str, Any] = {
        "documents": [
            {"doc_id": one["doc_id"], "title": one["title"], "chunks": one["chunks"]}
            for one in document["documents"]
        ]
    }
    return made | ({"cursor": document["cursor"]} if document["cursor"] is not None else {})


def compact_passage(document: dict[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Give the passage between what surrounds it."""
    made = {key: document[key] for key in ("before", "text", "after")}
    made |= {"source": _source(document), "doc_id": document["doc_id"]}
    return made | {key: document[key] for key in ("uri", "lit") if document[key]}
