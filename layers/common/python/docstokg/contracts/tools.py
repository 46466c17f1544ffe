"""Paging arguments and compact results of the MCP tools."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from docstokg.contracts import Json
from docstokg.contracts.model import Contract, StrictContract

MIN_RESPONSE_TOKENS = 100
DEFAULT_RESPONSE_TOKENS = 2000


class Paging(StrictContract):
    """Page size and cursor of a tool call."""

    max_response_tokens: Annotated[
        int | None,
        Field(
            ge=MIN_RESPONSE_TOKENS,
            description="maximum tokens; null: no limit",
        ),
    ] = DEFAULT_RESPONSE_TOKENS
    response_cursor: Annotated[
        str | None,
        Field(
            max_length=128,
            description="`next_cursor` of the previous page",
        ),
    ] = None
    numbers: bool = Field(
        False,
        description="true: with scores, offsets and hashes",
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


class ToolNamespace(Contract):
    """A namespace and its state."""

    namespace: str = Field(description="name")
    documents: int = Field(description="number of documents that the caller may read")
    unfinished: bool = Field(description="true: a load is running or was interrupted")
    jobs: int | None = Field(description="number of queued and running jobs")


class NamespacesResult(Contract):
    """Result of list_namespaces."""

    namespaces: tuple[ToolNamespace, ...] = Field((), description="namespaces by name")


class PassageResult(Contract):
    """Result of read_passage."""

    before: str = Field("", description="text before the passage")
    text: str = Field("", description="passage")
    after: str = Field("", description="text after the passage")
    source: str = Field("", description="document, section and page")
    doc_id: str = Field("", description="document id")
    uri: str | None = Field(None, description="URI of the source, if any")
    lit: tuple[int, int] | None = Field(None, description="range of `text` to highlight")


class FoundItem(Contract):
    """A result of search, in the form of ChatGPT's connectors."""

    id: str = Field(description="id for fetch")
    title: str = Field(description="document and section")
    url: str = Field(description="address of the passage or its source")


class FoundResult(Troubled):
    """Result of search."""

    results: tuple[FoundItem, ...] = Field((), description="passages, best first")


class FetchRequest(StrictContract):
    """Arguments of fetch."""

    id: str = Field(min_length=1, max_length=128, description="`id` of a result of search")


class FetchResult(Contract):
    """Result of fetch."""

    id: str = Field("", description="id of the passage")
    title: str = Field("", description="document and section")
    text: str = Field("", description="passage with the text around it")
    url: str = Field("", description="address of the passage or its source")
    metadata: dict[str, str] = Field({}, description="doc_id of the document")


class _Page(Contract):
    truncated: bool = Field(description="true: there is a next page")
    next_cursor: str | None = Field(description="`response_cursor` for the next page")


def input_schema(request: type[BaseModel], shown: Sequence[str]) -> Json:
    """Return the JSON schema of a tool's arguments: the `shown` fields of the route's request.

    Tools accept the other fields too.
    """
    whole = _schema(request)
    fields = {name: whole["properties"][name] for name in shown}
    required = [name for name in whole.get("required", ()) if name in shown]
    schema = {"type": "object", "properties": fields, "required": required}
    return _plain(schema, whole.get("$defs", {}))


def output_schema(result: type[BaseModel]) -> Json:
    """Return the JSON schema of a tool's pages: the type of each part.

    Only `truncated` and `next_cursor` are required, because any other part can be on another page.
    """
    whole = result.model_json_schema(mode="serialization")
    parts = {**_Page.model_json_schema()["properties"], **whole["properties"]}
    for name in Troubled.model_fields:  # the same in all results
        parts.pop(name, None)
    shown = {name: _part(schema, whole.get("$defs", {})) for name, schema in parts.items()}
    return {"type": "object", "properties": shown, "required": ["truncated", "next_cursor"]}


def _part(schema: Json, definitions: Json) -> Json:
    meant = _resolved(schema, definitions)
    made = {"type": [meant["type"], "null"] if _accepts_null(schema) else meant["type"]}
    if "items" in meant:
        made["items"] = {"type": _resolved(meant["items"], definitions)["type"]}
    return made


# Keywords that published arguments lack: the route checks them and names what is wrong.
_UNUSED = frozenset(
    {
        "title", "examples", "pattern", "minLength", "maxLength", "minItems", "maxItems",
        "maxProperties", "propertyNames", "additionalProperties",
    }
)  # fmt: skip


def _plain(schema: Json, definitions: Json) -> Json:
    """Return a schema without references and null alternatives, which some clients cannot read."""
    made: Json = {}
    for key, value in _resolved(schema, definitions).items():
        if key == "properties":
            made[key] = {name: _plain(one, definitions) for name, one in value.items()}
        elif key == "items":
            item = _plain(value, definitions)
            made[key] = {name: part for name, part in item.items() if name != "description"}
        elif key not in _UNUSED and not (key == "default" and value in (None, "", [], {})):
            made[key] = value
    return made


def _resolved(schema: Json, definitions: Json) -> Json:
    rest = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        rest.pop("default", None)
        return _resolved({**target, **rest}, definitions)
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(choices) == 1:
        return _resolved({**choices[0], **rest}, definitions)
    return {**rest, **({"anyOf": choices} if choices else {})}


def lenient(value: Any, model: type[BaseModel]) -> Any:
    """Return arguments of a call as `model` reads them.

    A number in a string becomes the number; a null becomes the default, unless null is a value of
    the field. All else is unchanged.
    """
    schema = _schema(model)
    return _lenient(value, schema, schema.get("$defs", {}))


@cache
def _schema(model: type[BaseModel]) -> Json:
    return model.model_json_schema(mode="validation")


def _lenient(value: Any, schema: Json, definitions: Json) -> Any:
    meant = _resolved(schema, definitions)
    kind = meant.get("type")
    if isinstance(value, dict):
        fields = meant.get("properties", {})
        return {
            name: _lenient(one, fields.get(name, {}), definitions)
            for name, one in value.items()
            if one is not None
            or "default" not in fields.get(name, {})
            or _accepts_null(fields[name])
        }
    if isinstance(value, list) and "items" in meant:
        return [_lenient(one, meant["items"], definitions) for one in value]
    if isinstance(value, str) and kind in ("integer", "number"):
        with suppress(ValueError):
            return int(value) if kind == "integer" else float(value)
    return value


def _accepts_null(schema: Json) -> bool:
    return any(one.get("type") == "null" for one in schema.get("anyOf", ()))
