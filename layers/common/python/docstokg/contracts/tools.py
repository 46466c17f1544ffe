"""What every tool takes beside its request, and what an agent reads of the result."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from docstokg.contracts.model import Contract, StrictContract

MIN_RESPONSE_TOKENS = 100
DEFAULT_RESPONSE_TOKENS = 2000


class Paging(StrictContract):
    """How much of a result one tool call may return, and where the next one goes on."""

    max_response_tokens: Annotated[
        int | None,
        Field(
            ge=MIN_RESPONSE_TOKENS,
            description="The text of the result never has more tokens than this, estimated as "
            "ceil(UTF-8 bytes / 4). What does not fit comes with the next page. null: no limit.",
        ),
    ] = DEFAULT_RESPONSE_TOKENS
    response_cursor: Annotated[
        str | None,
        Field(
            max_length=128,
            description="`next_cursor` of the page before, with otherwise the same arguments: the "
            "result goes on where that page ended.",
        ),
    ] = None
    numbers: bool = Field(
        False,
        description="true: the route's whole response, with scores, offsets, hashes and times",
    )


class ToolCitation(Contract):
    """A passage an answer may cite."""

    marker: str = Field(description="how the answer cites it, e.g. [1]")
    passage: str = Field(description="its words, exactly as in the source")
    source: str = Field(description="document, section and page")
    doc_id: str = Field(description="the document's id")
    uuid: str = Field(description="the passage's id, for read_passage and check_grounding")
    why: str = Field(description="why it was found: by which search, and what the graph knows")
    uri: str | None = Field(None, description="the source's address, when it has one")
    namespace: str | None = Field(None, description="its own, where several were asked")
    cited: bool = Field(False, description="true when the answer cites it")


class ToolSentence(Contract):
    """A sentence and what its sources say of it."""

    sentence: str = Field(description="its words")
    verdict: str = Field(description="supported, unsupported, unverified, uncited or not_checked")
    reasons: tuple[str, ...] = Field((), description="observations about it")
    uuid: str | None = Field(None, description="the passage it was compared with")


class ToolIssue(Contract):
    """Something the draft gets wrong about the domain."""

    text: str = Field(description="the words in question")
    message: str = Field(description="what is wrong with them")


class ToolNode(Contract):
    """A node of the graph."""

    id: str = Field(description="its id")
    label: str = Field(description="Entity, Chunk, Document or Topic")
    title: str = Field(description="its name")


class ToolEdge(Contract):
    """An edge of the graph."""

    src: str = Field(description="id of the node it leaves")
    type: str = Field(description="what it says")
    dst: str = Field(description="id of the node it reaches")


class ToolGraph(Contract):
    """The graph around the citations."""

    nodes: tuple[ToolNode, ...] = Field((), description="its nodes")
    edges: tuple[ToolEdge, ...] = Field((), description="its edges")


class Troubled(Contract):
    """What every result says when something went wrong."""

    warnings: tuple[str, ...] = Field((), description="what to know before relying on it")
    degraded_reasons: tuple[str, ...] = Field((), description="which parts did not answer")


class SearchResult(Troubled):
    """What search_documentation gives."""

    citations: tuple[ToolCitation, ...] = Field((), description="passages, the best first")
    notes: tuple[str, ...] = Field((), description="remarks of the subject domain")
    graph: ToolGraph | None = Field(None, description="with verbosity graph only")


class AnswerResult(SearchResult):
    """What answer_with_citations gives."""

    answer: str = Field("", description="the answer; each [n] means the citation marked [n]")
    confidence_level: str = Field("", description="high, medium or low")
    grounded: bool | None = Field(
        None, description="true: every sentence is supported; false: not; null: not verified"
    )
    doubtful: tuple[ToolSentence, ...] = Field((), description="sentences that are not supported")
    more: int = Field(0, description="passages found beside those shown; numbers shows all")


class CheckResult(Troubled):
    """What check_grounding gives."""

    grounded: bool | None = Field(
        None, description="true: every sentence is supported; false: not; null: not verified"
    )
    sentences: tuple[ToolSentence, ...] = Field((), description="each sentence with its verdict")
    issues: tuple[ToolIssue, ...] = Field((), description="what contradicts the ontology")


class WalkResult(Troubled):
    """What traverse_relationships gives."""

    nodes: tuple[ToolNode, ...] = Field((), description="nodes by depth, then by score")
    edges: tuple[ToolEdge, ...] = Field((), description="edges between nodes of the whole walk")
    cursor: str | None = Field(None, description="send it as `cursor` to walk on")


class ToolDocument(Contract):
    """A loaded document."""

    doc_id: str = Field(description="its id, for filter.doc_id")
    title: str = Field(description="its title")
    chunks: int = Field(description="passages it was cut into")


class DocumentsResult(Contract):
    """What list_documents gives."""

    documents: tuple[ToolDocument, ...] = Field((), description="documents by id")
    cursor: str | None = Field(None, description="send it as `cursor` for the next ones")


class PassageResult(Contract):
    """What read_passage gives."""

    before: str = Field("", description="what stands before it in the document")
    text: str = Field("", description="the passage")
    after: str = Field("", description="what stands after it")
    source: str = Field("", description="document, section and page")
    doc_id: str = Field("", description="the document's id")
    uri: str | None = Field(None, description="the source's address, when it has one")
    lit: tuple[int, int] | None = Field(None, description="the asked stretch of `text`")


class _Page(Contract):
    truncated: bool = Field(description="true: more follows on the next page")
    next_cursor: str | None = Field(description="send it as `response_cursor` for the next page")
    continues_at: str = Field("", description="where in the whole result this page begins")


def output_schema(result: type[BaseModel]) -> dict[str, Any]:
    """Give the JSON schema of a tool's pages: any part may be on another page, or numbers beside.

    So nothing is required but what every page has, and more is allowed everywhere.
    """
    schema, page = result.model_json_schema(mode="serialization"), _Page.model_json_schema()
    _open(schema)
    schema["properties"] = {**page["properties"], **schema["properties"]}
    made: dict[str, Any] = without_titles({**schema, "required": ["truncated", "next_cursor"]})
    return made


def without_titles(schema: Any) -> Any:
    """Leave out generated titles: they repeat the names, and an agent reads every letter."""
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
