"""Every route once: server, published contract, client and cloud read this table."""

from typing import Final, Literal, NamedTuple

MAX_BODY_BYTES: Final = 64 * 1024
MAX_CHECK_BYTES: Final = 512 * 1024
MAX_DOCUMENTS_BYTES: Final = 4 * 1024 * 1024

RouteName = Literal[
    "answer", "stream", "search", "explain", "chat", "models", "check", "traverse", "mcp",
    "load", "documents", "delete", "page", "job", "cancel", "namespaces", "passage",
    "health",
]  # fmt: skip
"""The second line but for `health` is one function; `passage` is a tool of `mcp` only."""


class Route(NamedTuple):
    """A path, a method and what stands behind them.

    `function`: the folder of who serves it, "" = the state machine; a server of your own runs the
    machine for `stream`. `request`, `reply`: their
    models, as `MODULE.CLASS` below `contracts`; "" where `local/.../openapi.py` describes them.
    `parameters`: of path or query string, which become the body. `changes`: it changes what is
    loaded. `open`: it needs no credential. `loads`: in AWS it needs the machine
    that loads.
    """

    name: RouteName
    path: str
    operation: str
    summary: str
    method: str = "POST"
    function: str = ""
    description: str = ""
    request: str = ""
    reply: str = ""
    parameters: tuple[str, ...] = ()
    changes: bool = False
    open: bool = False
    loads: bool = False
    body_bytes: int = MAX_BODY_BYTES


ROUTES: Final = (
    Route(
        name="answer",
        path="/v1/answer",
        operation="answer",
        summary="Answer a question with verifiable evidence",
        description="The whole pipeline: hybrid retrieval, graph expansion, citations and, when "
        "asked, an answer in which every claim is one of them. With `Accept: text/event-stream` a "
        "server of your own tells it as `/v1/answer/stream` does.",
        request="request.RAGRequest",
        reply="response.RAGResponse",
    ),
    Route(
        name="stream",
        path="/v1/answer/stream",
        function="stream",
        operation="answer_stream",
        summary="Answer a question, and tell the answer while it is made",
        description="As events citations, sentence, repair, verdicts, response; problem where it "
        "breaks off.",
        request="request.RAGRequest",
        reply="response.RAGResponse",
    ),
    Route(
        name="search",
        path="/v1/search",
        operation="search_documentation",
        summary="Find evidence without an answer",
        description="The same pipeline without synthesis: `answer` is empty and `grounding` null.",
        request="request.SearchRequest",
        reply="response.RAGResponse",
    ),
    Route(
        name="explain",
        path="/v1/explain",
        operation="explain",
        summary="Tell why a passage is, or is not, among the citations",
        description="Asks the question and follows one passage, or a document's best, through "
        "search, graph and budget: one line a stage, where it was lost, and what would have "
        "helped. No answer is written. 404 when the caller sees no such passage.",
        request="request.ExplainRequest",
        reply="response.ExplainResponse",
    ),
    Route(
        name="chat",
        path="/v1/chat/completions",
        operation="chat_completions",
        summary="Ask in OpenAI's chat format",
        description="The question is the last message of `user`; earlier ones are not used, and a "
        "warning says so. Messages of `system` say how to write. `MODEL@NAMESPACE` asks another "
        "namespace. Citations are annotations of the message; `docstokg` holds them whole.",
    ),
    Route(
        name="models",
        method="GET",
        path="/v1/models",
        operation="models",
        summary="List what `model` may be in OpenAI's chat format",
        description="Every model the server allows, and each `MODEL@NAMESPACE` of the namespaces "
        "granted by name.",
    ),
    Route(
        name="traverse",
        path="/v1/traverse",
        function="traverse",
        operation="traverse_relationships",
        summary="Walk the graph from given nodes",
        description="Frontier-gated: a node is expanded only when it is similar to the question, "
        "new, and not falling off; the server's caps always win; pages by an opaque cursor.",
        request="traverse.TraverseRequest",
        reply="traverse.TraverseResponse",
    ),
    Route(
        name="check",
        path="/v1/check",
        function="check",
        operation="check_grounding",
        summary="Check a draft against its sources and the graph",
        description="A verdict per sentence: quotations are proved, a configured verifier decides "
        "the other sentences. Ids, labels and relations are compared with the ontology. Sources "
        "are the citations or the texts of the request; without either, passages are retrieved "
        "per sentence.",
        body_bytes=MAX_CHECK_BYTES,
        request="check.CheckRequest",
        reply="check.CheckResponse",
    ),
    Route(
        name="mcp",
        path="/mcp",
        function="mcp",
        operation="mcp",
        summary="The tools of the Model Context Protocol (streamable HTTP, stateless)",
        description="One JSON-RPC message in, one out; `tools/list` gives the tools and their "
        "schemas. See docs/mcp.md.",
    ),
    Route(
        name="documents",
        method="GET",
        path="/v1/documents",
        function="documents",
        operation="list_documents",
        summary="List the documents of a namespace that the caller may read",
        parameters=("namespace", "cursor"),
    ),
    Route(
        name="load",
        path="/v1/documents",
        function="documents",
        operation="load_documents",
        summary="Load documents, as a job",
        description="Texts, or files of other formats in base64, become cited passages. The job "
        "says which were loaded and which rejected, and why; send them again with `replace` to "
        "change them. A folder, or more than this route takes, goes by `docstokg load`.",
        body_bytes=MAX_DOCUMENTS_BYTES,
        changes=True,
        loads=True,
    ),
    Route(
        name="delete",
        method="DELETE",
        path="/v1/documents/{doc_id}",
        function="documents",
        operation="delete_document",
        summary="Remove a document, as a job",
        parameters=("doc_id", "namespace"),
        changes=True,
        loads=True,
    ),
    Route(
        name="page",
        method="GET",
        path="/v1/documents/{doc_id}/pages/{n}",
        function="documents",
        operation="document_page",
        summary="Show a page of a PDF, as PNG",
        description="`boxes` of a citation lie on it. 404 where the file is not kept: over 50 MB, "
        "loaded by an earlier version, or into stores that are servers.",
        parameters=("doc_id", "n", "namespace"),
    ),
    Route(
        name="job",
        method="GET",
        path="/v1/jobs/{id}",
        function="documents",
        operation="job",
        summary="Tell how a job goes",
        description="Those who may load into its namespace see it, for a week after its end.",
        parameters=("id",),
        loads=True,
    ),
    Route(
        name="cancel",
        method="DELETE",
        path="/v1/jobs/{id}",
        function="documents",
        operation="cancel_job",
        summary="Cancel a job",
        description="What waits is not done, and what is under way ends after the document at "
        "work; what it has loaded stays.",
        parameters=("id",),
        changes=True,
        loads=True,
    ),
    Route(
        name="namespaces",
        method="GET",
        path="/v1/namespaces",
        function="documents",
        operation="list_namespaces",
        summary="List the namespaces that hold something the caller may read",
    ),
    Route(
        name="health",
        method="GET",
        path="/v1/health",
        function="health",
        operation="health",
        summary="Tell how the service and what it depends on are doing",
        open=True,
    ),
)


def route_of(name: RouteName) -> Route:
    """Give a route that has a path by its name."""
    (route,) = (route for route in ROUTES if route.name == name)
    return route
