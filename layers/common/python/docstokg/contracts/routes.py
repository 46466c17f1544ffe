"""Table of all routes."""

from typing import Literal, NamedTuple

MAX_BODY_BYTES = 64 * 1024
MAX_CHECK_BYTES = 512 * 1024
MAX_DOCUMENTS_BYTES = 4 * 1024 * 1024

# The third line is one Lambda function; `passage` is only a tool of `mcp`.
RouteName = Literal[
    "answer", "stream", "search", "explain", "chat", "responses", "models", "model", "check",
    "traverse", "mcp",
    "load", "documents", "delete", "page", "job", "cancel", "namespaces", "passage",
    "health",
]  # fmt: skip


class Route(NamedTuple):
    """A route: path, method, implementation and description.

    `function`: folder of the function, or "" for the state machine. `request`, `reply`: models, as
    `MODULE.CLASS` in `contracts`, or "" if `local/.../openapi.py` describes them. `parameters`:
    path and query parameters, passed as the body. `changes`: changes stored documents. `open`:
    needs no credentials. `loads`: in AWS, needs the load state machine.
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


ROUTES = (
    Route(
        "answer",
        "/v1/answer",
        operation="answer",
        summary="Answer a question with verifiable evidence",
        description="Hybrid retrieval, graph expansion, citations and, if requested, an answer "
        "with cited claims. With `Accept: text/event-stream` the local server streams it like "
        "`/v1/answer/stream`.",
        request="request.RAGRequest",
        reply="response.RAGResponse",
    ),
    Route(
        "stream",
        "/v1/answer/stream",
        function="stream",
        operation="answer_stream",
        summary="Answer a question and stream the answer",
        description="Events: citations, sentence, repair, verdicts, response; problem after a "
        "failure.",
        request="request.RAGRequest",
        reply="response.RAGResponse",
    ),
    Route(
        "search",
        "/v1/search",
        operation="search_documentation",
        summary="Find evidence without an answer",
        description="Like `/v1/answer` without synthesis: `answer` is empty and `grounding` null.",
        request="request.SearchRequest",
        reply="response.RAGResponse",
    ),
    Route(
        "explain",
        "/v1/explain",
        operation="explain",
        summary="Explain why a passage is, or is not, among the citations",
        description="Traces one passage, or the best one of a document, through search, graph and "
        "budget. Returns the result of each stage, the stage at which the passage was lost, and "
        "request changes that would have kept it. No answer is generated. 404 if the caller cannot "
        "read the passage.",
        request="request.ExplainRequest",
        reply="retrieval.ExplainResponse",
    ),
    Route(
        "chat",
        "/v1/chat/completions",
        operation="chat_completions",
        summary="Answer a question in OpenAI's chat format",
        description="The last `user` message is the question, earlier messages are its history, "
        "`system` messages are style hints. `MODEL@NAMESPACE` selects a namespace. Citations are "
        "annotations of the message; `docstokg` contains them in full.",
    ),
    Route(
        "models",
        "/v1/models",
        method="GET",
        operation="models",
        summary="List the models of the chat routes",
        description="All allowed models, and `MODEL@NAMESPACE` for each namespace granted by name.",
    ),
    Route(
        "responses",
        "/v1/responses",
        operation="responses",
        summary="Answer a question in OpenAI's Responses format",
        description="Like `/v1/chat/completions`, for clients of the Responses API. Nothing is "
        "stored: send earlier messages in `input`.",
    ),
    Route(
        "model",
        "/v1/models/{model}",
        method="GET",
        operation="model",
        summary="Return a model of the chat routes",
        parameters=("model",),
    ),
    Route(
        "traverse",
        "/v1/traverse",
        function="traverse",
        operation="traverse_relationships",
        summary="Walk the graph from given nodes",
        description="A node is expanded only if it is new, similar to the question and scores near "
        "the best of the previous layer. The server's own limits take precedence. Results are "
        "paged by an opaque cursor.",
        request="traverse.TraverseRequest",
        reply="traverse.TraverseResponse",
    ),
    Route(
        "check",
        "/v1/check",
        function="check",
        operation="check_grounding",
        summary="Check a draft against its sources and the graph",
        description="Returns a verdict per sentence: rules verify quotations, a verifier, if set, "
        "decides the other sentences. Ids, labels and relations are compared with the ontology. "
        "Sources are the citations or texts of the request, or passages retrieved per sentence.",
        body_bytes=MAX_CHECK_BYTES,
        request="check.CheckRequest",
        reply="check.CheckResponse",
    ),
    Route(
        "mcp",
        "/mcp",
        function="mcp",
        operation="mcp",
        summary="Call tools by the Model Context Protocol (streamable HTTP, stateless)",
        description="One JSON-RPC message per request and response; `tools/list` returns the tools "
        "with their schemas. See docs/mcp.md.",
    ),
    Route(
        "documents",
        "/v1/documents",
        method="GET",
        function="documents",
        operation="list_documents",
        summary="List the documents of a namespace that the caller may read",
        parameters=("namespace", "cursor"),
    ),
    Route(
        "load",
        "/v1/documents",
        function="documents",
        operation="load_documents",
        summary="Load documents in a job",
        description="Queues a job that loads texts, or files in base64. The job lists loaded and "
        "rejected documents with reasons. To change documents, send them again with `replace`. "
        "For folders and larger amounts use `docstokg load`.",
        body_bytes=MAX_DOCUMENTS_BYTES,
        changes=True,
        loads=True,
    ),
    Route(
        "delete",
        "/v1/documents/{doc_id}",
        method="DELETE",
        function="documents",
        operation="delete_document",
        summary="Remove a document in a job",
        parameters=("doc_id", "namespace"),
        changes=True,
        loads=True,
    ),
    Route(
        "page",
        "/v1/documents/{doc_id}/pages/{n}",
        method="GET",
        function="documents",
        operation="document_page",
        summary="Return a page of a PDF as PNG",
        description="`boxes` of a citation refer to this page. 404 if the file is not stored: over "
        "50 MB, loaded by an earlier version, or the store is OpenSearch.",
        parameters=("doc_id", "n", "namespace"),
    ),
    Route(
        "job",
        "/v1/jobs/{id}",
        method="GET",
        function="documents",
        operation="job",
        summary="Return the state of a job",
        description="For callers who may load into its namespace, until a week after its end.",
        parameters=("id",),
        loads=True,
    ),
    Route(
        "cancel",
        "/v1/jobs/{id}",
        method="DELETE",
        function="documents",
        operation="cancel_job",
        summary="Cancel a job",
        description="A queued job is not started; a running job stops after the current document. "
        "Documents that were already loaded remain.",
        parameters=("id",),
        changes=True,
        loads=True,
    ),
    Route(
        "namespaces",
        "/v1/namespaces",
        method="GET",
        function="documents",
        operation="list_namespaces",
        summary="List the namespaces with documents that the caller may read",
    ),
    Route(
        "health",
        "/v1/health",
        method="GET",
        function="health",
        operation="health",
        summary="Return the health of the service and its dependencies",
        open=True,
    ),
)


def route_of(name: RouteName) -> Route:
    """Return the route of this name; raise ValueError if there is none."""
    (route,) = (route for route in ROUTES if route.name == name)
    return route
