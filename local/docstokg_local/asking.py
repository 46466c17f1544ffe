"""One question from this machine: the envelope the HTTP server would make, the reply as a value."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from ulid import ULID

from docstokg.contracts.envelope import Envelope, Route
from docstokg.ports import Workflow
from docstokg_local.authentication import EVERYBODY


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: a RAGResponse when `status` is 200, else a problem."""

    status: int
    body: dict[str, Any]


def ask(workflow: Workflow, request: dict[str, Any], route: Route = "answer") -> Outcome:
    """Run one request through the whole state machine; everything of this machine is visible."""
    body = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass")
    reply = workflow.run(
        Envelope(
            route=route,
            request_id=str(ULID()),
            caller=EVERYBODY,
            body_b64=base64.b64encode(body).decode(),
        )
    )
    return Outcome(reply.statusCode, json.loads(reply.body))
