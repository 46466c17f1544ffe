"""Requests and errors in OpenAI's formats."""

import base64
import json
import re
from collections.abc import Collection

from docstokg.contracts import Json
from docstokg.contracts.chat import (
    MODEL_NOT_FOUND,
    NO_MODEL,
    ChatMessage,
    ChatPlan,
    ChatRequest,
    ErrorDetail,
    ErrorReply,
    JsonSchema,
    ListedModel,
    ModelList,
    ObjectSchema,
    Part,
    ResponseFormat,
    ResponsesRequest,
)
from docstokg.contracts.envelope import Caller, Envelope, Reply
from docstokg.contracts.request import (
    MAX_HISTORY_BYTES,
    MAX_QUERY_CHARACTERS,
    MAX_STYLE_CHARACTERS,
    MAX_TURNS,
    NAMESPACE_PATTERN,
    RAGRequest,
    padded,
)
from docstokg.contracts.response import FieldProblem, Problem
from docstokg.usecases.intake import field_of, parse
from docstokg.usecases.problems import JSON_TYPE, PROBLEM_TYPE, json_reply, problem_reply

STYLE_CUT = f"The system prompt was cut to {MAX_STYLE_CHARACTERS} characters."
PARTS_UNREAD = "Images, audio and files in messages are not read."
ITEMS_UNREAD = "Input items other than messages are not read."
NO_NAMESPACE = FieldProblem(path="$.model", code=MODEL_NOT_FOUND, message=NO_MODEL)
NO_SCHEMA = "schema_unsupported"
_JSON_FIELDS = ("answer", "citations", "confidence")
DEFAULT_TOKENS = 512
MOST_TOKENS = 4096
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_QUESTION, _HISTORY, _STYLE = "$.query", "$.history", "$.synthesis.system_prompt"
_STORED = ("previous_response_id", "conversation", "prompt", "background")
_NOT_STORED = "nothing is stored between requests; send the earlier messages in input"
_TEXTS = ("text", "input_text", "output_text")


class Conversation:
    """Question, history and style of a chat request."""

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
        """Return the last turns before the question that fit the contract, long ones truncated."""
        turns: list[dict[str, str]] = []
        remaining = MAX_HISTORY_BYTES
        for message in reversed(self._request.messages[: self.place]):
            text = _text(message)[:MAX_QUERY_CHARACTERS]
            remaining -= len(text.encode("utf-8", "surrogatepass"))
            if remaining < 0 or len(turns) == MAX_TURNS:
                break
            if message.role in ("user", "assistant") and text:
                turns.insert(0, {"role": message.role, "content": text})
        return turns

    def body(self, models: tuple[str, ...]) -> Json:
        """Return the RAGRequest as a dict, not validated.

        `models`: names that are not split as MODEL@NAMESPACE. Vector stores are namespaces, too.
        """
        stores = [
            name
            for tool in self._request.tools or ()
            if tool.type == "file_search"
            for name in tool.vector_store_ids or ()
        ]
        request = self._request
        model, namespace = model_and_namespace(request.model, models)
        tokens = request.max_completion_tokens or request.max_tokens or DEFAULT_TOKENS
        synthesis: Json = {"enabled": True, "model": model}
        if request.temperature is not None:
            synthesis["temperature"] = request.temperature
        if self.style is not None:
            synthesis["system_prompt"] = self.style
        # A greeting such as "hi" is shorter than the minimum, so it is padded.
        body = {
            "query": padded(self.question.strip()),
            "history": self.history(),
            "synthesis": synthesis,
        }
        if namespaces := tuple(dict.fromkeys([*([namespace] if namespace else ()), *stores])):
            body["namespaces"] = namespaces
        return {**body, "budget": {"max_tokens_gen": min(tokens, MOST_TOKENS)}}

    def chat_problem(self, problem: FieldProblem) -> FieldProblem:
        """Return a problem of `body` with its path in the chat request, if there is one."""
        at = None
        if problem.path == _QUESTION:
            at = "$.messages" if self.place is None else f"$.messages[{self.place}].content"
        elif problem.path == _STYLE or problem.path.startswith(_HISTORY):
            at = "$.messages"
        elif problem.path == "$.synthesis.model":
            at = "$.model"
        elif problem.path.startswith("$.namespaces"):
            return NO_NAMESPACE
        return problem if at is None else problem.model_copy(update={"path": at})


def read_chat(
    body: bytes, models: tuple[str, ...]
) -> tuple[RAGRequest | None, ChatPlan | None, list[FieldProblem]]:
    """Return the question, the reply's form and all errors; with an error the question is None."""
    chat, errors = parse(body, ChatRequest)
    return (None, None, errors) if chat is None else _question(chat, models)


def read_responses(
    body: bytes, models: tuple[str, ...]
) -> tuple[RAGRequest | None, ChatPlan | None, list[FieldProblem]]:
    """Return the same as `read_chat` for the Responses API, where stored state is an error."""
    call, errors = parse(body, ResponsesRequest)
    if call is None:
        return None, None, errors
    errors = [
        FieldProblem(path=f"$.{name}", code="state_unsupported", message=_NOT_STORED)
        for name in _STORED
        if getattr(call, name)
    ]
    if errors:
        return None, None, errors
    items = call.input
    request, plan, errors = _question(_as_chat(call), models)
    if plan:
        is_whole = isinstance(items, str) or all(item.role for item in items)
        warnings = plan.warnings if is_whole else (*plan.warnings, ITEMS_UNREAD)
        plan = plan.model_copy(update={"route": "responses", "warnings": warnings})
    return request, plan, [_in_responses(error) for error in errors]


def _as_chat(call: ResponsesRequest) -> ChatRequest:
    if isinstance(call.input, str):
        messages = [ChatMessage(role="user", content=call.input)]
    else:
        messages = [
            ChatMessage(role=item.role, content=_parts(item.content))
            for item in call.input
            if item.role
        ]
    style = ChatMessage(role="system", content=call.instructions)
    form = call.text.format if call.text else None
    schema = JsonSchema(schema=form.schema_ or ObjectSchema()) if form is not None else None
    return ChatRequest(
        model=call.model,
        messages=(style, *messages),
        stream=call.stream,
        temperature=call.temperature,
        tools=call.tools,
        max_tokens=call.max_output_tokens,
        tool_choice=call.tool_choice,
        response_format=ResponseFormat(type=form.type, json_schema=schema) if form else None,
    )


def _parts(content: str | tuple[Part, ...] | None) -> str | tuple[Part, ...] | None:
    if not isinstance(content, tuple):
        return content
    return tuple(
        Part(
            type="text" if part.type in _TEXTS else part.type.removeprefix("input_"), text=part.text
        )
        for part in content
    )


def _in_responses(error: FieldProblem) -> FieldProblem:
    path = "$.input" if error.path.startswith("$.messages") else error.path
    path = path.replace("$.response_format.json_schema", "$.text.format")
    return error.model_copy(update={"path": path})


def _question(
    chat: ChatRequest, models: tuple[str, ...]
) -> tuple[RAGRequest | None, ChatPlan | None, list[FieldProblem]]:
    conversation = Conversation(chat)
    if refused := _unsupported(chat, conversation):
        path, code, message = refused
        return None, None, [FieldProblem(path=path, code=code, message=message)]
    document = json.dumps(conversation.body(models), ensure_ascii=False)
    request, errors = parse(document.encode("utf-8", "surrogatepass"), RAGRequest)
    options = chat.stream_options
    plan = ChatPlan(
        model=chat.model,
        stream=bool(chat.stream),
        include_usage=bool(options is not None and options.include_usage),
        stop=(chat.stop,) if isinstance(chat.stop, str) else chat.stop or (),
        fields=_json_fields(chat.response_format),
        namespaces=request.requested_namespaces if request else (),
        warnings=tuple(conversation.warnings),
    )
    return request, plan, [conversation.chat_problem(error) for error in errors]


def _unsupported(chat: ChatRequest, conversation: Conversation) -> tuple[str, str, str] | None:
    """Return path, code and message of what a chat requires and this service lacks."""
    if conversation.place is None:
        return "$.messages", "question_missing", "must hold a message whose role is user"
    if chat.tool_choice not in (None, "none", "auto"):
        message = "no tools are called here; send none or auto"
        return "$.tool_choice", "tools_unsupported", message
    form = chat.response_format
    if form and form.type == "json_object" and _has_foreign_schema(conversation.style or ""):
        message = "send the schema as json_schema; json_object has fields of its own"
        return "$.response_format", NO_SCHEMA, message
    schema = form and form.json_schema
    if schema and not set(schema.schema_.required) <= set(_JSON_FIELDS):
        message = f"may require only {', '.join(_JSON_FIELDS)}"
        return "$.response_format.json_schema", NO_SCHEMA, message
    return None


def _has_foreign_schema(style: str) -> bool:
    """Return whether a text contains the JSON schema of an object with other fields."""
    at = style.find("{")
    while at >= 0:
        try:
            document, _ = json.JSONDecoder().raw_decode(style, at)
        except (ValueError, RecursionError):
            document = None
        fields = field_of(document, "properties")
        if isinstance(fields, dict):
            return not set(fields) <= set(_JSON_FIELDS)
        at = style.find("{", at + 1)
    return False


def _json_fields(form: ResponseFormat | None) -> dict[str, str]:
    if form is None or form.type == "text":
        return {}
    properties = form.json_schema.schema_.properties if form.json_schema else {}
    kinds = {name: field_of(properties, name, "items", "type") for name in properties}
    fields = {name: str(kind or "") for name, kind in kinds.items() if name in _JSON_FIELDS}
    return fields or {"answer": "", "citations": "object"}


def model_and_namespace(name: str, models: tuple[str, ...]) -> tuple[str, str | None]:
    """Split `MODEL@NAMESPACE` at the last `@`; a listed model or plain name has namespace None."""
    model, sign, namespace = name.rpartition("@")
    if name in models or not sign:
        return name, None
    return model, namespace


def models_reply(caller: Caller, models: tuple[str, ...], stored: Collection[str] = ()) -> Reply:
    """Return the models, each also combined with every granted namespace except `default`.

    `stored`: existing namespaces, for callers with access to all.
    """
    granted = {*caller.namespaces, *(stored if "*" in caller.namespaces else ())}
    namespaces = sorted(granted - {"*", "default"})
    ids = [*models, *(f"{model}@{namespace}" for model in models for namespace in namespaces)]
    return json_reply(ModelList(data=tuple(ListedModel(id=name) for name in ids)))


def model_reply(envelope: Envelope, models: tuple[str, ...]) -> Reply:
    """Return the model that a request names, or 404 if no conversation can use it."""
    name = str(json.loads(base64.b64decode(envelope.body_b64))["model"])
    model, namespace = model_and_namespace(name, models)
    is_named = namespace is None or re.fullmatch(NAMESPACE_PATTERN, namespace)
    if model in models and is_named and (not namespace or envelope.caller.may_read(namespace)):
        return json_reply(ListedModel(id=name))
    return problem_reply(404, MODEL_NOT_FOUND, "", envelope.request_id, (NO_NAMESPACE,))


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
        param=_param(first.path) if first else None,
        code=first.code if first else problem.code,
    )
    headers = {**reply.headers, "Content-Type": JSON_TYPE}
    body = ErrorReply(error=error).model_dump_json(exclude={"docstokg"})
    return Reply(statusCode=reply.statusCode, body=body, headers=headers)


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
