"""Streaming by checked sentences."""

from collections.abc import Callable, Sequence

from docstokg.contracts.response import RULES, Grounding, SentenceVerdict, Verdict
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
        self._told: list[AnswerSentence] = []
        self._read = self._shown = ""
        self._is_held = False

    def more(self, text: str) -> list[AnswerSentence]:
        """Return the newly completed sentences; `text` is the answer so far.

        Returns nothing more after 40 or if a sent sentence has changed.
        """
        spans = sentence_spans(text)
        ended = text[: spans[-1].start] if spans else ""
        is_over = self._is_held or len(self._told) >= _MOST or text.startswith(_WHOLE_ONLY)
        if is_over or not ended or ended == self._read:
            return []
        answer, report = self._check(ended) if ended.startswith(self._read) else ("", None)
        self._read = ended
        if report is None or not report.sentences or not answer.startswith(self._shown):
            self._is_held = bool(self._shown)
            return []
        self._shown = answer[: report.sentences[-1].end]
        made = pieces(self._shown, report)[len(self._told) :]
        self._told += made
        return made

    def end(
        self, answer: str, report: Grounding | None
    ) -> tuple[list[AnswerSentence], list[AnswerRepair]]:
        """Return the unsent sentences of the final answer and the repairs of sent ones.

        A repair replaces the sentence with its index; an empty text removes it.
        """
        final = pieces(answer, report)
        repairs = [
            AnswerRepair(**now.model_dump(), reason=reason)
            for before, now in zip(self._told, final, strict=False)
            if (reason := _difference(before, now)) is not None
        ]
        gone = self._told[len(final) :]
        repairs += [
            AnswerRepair(index=one.index, text="", start=len(answer), reason="removed")
            for one in gone
        ]
        return final[len(self._told) :], repairs


def _difference(before: AnswerSentence, now: AnswerSentence) -> str | None:
    if before.text != now.text:
        return "changed"
    if (before.citations, before.verdict) != (now.citations, now.verdict):
        return "judged_again"
    return None if before == now else "moved"


def pieces(answer: str, report: Grounding | None) -> list[AnswerSentence]:
    """Split an answer after each sentence; an unjudged answer is one piece."""
    verdicts: Sequence[SentenceVerdict | None] = report.sentences if report is not None else ()
    if answer and not verdicts:
        verdicts = (None,)
    made, at = [], 0
    for place, one in enumerate(verdicts):
        end = one.end if one is not None and place + 1 < len(verdicts) else len(answer)
        made.append(
            AnswerSentence(
                index=place,
                text=answer[at:end],
                start=at,
                citations=one.citations if one is not None else (),
                verdict=_by_rules(one) if one is not None else None,
            )
        )
        at = end
    return made


def changes(report: Grounding | None) -> tuple[VerdictChange, ...]:
    """Return the verdicts of a verifier; `sentence` events contain the rules' verdicts."""
    return tuple(
        VerdictChange(
            index=place, verdict=one.verdict, decided_by=one.decided_by, reasons=one.reasons
        )
        for place, one in enumerate(report.sentences if report is not None else ())
        if one.decided_by and one.decided_by != RULES
    )


def _by_rules(one: SentenceVerdict) -> Verdict:
    return one.verdict if one.decided_by in (None, RULES) else "unverified"
