"""Conversion from and to OpenAI's chat format."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from docstokg.contracts.chat import (
    Annotation,
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatMessage,
    ChatPlan,
    ChatRequest,
    ErrorDetail,
    ErrorReply,
    Evidence,
    FinishReason,
    ListedModel,
    ModelList,
    ResponseFormat,
    UrlCitation,
    Usage,
)
from docstokg.contracts.envelope import Caller, Reply
from docstokg.contracts.request import (
    MAX_HISTORY_BYTES,
    MAX_QUERY_CHARACTERS,
    MAX_STYLE_CHARACTERS,
    MAX_TURNS,
    MIN_QUERY_BYTES,
    RAGRequest,
)
from docstokg.contracts.response import Citation, FieldProblem, Problem, RAGResponse
from docstokg.domain.answer.notices import CUT_SHORT
from docstokg.usecases.intake import field_of, parse
from docstokg.usecases.links import is_web, passage_link
from docstokg.usecases.problems import PROBLEM_TYPE

WARNING_HEADER = "X-Docstokg-Warning"
STYLE_CUT = f"The system prompt was cut to {MAX_STYLE_CHARACTERS} characters."
PARTS_UNREAD = "Images, audio and files in messages are not read."
_JSON_FIELDS = ("answer", "citations", "confidence")
DEFAULT_TOKENS = 512
MOST_TOKENS = 4096
UNCITED_SHOWN = 5
JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream; charset=utf-8"
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_MARKER = re.compile(r"\[(\d+)\]")
_QUESTION, _HISTORY, _STYLE = "$.query", "$.history", "$.synthesis.system_prompt"


class Conversation:
    """Question, history and style of a chat request, with their positions in it."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        user_turns = [n for n, message in enumerate(request.messages) if message.role == "user"]
        self.place = user_turns[-1] if user_turns else None
        self.question = _text(request.messages[user_turns[-1]]) if user_turns else ""
        styles = [_text(m) for m in request.messages if m.role in ("system", "developer")]
        style = "\n".join(text for text in styles if text.strip())
        self.style = style[:MAX_STYLE_CHARACTERS] or None
        self.warnings = [STYLE_CUT] if len(style) > MAX_STYLE_CHARACTERS else []
        if any(
            isinstance(message.content, tuple)
            and any(part.type != "text" for part in message.content)
            for message in request.messages
        ):
            self.warnings.append(PARTS_UNREAD)

    def history(self) -> list[dict[str, str]]:
        """Return the last turns before the question that fit the contract.

        Longer turns are truncated; older ones are dropped.
        """
        turns: list[dict[str, str]] = []
        left = MAX_HISTORY_BYTES
        for message in reversed(self._request.messages[: self.place]):
            text = _text(message)[:MAX_QUERY_CHARACTERS]
            left -= len(text.encode("utf-8", "surrogatepass"))
            if left < 0 or len(turns) == MAX_TURNS:
                break
            if message.role in ("user", "assistant") and text:
                turns.insert(0, {"role": message.role, "content": text})
        return turns

    def body(self, models: tuple[str, ...]) -> dict[str, Any]:
        """Return the RAGRequest as a dict."""
        request = self._request
        model, namespace = model_and_namespace(request.model, models)
        tokens = request.max_completion_tokens or request.max_tokens or DEFAULT_TOKENS
        synthesis: dict[str, Any] = {"enabled": True, "model": model}
        if request.temperature is not None:
            synthesis["temperature"] = request.temperature
        if self.style is not None:
            synthesis["system_prompt"] = self.style
        # A greeting such as "hi" is shorter than the minimum, so it is padded.
        question = self.question.strip()
        if question and len(question.encode("utf-8", "surrogatepass")) < MIN_QUERY_BYTES:
            question = question.ljust(MIN_QUERY_BYTES, "?")
        body = {"query": question, "history": self.history(), "synthesis": synthesis}
        if namespace is not None:
            body["namespace"] = namespace
        return {**body, "budget": {"max_tokens_gen": min(tokens, MOST_TOKENS)}}

    def own(self, problem: FieldProblem) -> FieldProblem:
        """Return a problem with its path in the chat request."""
        at = None
        if problem.path == _QUESTION:
            at = "$.messages" if self.place is None else f"$.messages[{self.place}].content"
        elif problem.path == _STYLE or problem.path.startswith(_HISTORY):
            at = "$.messages"
        elif problem.path in ("$.namespace", "$.synthesis.model"):
            at = "$.model"
        return problem if at is None else problem.model_copy(update={"path": at})


def read_chat(
    body: bytes, models: tuple[str, ...]
) -> tuple[RAGRequest | None, ChatPlan | None, list[FieldProblem]]:
    """Return the question and the reply's form, or all errors of the request."""
    chat, errors = parse(body, ChatRequest)
    if chat is None:
        return None, None, errors
    conversation = Conversation(chat)
    if refused := _unsupported(chat, conversation):
        return None, None, refused
    document = json.dumps(conversation.body(models), ensure_ascii=False)
    request, errors = parse(document.encode("utf-8", "surrogatepass"), RAGRequest)
    options = chat.stream_options
    plan = ChatPlan(
        model=chat.model,
        stream=bool(chat.stream),
        include_usage=bool(options is not None and options.include_usage),
        stop=(chat.stop,) if isinstance(chat.stop, str) else chat.stop or (),
        fields=_json_fields(chat.response_format),
        warnings=tuple(conversation.warnings),
    )
    return request, plan, [conversation.own(error) for error in errors]


def _unsupported(chat: ChatRequest, conversation: Conversation) -> list[FieldProblem]:
    """Return what a chat asks for that is not supported."""
    if conversation.place is None:
        message = "must hold a message whose role is user"
        return [FieldProblem(path="$.messages", code="question_missing", message=message)]
    if chat.tool_choice not in (None, "none", "auto"):
        message = "no tools are called here; send none or auto"
        return [FieldProblem(path="$.tool_choice", code="tools_unsupported", message=message)]
    schema = chat.response_format and chat.response_format.json_schema
    if schema and not set(schema.schema_.get("required", ())) <= set(_JSON_FIELDS):
        message = f"may require only {', '.join(_JSON_FIELDS)}"
        path = "$.response_format.json_schema"
        return [FieldProblem(path=path, code="schema_unsupported", message=message)]
    return []


def _json_fields(form: ResponseFormat | None) -> dict[str, str]:
    """Return the fields of the JSON object that a format asks for, with the type of their items."""
    if form is None or form.type == "text":
        return {}
    if form.json_schema is None:
        return {"answer": "", "citations": "object"}
    properties = form.json_schema.schema_.get("properties", {})
    fields = {name: field_of(properties, name, "items", "type") for name in properties}
    return {name: str(kind or "") for name, kind in fields.items() if name in _JSON_FIELDS}


def model_and_namespace(name: str, models: tuple[str, ...]) -> tuple[str, str | None]:
    """Split `MODEL@NAMESPACE`; a listed model that contains `@` is returned whole."""
    model, sign, namespace = name.rpartition("@")
    if name in models or not sign:
        return name, None
    return model, namespace


def models_reply(caller: Caller, models: tuple[str, ...], stored: Collection[str] = ()) -> Reply:
    """Return the models, each also combined with every granted namespace.

    `stored`: existing namespaces, for callers with access to all.
    """
    granted = {*caller.namespaces, *(stored if "*" in caller.namespaces else ())}
    namespaces = sorted(granted - {"*", "default"})
    ids = [*models, *(f"{model}@{namespace}" for model in models for namespace in namespaces)]
    listed = ModelList(data=tuple(ListedModel(id=name) for name in ids))
    return _sent(listed.model_dump_json())


def chat_reply(reply: Reply, chat: ChatPlan, started_ms: int, public_url: str) -> Reply:
    """Convert a pipeline reply to a completion, an event stream or an error.

    `public_url`: address of the page to which citations link, or "".
    """
    if reply.statusCode != 200:
        return error_reply(reply)
    response = RAGResponse.model_validate_json(reply.body)
    completion = _completion(response, chat, started_ms, public_url)
    if chat.stream:
        event = json.dumps(_event(completion, chat), ensure_ascii=False, separators=(",", ":"))
        reply = _sent(f"data: {event}\n\ndata: [DONE]\n\n", EVENTS_TYPE)
    else:
        reply = _sent(completion.model_dump_json())
    if not chat.warnings:
        return reply
    headers = {**reply.headers, WARNING_HEADER: " ".join(chat.warnings)}
    return reply.model_copy(update={"headers": headers})


def _sent(body: str, kind: str = JSON_TYPE) -> Reply:
    return Reply(statusCode=200, body=body, headers={"Content-Type": kind})


def error_reply(reply: Reply) -> Reply:
    """Convert a problem to an error object of OpenAI's API; other replies are unchanged."""
    if reply.headers.get("Content-Type") != PROBLEM_TYPE:
        return reply
    problem = Problem.model_validate_json(reply.body)
    detail = "; ".join(f"{_param(error.path)}: {error.message}" for error in problem.errors)
    first = problem.errors[0] if problem.errors else None
    default = "server_error" if problem.status >= 500 else "invalid_request_error"
    error = ErrorDetail(
        message=f"{problem.detail} {detail}".strip(),
        type=_ERROR_TYPES.get(problem.status, default),
        param=_param(first.path) if first is not None else None,
        code=first.code if first is not None else problem.code,
    )
    headers = {**reply.headers, "Content-Type": JSON_TYPE}
    body = ErrorReply(error=error).model_dump_json()
    return Reply(statusCode=reply.statusCode, body=body, headers=headers)


def _completion(
    response: RAGResponse, chat: ChatPlan, started_ms: int, public_url: str
) -> ChatCompletion:
    meta, diagnostics = response.metadata, response.diagnostics
    # Without an answer, the warnings are shown, so that the chat bubble is not empty.
    content = response.answer or " ".join(response.warnings)
    ends = [content.find(text) for text in chat.stop if text and text in content]
    content = content[: min(ends, default=len(content))]
    finish_reason: FinishReason = "length" if CUT_SHORT in response.warnings else "stop"
    cited = tuple(citation for citation in response.citations if citation.cited)
    used = diagnostics.budget_used if diagnostics is not None else None
    prompt_tokens, written = (used.tokens_context, used.tokens_gen) if used is not None else (0, 0)
    urls = {one.rank: _url(one, meta.namespace, public_url) for one in cited}
    annotations = _annotations(content, cited, urls)
    if chat.fields:
        made = {"answer": content, "confidence": response.confidence}
        kind = chat.fields.get("citations")
        made["citations"] = [_json_citation(one, urls[one.rank], kind) for one in cited]
        content = json.dumps({name: made[name] for name in chat.fields}, ensure_ascii=False)
        annotations = ()
    message = AnswerMessage(content=content, annotations=annotations)
    return ChatCompletion(
        id=f"chatcmpl-{meta.request_id}",
        created=started_ms // 1000,
        model=chat.model,
        choices=(ChatChoice(message=message, finish_reason=finish_reason),),
        usage=Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=written,
            total_tokens=prompt_tokens + written,
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
            degraded_reasons=diagnostics.degraded_reasons if diagnostics is not None else (),
        ),
    )


def _json_citation(citation: Citation, url: str, kind: str | None) -> Any:
    """Return a citation as its number, its text, or an object, as the client's schema has it."""
    if kind in ("integer", "number"):
        return citation.rank
    if kind == "string":
        return citation.snippet
    named = {"rank": citation.rank, "url": url, "snippet": citation.snippet}
    return {**named, "title": citation.document_name or citation.doc_id, "uuid": citation.uuid}


def _url(citation: Citation, namespace: str, public_url: str) -> str:
    """Return the address of a passage on the page, else of its source, else a name."""
    if public_url:
        span = (citation.char_start, citation.char_end)
        where = citation.namespace or namespace
        return passage_link(public_url, where, citation.doc_id, citation.uuid, span)
    return str(citation.uri) if is_web(citation.uri) else f"urn:uuid:{citation.uuid}"


def _annotations(
    content: str, cited: tuple[Citation, ...], urls: Mapping[int, str]
) -> tuple[Annotation, ...]:
    by_rank = {citation.rank: citation for citation in cited}
    annotations = []
    for marker in _MARKER.finditer(content):
        citation = by_rank.get(int(marker[1]))
        if citation is not None:
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


def _event(completion: ChatCompletion, chat: ChatPlan) -> dict[str, Any]:
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


def live_chunk(name: str, value: dict[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chunk for an event of a streamed answer.

    `head`: id, created and model. Data other than answer text is under `docstokg`.
    """
    if name == "response":
        (choice,) = value["choices"]
        delta = {key: told for key, told in choice["delta"].items() if key == "annotations"}
        return {**value, **head, "choices": [{**choice, "delta": delta}]}
    delta = {"content": value["text"]} if name == "sentence" else {}
    delta |= {"role": "assistant", "content": ""} if name == "citations" else {}
    choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}
    evidence = value if name == "citations" else {name: value}
    chunk = {"object": "chat.completion.chunk", "choices": [choice], "docstokg": evidence}
    return {**head, **chunk}


def _text(message: ChatMessage) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        part.text if part.type == "text" else f"[{part.type.removesuffix('_url')}]"
        for part in content
    )


def _param(path: str) -> str:
    return path.removeprefix("$").removeprefix(".") or "body"
