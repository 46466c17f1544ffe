"""Paging arguments and compact results of the MCP tools."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from docstokg.contracts.model import Contract, StrictContract

MIN_RESPONSE_TOKENS = 100
DEFAULT_RESPONSE_TOKENS = 2000


class Paging(StrictContract):
    """Page size and cursor of a tool call."""

    max_response_tokens: Annotated[
        int | None,
        Field(
            ge=MIN_RESPONSE_TOKENS,
            description="maximum tokens of the result, estimated as ceil(UTF-8 bytes / 4); the "
            "rest is on the next pages; null: no limit",
        ),
    ] = DEFAULT_RESPONSE_TOKENS
    response_cursor: Annotated[
        str | None,
        Field(
            max_length=128,
            description="`next_cursor` of the previous page; the other arguments must be the same",
        ),
    ] = None
    numbers: bool = Field(
        False,
        description="true: full response of the route, with scores, offsets, hashes and times",
    )


class ToolCitation(Contract):
    """A passage that an answer can cite."""

    marker: str = Field(description="citation marker, such as [1]")
    passage: str = Field(description="text, exactly as in the source")
    source: str = Field(description="document, section and page")
    doc_id: str = Field(description="document id")
    uuid: str = Field(description="uuid for read_passage and check_grounding")
    why: str = Field(description="search channels and graph relations by which it was found")
    uri: str | None = Field(None, description="URI of the source, if any")
    namespace: str | None = Field(
        None, description="namespace of the passage, if several were searched"
    )
    cited: bool = Field(False, description="true if the answer cites the passage")


class ToolSentence(Contract):
    """A sentence and its verdict."""

    sentence: str = Field(description="text of the sentence")
    verdict: str = Field(description="supported, unsupported, unverified, uncited or not_checked")
    reasons: tuple[str, ...] = Field((), description="observations about the sentence")
    uuid: str | None = Field(None, description="uuid of the passage that it was compared with")


class ToolIssue(Contract):
    """An inconsistency between the draft and the subject domain."""

    text: str = Field(description="affected text of the draft")
    message: str = Field(description="explanation")


class ToolNode(Contract):
    """A node of the graph."""

    id: str = Field(description="node id")
    label: str = Field(description="Entity, Chunk, Document or Topic")
    title: str = Field(description="name or title")


class ToolEdge(Contract):
    """An edge of the graph."""

    src: str = Field(description="id of the source node")
    type: str = Field(description="relation type")
    dst: str = Field(description="id of the target node")


class ToolGraph(Contract):
    """The graph around the citations."""

    nodes: tuple[ToolNode, ...] = Field((), description="nodes")
    edges: tuple[ToolEdge, ...] = Field((), description="edges")


class Troubled(Contract):
    """Warnings and failures of any result."""

    warnings: tuple[str, ...] = Field((), description="warnings for the reader")
    degraded_reasons: tuple[str, ...] = Field((), description="failed components")


class SearchResult(Troubled):
    """Result of search_documentation."""

    citations: tuple[ToolCitation, ...] = Field((), description="passages, best first")
    notes: tuple[str, ...] = Field((), description="notes of the subject domain")
    graph: ToolGraph | None = Field(
        None, description="graph around the citations; only with verbosity graph"
    )


class AnswerResult(SearchResult):
    """Result of answer_with_citations."""

    answer: str = Field("", description="answer; the marker [n] refers to the citation [n]")
    confidence_level: str = Field("", description="high, medium or low")
    grounded: bool | None = Field(
        None, description="true: all sentences are supported; false: not all; null: not verified"
    )
    doubtful: tuple[ToolSentence, ...] = Field((), description="sentences that are not supported")
    more: int = Field(0, description="number of further passages; `numbers` returns all")


class CheckResult(Troubled):
    """Result of check_grounding."""

    grounded: bool | None = Field(
        None, description="true: all sentences are supported; false: not all; null: not verified"
    )
    sentences: tuple[ToolSentence, ...] = Field((), description="sentences with their verdicts")
    issues: tuple[ToolIssue, ...] = Field((), description="contradictions to the ontology")


class WalkResult(Troubled):
    """Result of traverse_relationships."""

    nodes: tuple[ToolNode, ...] = Field((), description="nodes by depth, then by score")
    edges: tuple[ToolEdge, ...] = Field((), description="edges between nodes of the whole walk")
    cursor: str | None = Field(None, description="`cursor` for the next part of the walk")


class ToolDocument(Contract):
    """A loaded document."""

    doc_id: str = Field(description="document id, for filter.doc_id")
    title: str = Field(description="title")
    chunks: int = Field(description="number of passages")


class DocumentsResult(Contract):
    """Result of list_documents."""

    documents: tuple[ToolDocument, ...] = Field((), description="documents by id")
    cursor: str | None = Field(None, description="`cursor` for the next documents")


class PassageResult(Contract):
    """Result of read_passage."""

    before: str = Field("", description="text before the passage")
    text: str = Field("", description="passage")
    after: str = Field("", description="text after the passage")
    source: str = Field("", description="document, section and page")
    doc_id: str = Field("", description="document id")
    uri: str | None = Field(None, description="URI of the source, if any")
    lit: tuple[int, int] | None = Field(None, description="range of `text` to highlight")


class _Page(Contract):
    truncated: bool = Field(description="true: there is a next page")
    next_cursor: str | None = Field(description="`response_cursor` for the next page")
    continues_at: str = Field("", description="position of this page in the whole result")


def output_schema(result: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a tool's pages; only paging fields are required."""
    schema, page = result.model_json_schema(mode="serialization"), _Page.model_json_schema()
    _open(schema)
    schema["properties"] = {**page["properties"], **schema["properties"]}
    made: dict[str, Any] = without_titles({**schema, "required": ["truncated", "next_cursor"]})
    return made


def without_titles(schema: Any) -> Any:
    """Return a schema without generated titles, which only repeat names and cost tokens."""
    if isinstance(schema, list):
        return [without_titles(below) for below in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_titles(below) for name, below in value.items()}
        if key in ("properties", "$defs")
        else without_titles(value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def _open(schema: Any) -> None:
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.pop("required", None)
            schema.pop("additionalProperties", None)
        for below in schema.values():
            _open(below)
    elif isinstance(schema, list):
        for below in schema:
            _open(below)
