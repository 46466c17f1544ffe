"""Page images of PDFs."""

import base64
from collections.abc import Callable

from docstokg.contracts.documents import PageName
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.errors import LoadError, Timeout, cause
from docstokg.observability import Telemetry
from docstokg.ports import DocumentRegister, SearchIndex
from docstokg.usecases.intake import namespace_of, parse_body
from docstokg.usecases.problems import problem_reply
from docstokg.usecases.run import Begin

HEADERS = {"Content-Type": "image/png", "Cache-Control": "private, max-age=300"}


def show_page(
    envelope: Envelope,
    *,
    register: DocumentRegister,
    index: SearchIndex,
    begin: Begin,
    draw: Callable[[bytes, int], bytes],
    telemetry: Telemetry,
) -> Reply:
    """Return a PNG in base64 as a reply, or a problem: 400, 403, 404.

    404: document or page missing, invisible, not stored as a file, or not drawn in time.
    """
    name = parse_body(envelope, PageName)
    if isinstance(name, Reply):
        return name
    namespace = namespace_of(envelope, name.namespace, index, begin)
    if isinstance(namespace, Reply):
        return namespace
    documents = register.find(namespace, [name.doc_id])
    seen = any(envelope.caller.sees(document.acl) for document in documents)
    original = register.original(namespace, name.doc_id) if seen else None
    if original is None:
        detail = "There is no such PDF, it is not yours to read, or its file is not kept here."
        return problem_reply(404, "not_found", detail, envelope.request_id)
    try:
        picture = draw(original, int(name.n))
    except (LoadError, Timeout) as refused:
        telemetry.log("INFO", "page_refused", request_id=envelope.request_id, **cause(refused))
        detail = f"The page cannot be shown: {refused}."
        return problem_reply(404, "no_page", detail, envelope.request_id)
    return Reply(statusCode=200, body=base64.b64encode(picture).decode(), headers=HEADERS)
