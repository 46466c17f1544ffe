"""Answers in OpenAI's formats."""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from docstokg.contracts import Json, compact_json
from docstokg.contracts.chat import (
    MODEL_NOT_FOUND,
    Annotation,
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatPlan,
    ErrorDetail,
    ErrorReply,
    Evidence,
    FinishReason,
    Incomplete,
    ModelResponse,
    OutputMessage,
    OutputText,
    ResponseStatus,
    ResponseUsage,
    TextCitation,
    UrlCitation,
    Usage,
)
from docstokg.contracts.envelope import Reply
from docstokg.contracts.response import Citation, RAGResponse
from docstokg.contracts.state import Plan, Synthesis
from docstokg.domain.answer.notices import CUT_SHORT, SYNTHESIS_UNAVAILABLE
from docstokg.usecases.chat import error_reply
from docstokg.usecases.links import is_web, passage_link
from docstokg.usecases.problems import json_reply

WARNING_HEADER = "X-Docstokg-Warning"
UNCITED_SHOWN = 5
# Outcomes of a synthesis whose models all failed.
FAILED = ("failed", "unconfigured")
RETRY_S = "5"
# Copies of the cited passages in a reply: once as evidence, the others in annotations.
COPIES: Mapping[str, int] = {"chat": 2, "responses": 5}
EVENTS_TYPE = "text/event-stream; charset=utf-8"
_MARKER = re.compile(r"\[(\d+)\]")


def chat_reply(reply: Reply, plan: Plan, synthesis: Synthesis | None, public_url: str) -> Reply:
    """Convert a pipeline reply to a completion, an event stream or an error.

    A model that failed is an error: 404 without key or address, else 503. `public_url`: address of
    the page to which citations link, or "".
    """
    chat = plan.chat
    assert chat is not None
    if reply.statusCode != 200:
        return error_reply(reply)
    response = RAGResponse.model_validate_json(reply.body)
    completion = _completion(response, chat, plan.started_ms, public_url)
    is_failed = synthesis is None or synthesis.outcome in FAILED
    # A stream ends with an error after its complete sentences.
    if is_failed or (chat.stream and synthesis and synthesis.is_incomplete):
        return _model_error(response, synthesis, completion.docstokg)
    if chat.route == "responses":
        model_response = _model_response(completion)
        if chat.stream:
            events = ResponseEvents(response.metadata.request_id, model_response.model)
            text, whole = (
                model_response.output[0].content[0].text,
                model_response.model_dump(mode="json"),
            )
            body = events.opening() + events.delta(text) + events.closing(whole)
            reply = _event_stream(body)
        else:
            reply = json_reply(model_response)
    elif chat.stream:
        event = compact_json(_event(completion, chat))
        reply = _event_stream(f"data: {event}\n\ndata: [DONE]\n\n")
    else:
        reply = json_reply(completion)
    if not chat.warnings:
        return reply
    headers = {**reply.headers, WARNING_HEADER: " ".join(chat.warnings)}
    return reply.model_copy(update={"headers": headers})


def _event_stream(body: str) -> Reply:
    return Reply(statusCode=200, body=body, headers={"Content-Type": EVENTS_TYPE})


def _model_error(response: RAGResponse, synthesis: Synthesis | None, evidence: Evidence) -> Reply:
    detail = " ".join(warning for warning in response.warnings if warning != SYNTHESIS_UNAVAILABLE)
    if synthesis and synthesis.outcome == "unconfigured":
        status, code, headers = 404, MODEL_NOT_FOUND, {}
    else:
        reasons = [reason for reason in evidence.degraded_reasons if reason.startswith("llm_")]
        status, code, headers = 503, (*reasons, "llm_unavailable")[0], {"Retry-After": RETRY_S}
    error = ErrorDetail(
        message=detail or "The model did not answer.",
        type="server_error" if status == 503 else "invalid_request_error",
        param="model" if status == 404 else None,
        code=code,
    )
    return json_reply(ErrorReply(error=error, docstokg=evidence), status, **headers)


def _completion(
    response: RAGResponse, chat: ChatPlan, started_ms: int, public_url: str
) -> ChatCompletion:
    meta, diagnostics = response.metadata, response.diagnostics
    # Without an answer, the warnings are shown, so that the chat bubble is not empty.
    content = response.answer or " ".join(response.warnings)
    ends = [content.find(text) for text in chat.stop if text and text in content]
    content = content[: min(ends, default=len(content))]
    # A header holds the warnings on the request, `finish_reason` that the answer is cut.
    warnings = [text for text in response.warnings if text not in (*chat.warnings, CUT_SHORT)]
    if response.answer and warnings and not (chat.fields or ends):
        content += f"\n\nNote: {' '.join(warnings)}"
    finish_reason: FinishReason = "length" if CUT_SHORT in response.warnings else "stop"
    cited = tuple(citation for citation in response.citations if citation.cited)
    used = diagnostics.budget_used if diagnostics else None
    prompt_tokens, completion_tokens = (
        (used.tokens_context, used.tokens_gen) if used is not None else (0, 0)
    )
    urls = {citation.rank: _url(citation, meta.namespace, public_url) for citation in cited}
    annotations = _annotations(content, cited, urls)
    if chat.fields:
        fields = {"answer": content, "confidence": response.confidence}
        kind = chat.fields.get("citations")
        fields["citations"] = [
            _json_citation(citation, urls[citation.rank], kind) for citation in cited
        ]
        content = json.dumps({name: fields[name] for name in chat.fields}, ensure_ascii=False)
        annotations = ()
    message = AnswerMessage(content=content, annotations=annotations)
    return ChatCompletion(
        id=f"chatcmpl-{meta.request_id}",
        created=started_ms // 1000,
        model=chat.model,
        choices=(ChatChoice(message=message, finish_reason=finish_reason),),
        usage=Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
        ),
        docstokg=Evidence(
            request_id=meta.request_id,
            namespace=meta.namespace,
            query_used=response.query_used,
            query_used_by=response.query_used_by,
            citations=cited or response.citations[:UNCITED_SHOWN],
            confidence=response.confidence,
            confidence_level=response.confidence_level,
            grounding=response.grounding,
            warnings=response.warnings,
            degraded_reasons=diagnostics.degraded_reasons if diagnostics else (),
        ),
    )


def _json_citation(citation: Citation, url: str, kind: str | None) -> Any:
    if kind in ("integer", "number"):
        return citation.rank
    if kind == "string":
        return url
    named = {"rank": citation.rank, "url": url, "snippet": citation.snippet}
    return {**named, "title": citation.document_name or citation.doc_id, "uuid": citation.uuid}


def _url(citation: Citation, namespace: str, public_url: str) -> str:
    if public_url:
        span = (citation.char_start, citation.char_end)
        citation_namespace = citation.namespace or namespace
        return passage_link(public_url, citation_namespace, citation.doc_id, citation.uuid, span)
    return str(citation.uri) if is_web(citation.uri) else f"urn:uuid:{citation.uuid}"


def _annotations(
    content: str, cited: tuple[Citation, ...], urls: Mapping[int, str]
) -> tuple[Annotation, ...]:
    by_rank = {citation.rank: citation for citation in cited}
    annotations = []
    for marker in _MARKER.finditer(content):
        # One annotation per citation: a model may repeat a marker hundreds of times.
        citation = by_rank.pop(int(marker[1]), None)
        if citation:
            url = urls[citation.rank]
            annotations.append(Annotation(url_citation=_url_citation(citation, url, marker.span())))
    return tuple(annotations)


def _url_citation(citation: Citation, url: str, span: tuple[int, int]) -> UrlCitation:
    place = citation.document_name or citation.doc_id
    return UrlCitation(
        start_index=span[0],
        end_index=span[1],
        title=f"{place}, {citation.section}" if citation.section else place,
        url=url,
        rank=citation.rank,
        uuid=citation.uuid,
        doc_id=citation.doc_id,
        snippet=citation.snippet,
    )


def _event(completion: ChatCompletion, chat: ChatPlan) -> Json:
    whole = completion.model_dump(mode="json")
    (choice,) = whole.pop("choices")
    usage = whole.pop("usage")
    delta = {
        "index": 0,
        "delta": choice["message"],
        "finish_reason": choice["finish_reason"],
        "logprobs": None,
    }
    event = {**whole, "object": "chat.completion.chunk", "choices": [delta]}
    return {**event, "usage": usage} if chat.include_usage else event


def live_chunk(name: str, value: Json, head: Json) -> Json:
    """Return the chunk for an event of a streamed answer.

    `head`: id, created and model. Data other than answer text is in `docstokg`.
    """
    if name == "response":
        (choice,) = value["choices"]
        delta = {key: content for key, content in choice["delta"].items() if key == "annotations"}
        return {**value, **head, "choices": [{**choice, "delta": delta}]}
    delta = {"content": value["text"]} if name == "sentence" else {}
    delta |= {"role": "assistant", "content": ""} if name == "citations" else {}
    choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
    evidence = value if name == "citations" else {name: value}
    chunk = {"object": "chat.completion.chunk", "choices": [choice], "docstokg": evidence}
    return {**head, **chunk}


def _model_response(completion: ChatCompletion) -> ModelResponse:
    (choice,), usage = completion.choices, completion.usage
    is_cut = choice.finish_reason == "length"
    status: ResponseStatus = "incomplete" if is_cut else "completed"
    cited = (annotation.url_citation.model_dump() for annotation in choice.message.annotations)
    annotations = tuple(TextCitation(**citation) for citation in cited)
    text = OutputText(text=choice.message.content, annotations=annotations)
    request_id = completion.docstokg.request_id
    return ModelResponse(
        id=f"resp_{request_id}",
        created_at=completion.created,
        status=status,
        model=completion.model,
        output=(OutputMessage(id=f"msg_{request_id}", status=status, content=(text,)),),
        usage=ResponseUsage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            total_tokens=usage.total_tokens,
        ),
        incomplete_details=Incomplete() if is_cut else None,
        docstokg=completion.docstokg,
    )


class ResponseEvents:
    """Events of one streamed response, numbered in order."""

    def __init__(self, request_id: str, model: str) -> None:
        begun = ModelResponse(id=f"resp_{request_id}", created_at=int(time.time()), model=model)
        self._begun, self._item_id = begun.model_dump(mode="json"), f"msg_{request_id}"
        self._count = 0

    def of(self, name: str, value: Any) -> str | None:
        """Return the frames of an event of `usecases/live.py`; None for repairs and verdicts."""
        match name:
            case "citations":
                return self.opening()
            case "sentence":
                return self.delta(value.text)
            case "response":
                return self.closing(value)
            case "problem":
                return self.failed(value["error"])
        return None

    def opening(self) -> str:
        """Return the events before the text."""
        item = OutputMessage(id=self._item_id, status="in_progress").model_dump(mode="json")
        part = OutputText().model_dump(mode="json")
        return (
            self._event("created", response=self._begun)
            + self._event("in_progress", response=self._begun)
            + self._event("output_item.added", output_index=0, item=item)
            + self._of_text("content_part.added", part=part)
        )

    def delta(self, text: str) -> str:
        """Return the event of a part of the text."""
        return self._of_text("output_text.delta", delta=text, logprobs=[])

    def closing(self, response: Json) -> str:
        """Return the events after the text: citations, the whole text and the response."""
        response = {**response, "created_at": self._begun["created_at"]}
        (item,) = response["output"]
        (part,) = item["content"]
        added = (
            self._of_text("output_text.annotation.added", annotation_index=n, annotation=annotation)
            for n, annotation in enumerate(part["annotations"])
        )
        return (
            "".join(added)
            + self._of_text("output_text.done", text=part["text"], logprobs=[])
            + self._of_text("content_part.done", part=part)
            + self._event("output_item.done", output_index=0, item=item)
            + self._event(response["status"], response=response)
        )

    def failed(self, error: Json) -> str:
        """Return the event of an error; OpenAI's client raises it because of its field `error`."""
        fields = {name: error[name] for name in ("code", "message", "param")} | {"error": error}
        return self._frame("error", fields)

    def _of_text(self, name: str, **fields: Any) -> str:
        place = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        return self._event(name, **place, **fields)

    def _event(self, name: str, **fields: Any) -> str:
        return self._frame(f"response.{name}", fields)

    def _frame(self, kind: str, fields: Json) -> str:
        event = {"type": kind, "sequence_number": self._count, **fields}
        self._count += 1
        return f"event: {kind}\ndata: {compact_json(event)}\n\n"
