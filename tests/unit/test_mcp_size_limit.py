"""Size limit of MCP results: fewer elements, `more`, shortened texts."""

from typing import Any

import pytest

from docstokg.domain.base64url import name_before
from docstokg_functions.mcp.size_limit import TooLarge, byte_count, cut

PASSAGE = "The Orkel pump delivers 85 litres per minute. "


def citations(count: int) -> list[dict[str, Any]]:
    return [{"marker": f"[{n}]", "passage": PASSAGE, "uuid": "u" * 36} for n in range(count)]


def test_a_result_within_the_limit_is_complete() -> None:
    document = {"citations": citations(3)}
    complete = {"more": 0, **document}
    for limit in (None, byte_count(complete)):
        assert cut(document, ("citations",), limit) == complete


@pytest.mark.parametrize("limit", range(200, 1600, 70))
def test_as_many_passages_stay_as_fit(limit: int) -> None:
    rows = citations(10)
    result = cut({"citations": rows, "more": 2}, ("graph", "citations"), limit)
    count = len(result["citations"])
    assert byte_count(result) <= limit
    assert result == {"more": 12 - count, "citations": rows[:count]}
    if count < 10:
        longer = {"more": 11 - count, "citations": rows[: count + 1]}
        assert byte_count(longer) > limit


def test_the_graph_is_cut_before_the_passages() -> None:
    nodes = [{"id": f"n{n}", "label": "Concept"} for n in range(50)]
    edges = [{"src": f"n{n}", "type": "is_a", "dst": f"n{n + 1}"} for n in range(49)]
    document = {"citations": citations(3), "graph": {"nodes": nodes, "edges": edges}}
    result = cut(document, ("graph", "citations"), 1500)
    graph = result["graph"]
    assert (result["citations"], result["more"]) == (document["citations"], 0)
    assert 0 < len(graph["nodes"]) == 50 - graph["more"] < 50
    assert graph["edges"] == edges[: len(graph["nodes"]) - 1]
    small = cut(document, ("graph", "citations"), 400)
    assert (small["graph"]["nodes"], small["graph"]["edges"]) == ([], [])
    assert small["more"] == 3 - len(small["citations"]) > 0


def test_cut_document_lists_continue_at_their_last_row() -> None:
    rows = [{"doc_id": f"hall {n}/ä.md", "title": "T", "chunks": 1} for n in range(30)]
    result = cut({"documents": rows, "cursor": "x"}, ("documents",), 500)
    last = result["documents"][-1]["doc_id"]
    assert 0 < len(result["documents"]) < 30
    assert name_before(result["cursor"]) == last
    assert cut({"documents": rows, "cursor": "x"}, ("documents",), None)["cursor"] == "x"


@pytest.mark.parametrize("text", [PASSAGE, '\n"quoted"\\\t', "ä€😀 "])
def test_a_single_long_passage_is_shortened(text: str) -> None:
    rows = [{**citations(1)[0], "passage": text * 200}, *citations(2)]
    result = cut({"citations": rows}, ("citations",), 400)
    (citation,) = result["citations"]
    assert 300 < byte_count(result) <= 400
    assert citation["uuid"] == "u" * 36
    assert citation["passage"].endswith("…")
    assert rows[0]["passage"].startswith(citation["passage"][:-1])
    assert rows[0]["passage"] == text * 200


def test_a_limit_without_room_is_refused() -> None:
    numbers = {"numbers": list(range(999))}
    for document, parts in (({**numbers, "citations": []}, ("citations",)), (numbers, ())):
        with pytest.raises(TooLarge):
            cut(document, parts, 400)


def test_a_problem_keeps_its_first_errors() -> None:
    errors = [{"path": f"$.filter.{n}", "message": "must be a string"} for n in range(50)]
    problem = {"status": 400, "detail": "The request has 50 errors.", "errors": errors}
    result = cut(problem, ("errors",), 400)
    assert result["errors"] == errors[: len(result["errors"])] != []
    assert result["status"] == 400
