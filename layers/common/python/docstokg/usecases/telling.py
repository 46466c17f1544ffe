"""Steps that run elsewhere tell of an answer through the store of responses, which all reach.

What `ground` found is written once, what a model has written each time a sentence begins. It lives
for a minute under the request's id; what cannot be written or read is told at the end only, such
as an item of DynamoDB that is over its 400 kB: what `ground` gives stays below 256.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from docstokg.domain import time_budget
from docstokg.domain.text.sentences import sentence_spans
from docstokg.ports import ResponseCache
from docstokg.usecases.run import Run

KEPT_S = 60
PAUSE_S = 0.2
"""Between two texts of one answer, at least."""
GROUND, WRITTEN = "ground", "written"


def told_key(request_id: str, what: str) -> str:
    """Name what is told, unlike any kept response: their names are digests."""
    return f"told:{request_id}:{what}"


class Teller:
    """Tells of one step of a request, until that fails: then of no more."""

    def __init__(self, run: Run, store: Callable[[], ResponseCache]) -> None:
        self._run, self._store = run, store
        self._begun, self._next, self._is_telling = 0, 0.0, True

    def found(self, event: dict[str, Any], grounded: dict[str, Any]) -> None:
        """Tell what the step `ground` was asked and what it found."""
        asked = {name: event[name] for name in ("plan", "scope")}
        self._tell(GROUND, json.dumps([asked, grounded], ensure_ascii=False))

    def written(self, text: str) -> bool:
        """Tell all that a model has written so far, if a sentence has begun; it may always go on.

        Only sentences that have ended are shown to anybody.
        """
        if self._is_telling and time.monotonic() >= self._next:
            begun = len(sentence_spans(text))
            if begun > 1 and begun != self._begun:
                self._begun = begun
                self._tell(WRITTEN, text)
                self._next = time.monotonic() + PAUSE_S
        return True

    def _tell(self, what: str, text: str) -> None:
        def put() -> bool:
            key, time_s = (
                told_key(self._run.request_id, what),
                self._run.left_s(time_budget.CACHE_S),
            )
            self._store().put(key, "", text, KEPT_S, time_s)
            return True

        self._is_telling = bool(self._run.attempt("tell", put, lost=None))
