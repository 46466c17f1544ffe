"""Events of an answer that is still being written: `sentence`, `repair` and `verdicts`."""

from typing import Literal

from pydantic import Field

from docstokg.contracts.model import Contract
from docstokg.contracts.response import Verdict


class AnswerSentence(Contract):
    """A sentence that has ended and is checked; the texts of all of them are the answer."""

    index: int
    text: str = Field(description="with what stands between it and the sentence before")
    start: int = Field(description="where `text` begins in the answer, in code points")
    citations: tuple[int, ...] = ()
    verdict: Verdict | None = Field(None, description="null where there is nothing to check")


class AnswerRepair(AnswerSentence):
    """What a sentence is after the whole answer was checked; it replaces that of its index."""

    reason: Literal["changed", "judged_again", "moved", "removed"]


class VerdictChange(Contract):
    """The verifier's verdict on the sentence of an index."""

    index: int
    verdict: Verdict
    decided_by: str
    reasons: tuple[str, ...] = ()


class AnswerVerdicts(Contract):
    """Every verdict that a verifier changed, sent once, after the last sentence and repair."""

    changes: tuple[VerdictChange, ...]
