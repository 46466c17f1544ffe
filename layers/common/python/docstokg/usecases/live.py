"""Streaming of an answer."""

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import BaseModel

from docstokg.contracts import Json, compact_json
from docstokg.contracts.envelope import Reply
from docstokg.contracts.response import Grounding
from docstokg.contracts.routes import RouteName
from docstokg.contracts.state import Grounded, Synthesis
from docstokg.contracts.streaming import AnswerVerdicts
from docstokg.domain import time_budget
from docstokg.domain.answer import reply as replies
from docstokg.domain.answer.live import LiveAnswer, changes
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, cause
from docstokg.observability import Telemetry
from docstokg.ports import ResponseCache
from docstokg.usecases.answer_checks import Checks, check_generated
from docstokg.usecases.run import Run
from docstokg.usecases.stream_events import GROUND, WRITTEN, event_key

EVENTS = "text/event-stream"
POLL_S = 0.1
# All text so far is cleaned again after it has grown by this part of its length: linear in total.
_GROWTH = 1 / 32
EVENT_HEADERS = {"Cache-Control": "no-cache", "Content-Type": f"{EVENTS}; charset=utf-8"}

# Sends an event's name and value; returns False if the client disconnected.
SendEvent = Callable[[str, Any], bool]


class LiveReply:
    """Sends events for the execution of one question."""

    def __init__(self, checks: Checks, telemetry: Telemetry, send: SendEvent) -> None:
        self._checks, self._telemetry, self._send = checks, telemetry, send
        self._lock = threading.Lock()
        self._answer: LiveAnswer | None = None
        self._cleaned: Callable[[str], str] = replies.cleaned
        self._is_ended, self._is_heard = False, True
        self._request_id = ""
        self._first_ms: dict[str, float] = {}
        self._begun = time.perf_counter()
        self._next_length = 0

    def after(self, state: str, payload: Json, result: Json) -> None:
        """Send the citations after the state Ground; ignore others."""
        if state != "Ground":
            return
        run, grounded = Run.of(payload, self._telemetry), Grounded.model_validate(result)
        self._request_id = run.request_id
        comparison = self._checks.compare(run, run.deadline)

        def check(text: str) -> tuple[str, Grounding | None]:
            synthesis = Synthesis(outcome="answered", answer=text)
            checked = check_generated(run, grounded, synthesis, self._checks, comparison)
            return checked.answer, checked.grounding

        self._answer = LiveAnswer(check)
        self._cleaned = partial(replies.cleaned, question=run.plan.query, blocks=grounded.blocks)
        self._send_event("citations", {"citations": grounded.citations})

    def add_text(self, text: str) -> bool:
        """Process all text that a model has generated so far, or leave it to a later call.

        Return False before `after`, after `finish`, and if the client has left.
        """
        with self._lock:
            if self._is_ended or self._answer is None:
                return False
            if len(text) >= self._next_length and not self._answer.is_over:
                self._next_length = int(len(text) * (1 + _GROWTH))
                for sentence in self._answer.extended(self._cleaned(text)):
                    self._send_event("sentence", sentence)
            return self._is_heard and self._send("", None)

    def listen(
        self, request_id: str, store: ResponseCache, is_ended: Callable[[float], bool]
    ) -> None:
        """Poll the events of remote steps until the request ends, or a client or the store fails.

        Returns then; the store's error is logged. `ended(seconds)` waits at most that long and
        returns whether the request has ended.
        """
        kind, longest, is_heard = GROUND, 0, True
        while is_heard and not is_ended(POLL_S):
            try:
                entry = store.get(event_key(request_id, kind), Deadline.after(time_budget.CACHE_S))
            except DocsToKGError as error:
                self._telemetry.log("WARNING", "not_heard", request_id=request_id, **cause(error))
                return
            if entry is None or len(entry[1]) <= longest:  # a read may return an older value
                continue
            if kind == WRITTEN:
                longest, is_heard = len(entry[1]), self.add_text(entry[1])
            else:
                self.after("Ground", *json.loads(entry[1]))
                kind = WRITTEN

    def finish(self, reply: Reply, route: RouteName) -> None:
        """Send unsent text, corrections and the whole reply; nothing for an early error."""
        with self._lock:
            self._is_ended = True
        if reply.statusCode != 200 and self._answer is None:
            return
        lines = [line.removeprefix("data: ") for line in reply.body.split("\n")]
        value = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
        if reply.statusCode != 200 or route == "mcp":
            self._send_event("response" if reply.statusCode == 200 else "problem", value)
            return
        value = value["response"] if route == "responses" else value
        evidence = value.get("docstokg", value)
        match route:
            case "chat":
                text = value["choices"][0]["delta"]["content"]
            case "responses":
                text = value["output"][0]["content"][0]["text"]
            case _:
                text = value["answer"]
        if self._answer is None:  # a cached answer
            self._answer = LiveAnswer(lambda text: (text, None))
            self._send_event("citations", {"citations": evidence["citations"]})
        sent = evidence["grounding"]
        report = Grounding.model_validate_json(json.dumps(sent)) if sent else None
        sentences, repairs = self._answer.end(text, report)
        for sentence in sentences:
            self._send_event("sentence", sentence)
        for repair in repairs:
            self._send_event("repair", repair)
        if verified := changes(report):
            self._send_event("verdicts", AnswerVerdicts(changes=verified))
        self._send_event("response", value)
        self._telemetry.log(
            "INFO",
            "streamed",
            request_id=self._request_id,
            first_ms=self._first_ms,
            repairs=len(repairs),
            left=not self._is_heard,
        )

    def _send_event(self, name: str, value: Any) -> None:
        self._first_ms.setdefault(name, round((time.perf_counter() - self._begun) * 1000, 1))
        self._is_heard = self._is_heard and self._send(name, value)


def event_frame(name: str, value: Any) -> str | None:
    """Return a server-sent event for `/v1/answer`; None for an event without a name."""
    return f"event: {name}\ndata: {text_of(value)}\n\n" if name else None


def plain(value: Any) -> Any:
    """Return an event's value as JSON-compatible data."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict) and isinstance(value.get("citations"), tuple):
        return {"citations": [plain(citation) for citation in value["citations"]]}
    return value


def text_of(value: Any) -> str:
    """Return an event's value as one line of JSON."""
    return compact_json(plain(value))
