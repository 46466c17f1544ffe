"""Events of a streamed answer."""

from typing import Literal

from docstokg.contracts.model import Contract
from docstokg.contracts.response import Verdict


class AnswerSentence(Contract):
    """A complete, checked sentence; the answer is the concatenation of all texts."""

    index: int
    text: str
    """sentence, including the text between it and the previous sentence"""
    start: int
    """start of `text` in the answer, in code points"""
    citations: tuple[int, ...] = ()
    verdict: Verdict | None = None
    """verdict; null if there is nothing to check"""


class AnswerRepair(AnswerSentence):
    """A sentence changed by the check of the whole answer; replaces that of the same index."""

    reason: Literal["changed", "judged_again", "moved", "removed"]


class VerdictChange(Contract):
    """Verdict of the verifier on one sentence."""

    index: int
    verdict: Verdict
    decided_by: str
    reasons: tuple[str, ...] = ()


class AnswerVerdicts(Contract):
    """All verdicts changed by the verifier; sent once, after the last sentence and repair."""

    changes: tuple[VerdictChange, ...]
