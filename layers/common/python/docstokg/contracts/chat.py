"""Contract of `POST /v1/chat/completions`."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from docstokg.contracts.model import Contract, Many
from docstokg.contracts.response import (
    Citation,
    ConfidenceLevel,
    DegradedReason,
    Grounding,
    QueryUsedBy,
)

CHAT_ROUTES: Final = ("chat", "models")
"""Routes that return OpenAI's error object instead of a problem."""


FinishReason = Literal["stop", "length"]


class LenientContract(BaseModel):
    """A frozen request model that ignores unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Part(LenientContract):
    """A part of a message; images and audio are not read."""

    type: str = Field(description="`text`; other parts become a mark such as `[image]`")
    text: str = Field("", description="text of the part")


class ChatMessage(LenientContract):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = Field(
        description="the last `user` message is the question; earlier `user` and `assistant` "
        "messages are its history; `system` and `developer` messages are style hints"
    )
    content: str | Many[Part] | None = Field(
        None, description="text of the message, as a string or in parts"
    )


class StreamOptions(LenientContract):
    """Options of a stream."""

    include_usage: bool | None = Field(None, description="include token usage")


class ObjectSchema(LenientContract):
    """The schema of an object; only its own fields are read."""

    required: Many[str] = Field((), description="among answer, citations, confidence")
    properties: dict[str, Any] = Field({}, description="schemas of the fields")


class JsonSchema(LenientContract):
    """A named JSON schema."""

    schema_: ObjectSchema = Field(ObjectSchema(), alias="schema", description="schema of an object")


class ResponseFormat(LenientContract):
    """Format of the answer."""

    type: Literal["text", "json_object", "json_schema"] = Field(
        description="json_object: an object with answer and citations"
    )
    json_schema: JsonSchema | None = Field(None, description="schema, for json_schema")


class ChatRequest(LenientContract):
    """Request body of `POST /v1/chat/completions`; other OpenAI fields are ignored."""

    model: str = Field(
        min_length=1,
        max_length=192,
        description="model from `GET /v1/models`; `MODEL@NAMESPACE` selects a namespace",
        examples=["extractive", "extractive@handbook"],
    )
    messages: Annotated[Many[ChatMessage], Field(min_length=1, max_length=2000)] = Field(
        description="conversation; a follow-up question is rewritten from earlier messages"
    )
    stream: bool | None = Field(
        None, description="true: send each checked sentence as a chunk, then [DONE]"
    )
    stream_options: StreamOptions | None = Field(
        None, description="stream options; only with `stream`"
    )
    temperature: float | None = Field(
        None, ge=0, le=2, description="sampling temperature of the model"
    )
    max_tokens: int | None = Field(
        None, ge=1, description="maximum tokens of the answer, at most 4096"
    )
    max_completion_tokens: int | None = Field(
        None, ge=1, description="newer name of `max_tokens`; takes precedence"
    )
    n: Literal[1] | None = Field(None, description="number of answers; only 1 is supported")
    stop: str | Annotated[Many[str], Field(max_length=4)] | None = Field(
        None, description="the answer ends before the first of these texts"
    )
    tools: Many[Any] | None = Field(None, description="ignored: no tool is called")
    tool_choice: str | dict[str, Any] | None = Field(
        None, description="none or auto; a required tool is refused"
    )
    response_format: ResponseFormat | None = Field(None, description="text or JSON")


class ChatPlan(Contract):
    """Format of the reply: requested model name, and whether to stream.

    `stop`: texts that end the answer. `fields`: of a JSON object, with the types of their items;
    empty for text. `warnings`: parts of the request that were changed.
    """

    model: str
    stream: bool = False
    include_usage: bool = True
    stop: tuple[str, ...] = ()
    fields: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class UrlCitation(Contract):
    """A marker of the answer, `content[start_index:end_index]`, and its passage."""

    start_index: int
    """start of the marker in the answer"""
    end_index: int
    """end of the marker in the answer, exclusive"""
    title: str
    """title or name of the document"""
    url: str = Field(
        description="address of the passage on the page (DOCSTOKG_PUBLIC_URL), else URI of the "
        "source, else `urn:uuid:` and the uuid of the passage"
    )
    rank: int
    """citation number"""
    uuid: str
    """uuid of the passage"""
    doc_id: str
    """document id"""
    snippet: str
    """cited text"""


class Annotation(Contract):
    """A citation in OpenAI's format."""

    type: Literal["url_citation"] = "url_citation"
    """always `url_citation`"""
    url_citation: UrlCitation
    """marker and passage"""


class AnswerMessage(Contract):
    """Message with the answer."""

    role: Literal["assistant"] = "assistant"
    """always `assistant`"""
    content: str
    """answer, or a sentence that the documents do not contain one"""
    refusal: None = None
    """always null"""
    annotations: tuple[Annotation, ...] = ()
    """citations in the order of their markers"""


class ChatChoice(Contract):
    """The only choice."""

    index: int = 0
    """always 0"""
    message: AnswerMessage
    """message with the answer"""
    finish_reason: FinishReason = "stop"
    """length: the answer was truncated"""
    logprobs: None = None
    """always null"""


class Usage(Contract):
    """Estimated token usage."""

    prompt_tokens: int
    """estimated tokens of the passages given to the model"""
    completion_tokens: int
    """estimated tokens of the answer"""
    total_tokens: int
    """sum of both"""


class Evidence(Contract):
    """Evidence of the answer, an extension of OpenAI's format."""

    request_id: str
    """request id, as in the logs"""
    namespace: str
    """searched namespace"""
    query_used: str = ""
    """question used for retrieval; a follow-up is rewritten from its history"""
    query_used_by: QueryUsedBy = "as_sent"
    """how `query_used` was obtained: as sent, by a rule, or by the language model"""
    citations: tuple[Citation, ...] = ()
    """citations of the answer; the first five if it has none"""
    confidence: float
    """confidence in the answer, 0 to 1"""
    confidence_level: ConfidenceLevel
    """confidence as high, medium or low"""
    grounding: Grounding | None = None
    """verification of the answer; null: no answer"""
    warnings: tuple[str, ...] = ()
    """warnings for the reader"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """failed components"""


class ChatCompletion(Contract):
    """Response of `POST /v1/chat/completions`: OpenAI's format plus `docstokg`."""

    id: str
    """id of the completion"""
    object: Literal["chat.completion"] = "chat.completion"
    """always `chat.completion`"""
    created: int
    """creation time, Unix seconds"""
    model: str
    """requested model name"""
    choices: tuple[ChatChoice, ...]
    """the only choice"""
    usage: Usage
    """estimated token usage"""
    docstokg: Evidence
    """evidence of the answer"""


class ListedModel(Contract):
    """A model; the part after `@` is its namespace, else `default`."""

    id: str
    """value for `model` of a chat request"""
    object: Literal["model"] = "model"
    """always `model`"""
    created: int = 0
    """always 0 (unknown)"""
    owned_by: str = "docstokg"
    """always `docstokg`"""


class ModelList(Contract):
    """Response of `GET /v1/models`."""

    object: Literal["list"] = "list"
    """always `list`"""
    data: tuple[ListedModel, ...] = ()
    """available models"""


class ErrorDetail(Contract):
    """An error in OpenAI's format."""

    message: str
    """error message; lists all errors of the request"""
    type: str
    """error type as defined by OpenAI"""
    param: str | None = None
    """invalid field, if it is one"""
    code: str
    """error code, as on other routes"""


class ErrorReply(Contract):
    """Error response in OpenAI's format, with the status codes of the other routes."""

    error: ErrorDetail
    """error"""
