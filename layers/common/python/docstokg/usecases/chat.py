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
    ListedModel,
    ModelList,
    UrlCitation,
    Usage,
)
from docstokg.contracts.envelope import Caller, Reply
from docstokg.contracts.request import (
    MAX_HISTORY_BYTES,
    MAX_QUERY_CHARACTERS,
    MAX_TURNS,
    MIN_QUERY_BYTES,
    RAGRequest,
)
from docstokg.contracts.response import Citation, FieldProblem, Problem, RAGResponse
from docstokg.usecases.intake import parse
from docstokg.usecases.problems import PROBLEM_TYPE

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
        self.style = "\n".join(text for text in styles if text.strip()) or None

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
    if conversation.place is None:
        message = "must hold a message whose role is user"
        missing = FieldProblem(path="$.messages", code="question_missing", message=message)
        return None, None, [missing]
    document = json.dumps(conversation.body(models), ensure_ascii=False)
    request, errors = parse(document.encode("utf-8", "surrogatepass"), RAGRequest)
    options = chat.stream_options
    plan = ChatPlan(
        model=chat.model,
        stream=bool(chat.stream),
        include_usage=bool(options is not None and options.include_usage),
    )
    return request, plan, [conversation.own(error) for error in errors]


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


def chat_reply(reply: Reply, chat: ChatPlan, started_ms: int) -> Reply:
    """Convert a pipeline reply to a completion, an event stream or an error."""
    if reply.statusCode != 200:
        return error_reply(reply)
    completion = _completion(RAGResponse.model_validate_json(reply.body), chat, started_ms)
    if not chat.stream:
        return _sent(completion.model_dump_json())
    event = json.dumps(_event(completion, chat), ensure_ascii=False, separators=(",", ":"))
    return _sent(f"data: {event}\n\ndata: [DONE]\n\n", EVENTS_TYPE)


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


def _completion(response: RAGResponse, chat: ChatPlan, started_ms: int) -> ChatCompletion:
    meta, diagnostics = response.metadata, response.diagnostics
    # Without an answer, the warnings are shown, so that the chat bubble is not empty.
    content = response.answer or " ".join(response.warnings)
    cited = tuple(citation for citation in response.citations if citation.cited)
    used = diagnostics.budget_used if diagnostics is not None else None
    prompt_tokens, written = (used.tokens_context, used.tokens_gen) if used is not None else (0, 0)
    message = AnswerMessage(content=content, annotations=_annotations(content, cited))
    return ChatCompletion(
        id=f"chatcmpl-{meta.request_id}",
        created=started_ms // 1000,
        model=chat.model,
        choices=(ChatChoice(message=message),),
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


def _annotations(content: str, cited: tuple[Citation, ...]) -> tuple[Annotation, ...]:
    by_rank = {citation.rank: citation for citation in cited}
    annotations = []
    for marker in _MARKER.finditer(content):
        citation = by_rank.get(int(marker[1]))
        if citation is not None:
            annotations.append(Annotation(url_citation=_url_citation(citation, marker.span())))
    return tuple(annotations)


def _url_citation(citation: Citation, span: tuple[int, int]) -> UrlCitation:
    place = citation.document_name or citation.doc_id
    web = citation.uri is not None and citation.uri.startswith(("http://", "https://"))
    return UrlCitation(
        start_index=span[0],
        end_index=span[1],
        title=f"{place}, {citation.section}" if citation.section else place,
        url=str(citation.uri) if web else f"urn:uuid:{citation.uuid}",
        rank=citation.rank,
        uuid=citation.uuid,
        doc_id=citation.doc_id,
        snippet=citation.snippet,
    )


def _event(completion: ChatCompletion, chat: ChatPlan) -> dict[str, Any]:
    whole = completion.model_dump(mode="json")
    (choice,) = whole.pop("choices")
    usage = whole.pop("usage")
    delta = {"index": 0, "delta": choice["message"], "finish_reason": "stop", "logprobs": None}
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
    return "\n".join(part.text for part in content)


def _param(path: str) -> str:
    return path.removeprefix("$").removeprefix(".") or "body"
