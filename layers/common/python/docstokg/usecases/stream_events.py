"""Events of remote steps."""

import json
import time
from collections.abc import Callable

from docstokg.contracts import Json
from docstokg.domain import time_budget
from docstokg.domain.text.sentences import sentence_spans
from docstokg.ports import ResponseCache
from docstokg.usecases.run import Run

KEPT_S = 60
# Minimum seconds between two writes of one answer.
PAUSE_S = 0.2
GROUND, WRITTEN = "ground", "written"


def event_key(request_id: str, kind: str) -> str:
    """Return the response store's key of an event, `told:REQUEST_ID:WHAT`."""
    return f"told:{request_id}:{kind}"


class EventWriter:
    """Writes the events of one step of a request, until a write fails."""

    def __init__(self, run: Run, store: Callable[[], ResponseCache]) -> None:
        self._run, self._store = run, store
        self._begun, self._next, self._is_writing = 0, 0.0, True

    def write_grounded(self, event: Json, grounded: Json) -> None:
        """Write plan, scope and output of the step `ground`; log a failure."""
        inputs = {name: event[name] for name in ("plan", "scope")}
        self._write(GROUND, json.dumps([inputs, grounded], ensure_ascii=False))

    def write_text(self, text: str) -> bool:
        """Write the text so far if a new sentence has begun, every 0.2 s at most; return True."""
        if self._is_writing and time.monotonic() >= self._next:
            begun = len(sentence_spans(text))
            if begun > 1 and begun != self._begun:
                self._begun = begun
                self._write(WRITTEN, text)
                self._next = time.monotonic() + PAUSE_S
        return True

    def _write(self, kind: str, text: str) -> None:
        def put() -> bool:
            key = event_key(self._run.request_id, kind)
            deadline = self._run.deadline.limit(time_budget.CACHE_S)
            self._store().put(key, "", text, KEPT_S, deadline)
            return True

        self._is_writing = bool(self._run.attempt("event", put, lost=None))
