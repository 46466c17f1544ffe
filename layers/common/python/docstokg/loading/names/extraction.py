"""Triple extraction by language model."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import batched
from typing import NamedTuple

from docstokg.contracts.completion import Completion
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph import extraction
from docstokg.domain.identity import text_sha256
from docstokg.errors import (
    DocsToKGError,
    Misconfigured,
    Permanent,
    QuotaExceeded,
    Retryable,
    WrongAnswer,
)
from docstokg.loading.context import Context, ExtractionReport
from docstokg.loading.read.raw_input import RawChunk, RawRelation
from docstokg.ports import LanguageModel, ReplyStore

# Number of chunks per cache lookup and per round of requests.
BATCH = 64

# Consecutive failed calls after which no more are made.
IN_A_ROW = 8

# Pauses in seconds before a call is repeated after `QuotaExceeded`.
PAUSES_S = (2.0, 8.0)


class Estimate(NamedTuple):
    """Expected requests: chunks, characters and tokens of their texts and the instructions.

    `cached`: chunks with a stored reply. `restricted`: chunks skipped because of their acl.
    `cost_usd`: None if the model's price is unknown.
    """

    model: str
    chunks: int = 0
    characters: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    restricted: int = 0
    cost_usd: float | None = None


class Extraction(NamedTuple):
    """Model, reply store and consent callback of an extraction.

    `restricted`: also send chunks with an acl. `parallel`: concurrent calls, each limited to
    `timeout_s` seconds.
    """

    model: str
    language_model: LanguageModel
    replies: ReplyStore
    agree: Callable[[Estimate], bool]
    restricted: bool = False
    parallel: int = 4
    timeout_s: float = 120.0


class Declined(Permanent):
    """Consent to send texts was refused."""


def extract(context: Context, chosen: Extraction) -> ExtractionReport:
    """Stage the triples of every chunk of the load; raise `Declined` without consent.

    Stored replies need no consent. A chunk with a failed call or an invalid reply is rejected;
    IN_A_ROW consecutive failures end the requests.
    """
    estimate = _estimated(context, chosen)
    if estimate.chunks and not chosen.agree(estimate):
        raise Declined("declined: nothing was sent or loaded")
    report = ExtractionReport(chosen.model, restricted=estimate.restricted)
    asking = _Asking(chosen, report)
    total = estimate.chunks + estimate.cached
    with context.progress.stage("extracting", total) as advance:
        for batch in batched(_readable(context, chosen), BATCH):
            replies = asking.replies([chunk.text for chunk in batch])
            for chunk in batch:
                _add_triples(context, report, chunk, replies[_key(chosen.model, chunk.text)])
            advance(len(batch))
    return report


def _readable(context: Context, chosen: Extraction) -> Iterator[RawChunk]:
    for chunk in context.staging.chunks():
        if chunk.text.strip() and (chosen.restricted or not chunk.acl):
            yield chunk


def _estimated(context: Context, chosen: Extraction) -> Estimate:
    chunks = characters = total = tokens_in = tokens_out = 0
    seen: set[str] = set()
    for batch in batched(_readable(context, chosen), BATCH):
        texts = {_key(chosen.model, chunk.text): chunk.text for chunk in batch}
        answered = chosen.replies.get(list(texts)).keys() | seen
        total += len(batch)
        for key, text in texts.items():
            if key not in answered:
                cost_in, cost_out = extraction.estimated_tokens(text)
                chunks, characters = chunks + 1, characters + len(text[: extraction.LONGEST_SENT])
                tokens_in, tokens_out = tokens_in + cost_in, tokens_out + cost_out
        seen |= texts.keys()
    price = chosen.language_model.price(chosen.model) if chunks else None
    return Estimate(
        model=chosen.model,
        chunks=chunks,
        characters=characters,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cached=total - chunks,
        restricted=context.staging.count("chunk") - total if not chosen.restricted else 0,
        cost_usd=None if price is None else tokens_in * price[0] + tokens_out * price[1],
    )


def _key(model: str, text: str) -> str:
    digest = text_sha256(text)
    return f"triples:{extraction.VERSION}:{model}:{digest}"


class _Asking:
    def __init__(self, chosen: Extraction, report: ExtractionReport) -> None:
        self._chosen = chosen
        self._report = report
        self._failures = 0
        self._lock = threading.Lock()

    def replies(self, texts: Sequence[str]) -> Mapping[str, str | DocsToKGError]:
        chosen = self._chosen
        texts_by_key = {_key(chosen.model, text): text for text in texts}
        replies: dict[str, str | DocsToKGError] = dict(chosen.replies.get(list(texts_by_key)))
        todo = {key: text for key, text in texts_by_key.items() if key not in replies}
        if not todo:
            return replies
        with ThreadPoolExecutor(chosen.parallel) as pool:
            calls = {pool.submit(self._reply, *item): item[0] for item in todo.items()}
            try:
                for call in as_completed(calls):
                    replies[calls[call]] = call.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return replies

    def _reply(self, key: str, text: str) -> str | DocsToKGError:
        report = self._report
        with self._lock:
            if self._failures >= IN_A_ROW:
                return Misconfigured(f"not sent: {IN_A_ROW} calls failed in a row")
            report.requests += 1
        try:
            completion = self._patient(text)
        except DocsToKGError as error:
            with self._lock:
                self._failures += isinstance(error, Retryable)
            return error
        with self._lock:
            self._failures = 0
            report.tokens_in += completion.tokens_in
            report.tokens_out += completion.tokens_out
            report.cost_usd += completion.cost_usd or 0.0
        try:
            extraction.rows_of(completion.text)
        except WrongAnswer as broken:
            return broken
        self._chosen.replies.put({key: completion.text})
        return completion.text

    def _patient(self, text: str) -> Completion:
        for pause_s in (*PAUSES_S, None):
            try:
                return self._chosen.language_model.complete(
                    extraction.messages(text),
                    model=self._chosen.model,
                    temperature=0.0,
                    max_tokens=extraction.MAX_TOKENS,
                    deadline=Deadline.after(self._chosen.timeout_s),
                    schema=extraction.SCHEMA,
                )
            except QuotaExceeded:
                if pause_s is None:
                    raise
                time.sleep(pause_s)
        raise AssertionError("the last call returns or raises")


def _add_triples(
    context: Context, report: ExtractionReport, chunk: RawChunk, reply: str | DocsToKGError
) -> None:
    report.chunks += 1
    try:
        if isinstance(reply, DocsToKGError):
            raise reply
        reading = extraction.read(reply, chunk.text)
    except DocsToKGError as error:
        report.failed += 1
        context.rejects.add(f"chunk {chunk.id}", 0, f"no triples: {error}")
        return
    report.refused.update(reading.refused)
    report.triples += len(reading.triples)
    for number, triple in enumerate(reading.triples, 1):
        record = RawRelation(
            source=triple.subject,
            type=triple.relation,
            target=triple.object,
            evidence=chunk.id,
            start=triple.start,
            end=triple.end,
            properties={"extracted_by": report.model},
            from_text=True,
        )
        context.staging.add_statement(record, f"chunk {chunk.id}", number)
        context.staging.add_name(triple.subject, triple.subject_type)
        context.staging.add_name(triple.object, triple.object_type)
