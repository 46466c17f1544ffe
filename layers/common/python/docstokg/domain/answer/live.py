"""Streaming by checked sentences."""

from collections.abc import Callable
from itertools import pairwise

from docstokg.contracts.response import RULES, Grounding
from docstokg.contracts.streaming import AnswerRepair, AnswerSentence, VerdictChange
from docstokg.domain.text.sentences import sentence_spans

# Returns the displayed form of a partial answer and the report on its sentences.
Check = Callable[[str], tuple[str, Grounding | None]]

# Maximum sentences sent before the end; each is checked with all previous ones.
_MOST = 40
# Prefixes of replies that can be parsed only when complete.
_WHOLE_ONLY = ("{", "```", "<")


class LiveAnswer:
    """State of one streamed answer."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._sent: list[AnswerSentence] = []
        self._checked = self._answer = ""
        self._is_held = False

    @property
    def is_over(self) -> bool:
        """Whether no further sentence is sent before the end."""
        return self._is_held or len(self._sent) >= _MOST

    def extended(self, text: str) -> list[AnswerSentence]:
        """Return the newly completed sentences; `text` is the answer so far.

        Returns no further ones after 40 or if a sent sentence has changed.
        """
        spans = sentence_spans(text)
        complete = text[: spans[-1].start] if spans else ""
        is_whole = text.startswith(_WHOLE_ONLY)
        if self.is_over or is_whole or not complete or complete == self._checked:
            return []
        is_longer = complete.startswith(self._checked)
        answer, report = self._check(complete) if is_longer else ("", None)
        self._checked = complete
        if report is None or not report.sentences or not answer.startswith(self._answer):
            self._is_held = bool(self._answer)
            return []
        self._answer = answer[: report.sentences[-1].end]
        sentences = pieces(self._answer, report)[len(self._sent) :]
        self._sent += sentences
        return sentences

    def end(
        self, answer: str, report: Grounding | None
    ) -> tuple[list[AnswerSentence], list[AnswerRepair]]:
        """Return the unsent sentences of the final answer and the repairs of sent ones.

        A repair replaces the sentence with its index; an empty text removes it.
        """
        final = pieces(answer, report)
        repairs = [
            AnswerRepair(**now.model_dump(), reason=reason)
            for before, now in zip(self._sent, final, strict=False)
            if (reason := _difference(before, now)) is not None
        ]
        repairs += [
            AnswerRepair(index=sentence.index, text="", start=len(answer), reason="removed")
            for sentence in self._sent[len(final) :]
        ]
        return final[len(self._sent) :], repairs


def _difference(before: AnswerSentence, now: AnswerSentence) -> str | None:
    if before.text != now.text:
        return "changed"
    if (before.citations, before.verdict) != (now.citations, now.verdict):
        return "judged_again"
    return None if before == now else "moved"


def pieces(answer: str, report: Grounding | None) -> list[AnswerSentence]:
    """Split an answer after each sentence; an unjudged answer is one piece."""
    verdicts = report.sentences if report is not None else ()
    if not verdicts:
        return [AnswerSentence(index=0, text=answer, start=0)] if answer else []
    borders = [0, *(verdict.end for verdict in verdicts[:-1]), len(answer)]
    return [
        AnswerSentence(
            index=place,
            text=answer[start:end],
            start=start,
            citations=verdict.citations,
            verdict=verdict.verdict if verdict.decided_by in (None, RULES) else "unverified",
        )
        for place, (verdict, (start, end)) in enumerate(
            zip(verdicts, pairwise(borders), strict=True)
        )
    ]


def changes(report: Grounding | None) -> tuple[VerdictChange, ...]:
    """Return the verdicts of a verifier; `sentence` events contain the rules' verdicts."""
    return tuple(
        VerdictChange(
            index=place,
            verdict=sentence.verdict,
            decided_by=sentence.decided_by,
            reasons=sentence.reasons,
        )
        for place, sentence in enumerate(report.sentences if report is not None else ())
        if sentence.decided_by and sentence.decided_by != RULES
    )
