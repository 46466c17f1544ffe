"""Time limit."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context

from docstokg.domain.deadline import Deadline
from docstokg.errors import Timeout


def within[Answer](call: Callable[[], Answer], deadline: Deadline, whom: str) -> Answer:
    """Return the result of `call` or raise its error; raise `Timeout` if it takes too long.

    After a timeout its thread runs until the vendor's limit. `whom`: name for the error.
    """
    seconds = deadline.remaining()
    if not seconds:
        raise Timeout(f"no time is left for {whom}")
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as exc:  # noqa: BLE001 - raised again by `result`, never lost
            outcome.set_exception(exc)

    context = copy_context()
    threading.Thread(target=context.run, args=(run,), name=f"call {whom}", daemon=True).start()
    if not wait((outcome,), seconds).done:
        raise Timeout(f"{whom} did not answer in {seconds:.2f} s")
    return outcome.result()
