"""A vendor's call that ends in time, whatever the vendor does."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

from docstokg.errors import Timeout


def within[Answer](call: Callable[[], Answer], timeout_s: float, whom: str) -> Answer:
    """Give what `call` returns or raise what it raises; `Timeout` when that takes too long.

    It runs in a daemon thread of its own, which is left behind when time is up: a limit of the
    vendor's, mostly between two bytes, has to end it. `whom` is who did not answer, for the error.
    """
    outcome: Future[Answer] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as exc:  # noqa: BLE001 - raised again by `result`, never lost
            outcome.set_exception(exc)

    threading.Thread(target=run, name=f"call {whom}", daemon=True).start()
    if not wait((outcome,), max(0.0, timeout_s)).done:
        raise Timeout(f"{whom} did not answer in {timeout_s:.2f} s")
    return outcome.result()
