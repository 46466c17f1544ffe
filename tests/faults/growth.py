"""How the processor time of a function grows with the length of its text."""

import time
from collections.abc import Callable

Work = Callable[[str], object]

LOOKS = 5


def seconds(run: Work, text: str) -> float:
    """Processor seconds of this thread for one call."""
    began = time.thread_time()
    run(text)
    return time.thread_time() - began


def growth(run: Work, text: str, part: str, limit: float) -> float:
    """Time of `text` divided by the time of `part`, each the best of up to five calls in turn.

    Other processes only add to a time, so a ratio at or above the limit is measured again.
    """
    whole, short = [], []
    for _ in range(LOOKS):
        whole.append(seconds(run, text))
        short.append(seconds(run, part))
        if min(whole) < limit * min(short):
            break
    return min(whole) / min(short)
