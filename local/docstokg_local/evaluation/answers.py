"""`docstokg eval --answers`."""

import re
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from docstokg.contracts import Json
from docstokg.contracts.model import Many
from docstokg.domain.answer import notices
from docstokg.domain.text.words import fold
from docstokg.errors import LoadError
from docstokg.loading.readers.lines import Line
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.display import screen
from docstokg_local.cli.question import with_answer
from docstokg_local.evaluation.calibration import roc_area
from docstokg_local.evaluation.retrieval import ask_all, read_lines, report_of, table_of

SNIPPETS = 5
# Minimum share of a statement's content words in a right citation.
HELD = 0.6

# Answers of at most this many content words must occur literally.
SHORT = 4

LEVELS = ("low", "medium", "high")
_STOP_TEXT = (
    "a an and are as at be by for from has have had he in is it its of on that the to was were "
    "will with which who or not this these those also but"
)
_STOP = frozenset(_STOP_TEXT.split())
_MARKERS = re.compile(r"\[\d+(?:\s*[,-]\s*\d+)*\]")
_WORD = re.compile(r"[a-z0-9]+")


class WrittenAnswer(Line):
    """A question with a human-written answer and the statements it is based on."""

    id: Annotated[str, Field(min_length=1)]
    question: Annotated[str, Field(min_length=3, max_length=4096)]
    answer: Annotated[str, Field(min_length=1)]
    type: str | None = None
    evidence: Many[str] = ()


def read_answers(folder: Path, limit: int | None) -> list[WrittenAnswer]:
    """Return `answers*.jsonl` of a folder, else rows of `questions*.jsonl` with an `answer`.

    Raises `LoadError` for an invalid line, or if there are none.
    """
    files = sorted(folder.glob("answers*.jsonl"))
    short = not files
    files = files or sorted(folder.glob("questions*.jsonl"))

    def parse(value: Json) -> WrittenAnswer | None:
        if short and not isinstance(value.get("answer"), str):
            return None
        # The evidence format differs between sets.
        taken = {k: value.get(k) for k in ("id", "question", "answer")} if short else value
        return WrittenAnswer.model_validate(taken)

    answers = list(islice(read_lines(files, parse), limit))
    if not answers:
        raise LoadError(f"{folder} contains no questions with reference answers (answers*.jsonl)")
    return answers


def without_markers(answer: str) -> str:
    """Return an answer without citation markers."""
    return _MARKERS.sub("", answer)


def words(text: str) -> list[str]:
    """Return the lower-case ASCII content words of a text: no markers, no stop words."""
    return [word for word in _WORD.findall(without_markers(text).lower()) if word not in _STOP]


def f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall of content words, with repetition."""
    answer_words, gold_words = words(answer), words(gold)
    common = (Counter(answer_words) & Counter(gold_words)).total()
    return 2 * common / (len(answer_words) + len(gold_words)) if common else 0.0


def rouge_l(answer: str, gold: str) -> float:
    """Return the F1 of the longest common subsequence of content words (Lin 2004)."""
    answer_words, gold_words = words(answer), words(gold)
    row = [0] * (len(gold_words) + 1)
    for word in answer_words:
        before = 0
        for place, other in enumerate(gold_words, 1):
            above = row[place]
            row[place] = before + 1 if word == other else max(row[place], row[place - 1])
            before = above
    return 2 * row[-1] / (len(answer_words) + len(gold_words)) if row[-1] else 0.0


def word_share(texts: Sequence[str], statement: str) -> float:
    """Return the share of a statement's content words that occur in `texts`; 0 without any."""
    statement_words, present = words(statement), set(words(" ".join(texts)))
    return sum(word in present for word in statement_words) / (len(statement_words) or 1)


def is_right(answer: str, gold: str) -> bool:
    """Return whether an answer contains a gold of SHORT words or less, or half of a longer one."""
    gold_words = words(gold)
    if len(gold_words) <= SHORT:
        return f" {fold(gold)} " in f" {fold(without_markers(answer))} "
    return word_share([answer], gold) >= 0.5


def judged(reference: WrittenAnswer, body: Mapping[str, Any]) -> Json:
    """Return the measures of one response; an abstention counts as an empty answer."""
    answer = body["answer"]
    silent = not answer or notices.is_abstention(answer)
    spoken = "" if silent else answer
    citations = body["citations"]
    cited = [c.get("full_text") or c["snippet"] for c in citations if c["cited"]]
    snippets = [c["snippet"] for c in citations[:SNIPPETS]]
    grounding = body["grounding"] or {}
    scores = [c["score"] for c in citations[: grounding.get("total_citations", 0)]]
    sentences = grounding.get("sentences", ())
    report: Json = {
        "id": reference.id,
        "type": reference.type,
        "question": reference.question,
        "gold": reference.answer,
        "answer": answer,
        "f1": round(f1(spoken, reference.answer), 4),
        "rouge_l": round(rouge_l(spoken, reference.answer), 4),
        "words": len(words(spoken)),
        "abstained": silent,
        "right": is_right(spoken, reference.answer),
        "confidence": body["confidence"],
        "confidence_level": body["confidence_level"],
        "cited": [c["rank"] for c in citations if c["cited"]],
        "verdicts": dict(Counter(sentence["verdict"] for sentence in sentences)),
        "mean_score": round(statistics.fmean(scores), 4) if scores else None,
        "answer_words@5": round(word_share(snippets, reference.answer), 4),
    }
    if reference.evidence and cited:
        right = [
            any(word_share([text], passage) >= HELD for passage in reference.evidence)
            for text in cited
        ]
        matches = [
            any(word_share([text], passage) >= HELD for text in cited)
            for passage in reference.evidence
        ]
        report["citation_precision"] = round(statistics.fmean(right), 4)
        report["citation_recall"] = round(statistics.fmean(matches), 4)
    return report


def evaluate_answers(
    folder: Path, questions: Sequence[WrittenAnswer], namespace: str, model: str, settings: Settings
) -> Json:
    """Answer all questions with written answers and return the report; failed ones count 0."""
    rows: list[Json] = []
    fields = {"namespace": namespace, "verbosity": "full"}
    fields = with_answer({**fields, "budget": {"timeout_s": settings.max_timeout_s}}, model)
    took = ask_all(
        Wiring(settings, Telemetry(level="ERROR")),
        model,
        [(reference, {"query": reference.question, **fields}) for reference in questions],
        lambda reference, body: rows.append(judged(reference, body)),
    )
    kinds = sorted({row["type"] for row in rows if row["type"]})
    run = {
        "name": "full",
        "metrics": summary(rows, len(questions)),
        "types": {kind: summary([row for row in rows if row["type"] == kind]) for kind in kinds},
        "verdicts": dict(sum((Counter(row["verdicts"]) for row in rows), Counter[str]())),
        "confidence": by_level(rows),
        "confidence_auc": confidence_area(rows),
        **took,
        "questions": rows,
    }
    return report_of(folder, len(questions), namespace, settings, [run], model=model)


def summary(rows: Collection[Json], count: int | None = None) -> Json:
    """Return averages over `count` questions (default: rows); missing rows count 0.

    Those of citations: over rows that have them, else None.
    """
    total = count or len(rows) or 1
    report: Json = {"n": total}
    for name in ("f1", "rouge_l", "words", "abstained", "right", "answer_words@5"):
        report[name] = round(sum(float(row[name]) for row in rows) / total, 4)
    for name in ("citation_precision", "citation_recall"):
        values = [row[name] for row in rows if name in row]
        report[name] = round(statistics.fmean(values), 4) if values else None
    return report


def by_level(rows: Collection[Json]) -> Json:
    """Return number and share of right answers per level that has any, without abstentions."""
    report: Json = {}
    for level in LEVELS:
        level_rows = [r for r in rows if r["confidence_level"] == level and not r["abstained"]]
        if level_rows:
            right = sum(row["right"] for row in level_rows)
            report[level] = {"n": len(level_rows), "right": round(right / len(level_rows), 4)}
    return report


def confidence_area(rows: Collection[Json]) -> float | None:
    """Return the `roc_area` of confidence for right answers, without abstentions."""
    answered = [row for row in rows if not row["abstained"]]
    values = [float(row["confidence"]) for row in answered]
    area = roc_area(values, [bool(row["right"]) for row in answered])
    return None if area is None else round(area, 4)


def show_answers(report: Json) -> None:
    """Print the metrics, also per type, and the AUC of confidence."""
    out, run = screen(), report["runs"][0]
    names = list(run["metrics"])
    table = table_of(out, report, "type", names, f", model {report['model']}")
    for kind, values in {"all": run["metrics"], **run["types"]}.items():
        cells = (values[name] for name in names)
        table.add_row(kind, *("-" if c is None else f"{c:.4g}" for c in cells))
    out.print(table)
    levels = ", ".join(
        f"{level} {row['right']:.2f} of {row['n']}" for level, row in run["confidence"].items()
    )
    verdicts = ", ".join(f"{count} {kind}" for kind, count in sorted(run["verdicts"].items()))
    total = run["latency_ms"].get("total", {"p50": 0.0, "p95": 0.0})
    out.print(f"right by confidence: {levels or 'no answers'}")
    area = run["confidence_auc"]
    out.print(f"AUC of confidence {'-' if area is None else f'{area:.3f}'}")
    out.print(f"sentences: {verdicts or 'none'}; errors {run['errors']}")
    out.print(f"total p50 {total['p50']:.1f} ms, p95 {total['p95']:.1f} ms")
