"""Documents and passages as MCP resources."""

import json
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote, unquote

from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from docstokg.contracts import Json
from docstokg.contracts.envelope import Reply
from docstokg.contracts.routes import RouteName

SCHEME = "docstokg://"
DOCUMENT_CHARACTERS = 8000
TEXT = "text/plain"
LIST_FRESH_MS = 300_000

# Calls a route for the caller of the message.
type RunRoute = Callable[[RouteName, Json], Reply]


class NoResource(Exception):
    """A missing or unreadable resource or page."""


def passage_uri(namespace: str, uuid: str) -> str:
    """Return the URI of a passage."""
    return f"{SCHEME}{namespace}/passages/{uuid}"


def listed_resources(cursor: str | None, run: RunRoute) -> ListResourcesResult:
    """Return one page of the documents that the caller may read, namespace by namespace.

    Raise `NoResource` for an invalid cursor, or if the store cannot be read.
    """
    namespace, _, after = (cursor or _namespace_after("", run)).partition(" ")
    if not namespace:
        return ListResourcesResult(resources=[], ttl_ms=LIST_FRESH_MS)
    page = _document(run, "documents", {"namespace": namespace, "cursor": after or None})
    if page["cursor"]:
        following = f"{namespace} {page['cursor']}"
    else:
        following = _namespace_after(namespace, run)
    resources = [
        Resource(
            uri=f"{SCHEME}{namespace}/documents/{quote(document['doc_id'], safe='')}",
            name=document["doc_id"],
            title=document["title"],
            mime_type=TEXT,
        )
        for document in page["documents"]
    ]
    cursor = following or None
    return ListResourcesResult(resources=resources, next_cursor=cursor, ttl_ms=LIST_FRESH_MS)


def _namespace_after(name: str, run: RunRoute) -> str:
    stored = _document(run, "namespaces", {})["namespaces"]
    return next((row["namespace"] for row in stored if row["namespace"] > name), "")


def resource_templates() -> ListResourceTemplatesResult:
    """Return the templates of passage and document URIs."""
    templates = [
        ResourceTemplate(
            uri_template=f"{SCHEME}{{namespace}}/passages/{{uuid}}",
            name="passage",
            description="A cited passage, exactly as in the source",
            mime_type=TEXT,
        ),
        ResourceTemplate(
            uri_template=f"{SCHEME}{{namespace}}/documents/{{doc_id}}",
            name="document",
            description=f"The beginning of a document, about {DOCUMENT_CHARACTERS} characters",
            mime_type=TEXT,
        ),
    ]
    return ListResourceTemplatesResult(resource_templates=templates, ttl_ms=LIST_FRESH_MS)


def read_resource(uri: str, run: RunRoute) -> ReadResourceResult:
    """Return the text of a passage, or the beginning of a document; raise `NoResource`."""
    namespace, _, path = uri.removeprefix(SCHEME).partition("/")
    kind, _, name = path.partition("/")
    if not uri.startswith(SCHEME) or not name or kind not in ("passages", "documents"):
        raise NoResource(f"there is no resource {uri}")
    if kind == "passages":
        body = {"namespace": namespace, "uuid": name, "context": 0}
        text = _document(run, "passage", body)["text"]
    else:
        text = _beginning(namespace, unquote(name), run)
    contents = TextResourceContents(uri=uri, mime_type=TEXT, text=text)
    return ReadResourceResult(contents=[contents], ttl_ms=LIST_FRESH_MS)


def _beginning(namespace: str, doc_id: str, run: RunRoute) -> str:
    from docstokg.domain.identity import chunk_uuid

    uuid = chunk_uuid(namespace, f"{doc_id}#0")
    first = {"namespace": namespace, "uuid": uuid, "context": DOCUMENT_CHARACTERS}
    with suppress(NoResource):
        passage = _document(run, "passage", first)
        return str(passage["text"] + passage["after"])
    search = {
        "query": f"document {doc_id}",
        "namespace": namespace,
        "filter": {"doc_id": [doc_id]},
        "kg_expansion": {"enabled": False},
        "verbosity": "full",
    }
    citations = _document(run, "search", search)["citations"]
    if not citations:
        raise NoResource(f"there is no document {doc_id}")
    return "\n\n".join(citation["full_text"] for citation in citations)


def _document(run: RunRoute, route: RouteName, body: Json) -> Json:
    reply = run(route, dict(body))
    document: Json = json.loads(reply.body)
    if reply.statusCode != 200:
        raise NoResource(document["detail"])
    return document
