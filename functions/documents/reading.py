"""Passages with surrounding text."""

from collections.abc import Mapping, Sequence

from docstokg.contracts.documents import Passage, PassageRequest
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import FieldProblem
from docstokg.domain import time_budget
from docstokg.domain.identity import chunk_uuid
from docstokg.errors import DocsToKGError
from docstokg.ports import SearchIndex
from docstokg.usecases.intake import invalid, namespace_of, parse_body
from docstokg.usecases.problems import json_reply, problem_reply
from docstokg.usecases.run import Begin, Call

# Maximum chunks read on either side.
NEIGHBOURS = 8

# Separator of chunks with unknown offsets or more than a space between them.
GAP = "\n\n"


def read_passage(envelope: Envelope, *, begin: Begin, index: SearchIndex) -> Reply:
    """Return a Passage as a reply, or a problem: 400, 403, 404, 413, 503.

    An invisible passage is a 404, an invisible neighbour is left out.
    """
    request = parse_body(envelope, PassageRequest)
    if isinstance(request, Reply):
        return request
    namespace = namespace_of(envelope, request.namespace, index, begin)
    if isinstance(namespace, Reply):
        return namespace
    call = begin(envelope.request_id, envelope.caller.scope(namespace))
    try:
        chunks = _read(call, [request.uuid], index)
        if not chunks:
            detail = "There is no such passage, or it is not yours to read."
            return problem_reply(404, "not_found", detail, envelope.request_id)
        chunk = chunks[0]
        around = _around(call, chunk, request.context, index) if request.context else []
    except DocsToKGError as error:
        call.log("passage", error, level="ERROR")
        detail = "The passage could not be read."
        return problem_reply(503, "unavailable", detail, envelope.request_id)
    lit = _lit(chunk, request)
    if isinstance(lit, FieldProblem):
        return invalid([lit], envelope.request_id)
    return json_reply(_passage(chunk, around, request.context, lit))


def _read(call: Call, uuids: Sequence[str], index: SearchIndex) -> list[StoredChunk]:
    chunks = index.get(uuids, call.scope, call.deadline.limit(time_budget.PASSAGE_S)).chunks
    return [chunks[uuid] for uuid in uuids if uuid in chunks]


def _number(chunk: StoredChunk) -> int | None:
    head, mark, number = chunk.chunk_id.rpartition("#")
    cut_here = bool(mark) and head == chunk.doc_id and number.isdecimal() and number.isascii()
    return int(number) if cut_here and len(number) <= 9 else None


def _around(
    call: Call, chunk: StoredChunk, max_chars: int, index: SearchIndex
) -> list[StoredChunk]:
    number = _number(chunk)
    if number is None:
        return []
    reach = min(NEIGHBOURS, 1 + max_chars // 400)
    numbers = [n for n in range(max(0, number - reach), number + reach + 1) if n != number]
    namespace = call.scope.namespace
    uuids = [chunk_uuid(namespace, f"{chunk.doc_id}#{n}") for n in numbers]
    return [
        neighbour for neighbour in _read(call, uuids, index) if neighbour.doc_id == chunk.doc_id
    ]


def _lit(chunk: StoredChunk, request: PassageRequest) -> tuple[int, int] | FieldProblem | None:
    start, end = request.char_start, request.char_end
    if start is None or end is None:
        return None
    base = chunk.char_start or 0
    if not base <= start < end <= base + len(chunk.text):
        message = f"not within the passage, which is {base} to {base + len(chunk.text)}"
        return FieldProblem(path="$.char_start", code="out_of_range", message=message)
    return start - base, end - base


def _passage(
    chunk: StoredChunk, around: Sequence[StoredChunk], max_chars: int, lit: tuple[int, int] | None
) -> Passage:
    start = chunk.char_start or 0
    near = {_number(neighbour): neighbour for neighbour in around}
    return Passage(
        **chunk.model_dump(include=set(Passage.model_fields) - {"char_start", "char_end"}),
        before=_beyond(chunk, near, -1)[-max_chars:] if max_chars else "",
        after=_beyond(chunk, near, 1)[:max_chars],
        offset_base="document" if chunk.char_start is not None else "chunk",
        char_start=start,
        char_end=start + len(chunk.text),
        lit=lit,
    )


def _beyond(chunk: StoredChunk, near: Mapping[int | None, StoredChunk], step: int) -> str:
    text, number = "", _number(chunk) or 0
    while neighbour := near.get(number + step):
        if step > 0:
            shared = _shared(chunk, neighbour)
            text += _between(shared) + neighbour.text[max(0, shared) :]
        else:
            shared = _shared(neighbour, chunk)
            text = neighbour.text[: len(neighbour.text) - max(0, shared)] + _between(shared) + text
        chunk, number = neighbour, number + step
    return text


def _between(shared: int) -> str:
    return "" if shared >= 0 else " " if shared == -1 else GAP


def _shared(first: StoredChunk, second: StoredChunk) -> int:
    if first.char_start is None or second.char_start is None:
        return -len(GAP)
    shared = first.char_start + len(first.text) - second.char_start
    return min(shared, len(first.text), len(second.text))
