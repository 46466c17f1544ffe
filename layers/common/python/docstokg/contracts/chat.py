"""Contract of the routes in OpenAI's formats."""

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

# Routes that return OpenAI's error object instead of a problem.
CHAT_ROUTES: Final = ("chat", "responses", "models", "model")

# Routes that answer a conversation.
CONVERSATIONS = ("chat", "responses")

FinishReason = Literal["stop", "length"]
ResponseStatus = Literal["in_progress", "completed", "incomplete"]


class LenientContract(BaseModel):
    """A frozen request model that ignores unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class Part(LenientContract):
    """A part of a message; images and audio are not read."""

    type: str
    """`text`; other parts become a mark such as `[image]`"""
    text: str = ""
    """text of the part"""


class ChatMessage(LenientContract):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    """the last `user` message is the question; earlier `user` and `assistant` messages are its
    history; `system` and `developer` messages are style hints"""
    content: str | Many[Part] | None = None
    """text of the message, as a string or in parts"""


class OfferedTool(LenientContract):
    """A tool that a client offers; only `file_search` is read."""

    type: str = ""
    """`file_search`, or another type, which is ignored"""
    vector_store_ids: Many[str] | None = None
    """namespaces to search"""


class StreamOptions(LenientContract):
    """Options of a stream."""

    include_usage: bool | None = None
    """include token usage"""


class ObjectSchema(LenientContract):
    """The schema of an object; only its own fields are read."""

    required: Many[str] = ()
    """among answer, citations, confidence"""
    properties: dict[str, Any] = {}
    """schemas of the fields"""


class JsonSchema(LenientContract):
    """A named JSON schema."""

    schema_: ObjectSchema = Field(ObjectSchema(), alias="schema")
    """schema of an object"""


class ResponseFormat(LenientContract):
    """Format of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    """json_object: an object with answer and citations"""
    json_schema: JsonSchema | None = None
    """schema, for json_schema"""


class ModelRequest(LenientContract):
    """Fields of all requests in OpenAI's formats."""

    model: str = Field(min_length=1, max_length=192, examples=["extractive", "extractive@handbook"])
    """model from `GET /v1/models`; `MODEL@NAMESPACE` selects a namespace"""
    stream: bool | None = None
    """true: send each checked sentence as an event"""
    temperature: float | None = Field(None, ge=0, le=2)
    """sampling temperature of the model"""
    tools: Many[OfferedTool] | None = None
    """`vector_store_ids` of `file_search` select namespaces; no tool is called"""
    tool_choice: str | dict[str, Any] | None = None
    """none or auto; a required tool is refused"""


class ChatRequest(ModelRequest):
    """Request body of `POST /v1/chat/completions`; other OpenAI fields are ignored."""

    messages: Annotated[Many[ChatMessage], Field(min_length=1, max_length=2000)]
    """conversation; a follow-up question is rewritten from earlier messages"""
    stream_options: StreamOptions | None = None
    """stream options; only with `stream`"""
    max_tokens: int | None = Field(None, ge=1)
    """maximum tokens of the answer, at most 4096"""
    max_completion_tokens: int | None = Field(None, ge=1)
    """newer name of `max_tokens`; takes precedence"""
    n: Literal[1] | None = None
    """number of answers; only 1 is supported"""
    stop: str | Annotated[Many[str], Field(max_length=4)] | None = None
    """the answer ends before the first of these texts"""
    response_format: ResponseFormat | None = None
    """text or JSON"""


class InputItem(LenientContract):
    """An item of the input; only messages are read."""

    role: Literal["system", "developer", "user", "assistant"] | None = None
    """role of a message, as in a chat"""
    content: str | Many[Part] | None = None
    """text of the message, as a string or in parts"""


class TextFormat(LenientContract):
    """Format of the text."""

    type: Literal["text", "json_object", "json_schema"]
    """json_object: an object with answer and citations"""
    schema_: ObjectSchema | None = Field(None, alias="schema")
    """schema of an object, for json_schema"""


class TextOptions(LenientContract):
    """Options of the text."""

    format: TextFormat | None = None
    """text or JSON"""


class ResponsesRequest(ModelRequest):
    """Request body of `POST /v1/responses`; other OpenAI fields are ignored."""

    input: str | Annotated[Many[InputItem], Field(min_length=1, max_length=1999)]
    """question, or messages; the last one of `user` is the question"""
    instructions: str | None = None
    """style hint, like a system message"""
    max_output_tokens: int | None = Field(None, ge=1)
    """maximum tokens of the answer, at most 4096"""
    text: TextOptions | None = None
    """format of the answer"""
    previous_response_id: str | None = None
    """refused: no response is stored; send the earlier messages in `input`"""
    conversation: Any = None
    """refused, like `previous_response_id`"""
    prompt: Any = None
    """refused: no prompt is stored"""
    background: bool | None = None
    """true is refused: no response is stored"""


MODEL_NOT_FOUND = "model_not_found"
NO_MODEL = "does not exist or may not be used; see GET /v1/models"
NOT_FOUND_DETAIL = f"model: {NO_MODEL}"


class ChatPlan(Contract):
    """Format of the reply: route, requested model name, and whether to stream.

    `stop`: texts that end the answer. `fields`: of a JSON object, with the types of their items;
    empty for text. `namespaces`: those that the request names. `warnings`: parts of the request
    that were changed.
    """

    route: Literal["chat", "responses"] = "chat"
    model: str
    stream: bool = False
    include_usage: bool = True
    stop: tuple[str, ...] = ()
    fields: dict[str, str] = {}
    namespaces: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class UrlCitation(Contract):
    """A marker of the answer, `content[start_index:end_index]`, and its passage."""

    start_index: int
    """start of the marker in the answer"""
    end_index: int
    """end of the marker in the answer, exclusive"""
    title: str
    """title or name of the document"""
    url: str
    """address of the passage on the page (DOCSTOKG_PUBLIC_URL), else URI of the source, else
    `urn:uuid:` and the uuid of the passage"""
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


class TextCitation(UrlCitation):
    """A citation in the format of `POST /v1/responses`."""

    type: Literal["url_citation"] = "url_citation"
    """always `url_citation`"""


class OutputText(Contract):
    """Text of the answer."""

    type: Literal["output_text"] = "output_text"
    """always `output_text`"""
    text: str = ""
    """answer, or a sentence that the documents do not contain one"""
    annotations: tuple[TextCitation, ...] = ()
    """citations in the order of their markers"""
    logprobs: tuple[()] = ()
    """always empty"""


class OutputMessage(Contract):
    """Message with the answer."""

    id: str
    """id of the message"""
    type: Literal["message"] = "message"
    """always `message`"""
    role: Literal["assistant"] = "assistant"
    """always `assistant`"""
    status: ResponseStatus
    """incomplete: the answer was truncated"""
    content: tuple[OutputText, ...] = ()
    """the only text"""


class InputDetails(Contract):
    """Details of the input tokens."""

    cached_tokens: int = 0
    """always 0"""


class OutputDetails(Contract):
    """Details of the output tokens."""

    reasoning_tokens: int = 0
    """always 0"""


class ResponseUsage(Contract):
    """Estimated token usage."""

    input_tokens: int
    """estimated tokens of the passages given to the model"""
    input_tokens_details: InputDetails = InputDetails()
    """details of the input tokens"""
    output_tokens: int
    """estimated tokens of the answer"""
    output_tokens_details: OutputDetails = OutputDetails()
    """details of the output tokens"""
    total_tokens: int
    """sum of both"""


class Incomplete(Contract):
    """Reason of a truncated answer."""

    reason: Literal["max_output_tokens"] = "max_output_tokens"
    """always `max_output_tokens`"""


class ModelResponse(Contract):
    """Response of `POST /v1/responses`: OpenAI's format plus `docstokg`."""

    id: str
    """id of the response"""
    object: Literal["response"] = "response"
    """always `response`"""
    created_at: int
    """creation time, Unix seconds"""
    status: ResponseStatus = "in_progress"
    """incomplete: the answer was truncated"""
    model: str
    """requested model name"""
    output: tuple[OutputMessage, ...] = ()
    """the only message"""
    usage: ResponseUsage | None = None
    """estimated token usage"""
    incomplete_details: Incomplete | None = None
    """reason of a truncated answer"""
    error: None = None
    """always null"""
    instructions: None = None
    """always null"""
    metadata: dict[str, str] = {}
    """always empty"""
    parallel_tool_calls: bool = False
    """always false"""
    tool_choice: Literal["none"] = "none"
    """always `none`"""
    tools: tuple[()] = ()
    """always empty"""
    temperature: None = None
    """always null"""
    top_p: None = None
    """always null"""
    store: bool = False
    """always false: no response is stored"""
    docstokg: Evidence | None = None
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
    docstokg: Evidence | None = None
    """passages found before a model failed; null for other errors"""
