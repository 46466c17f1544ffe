"""The chat format of OpenAI's API, as far as a question about documents can be asked in it."""

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
"""Routes whose clients read OpenAI's error object instead of a problem."""


class LenientContract(BaseModel):
    """A frozen message from a stranger whose other fields are not ours to judge."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class TextPart(LenientContract):
    """A part of a message; pictures and sound cannot be asked about."""

    type: Literal["text"] = Field(description="text alone is understood")
    text: str = Field(description="the words")


class ChatMessage(LenientContract):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = Field(
        description="the question is the last message of `user`, what `user` and `assistant` "
        "said before tells what it refers to; `system` and `developer` say how to write"
    )
    content: str | Many[TextPart] | None = Field(None, description="its text, whole or in parts")


class StreamOptions(LenientContract):
    """What a stream also tells."""

    include_usage: bool | None = Field(None, description="put the tokens used into the event")


class ResponseFormat(LenientContract):
    """The form of the answer."""

    type: Literal["text"] = Field(description="answers are text")


class ChatRequest(LenientContract):
    """`POST /v1/chat/completions`; other fields of OpenAI's request have no effect here."""

    model: str = Field(
        min_length=1,
        max_length=192,
        description="one of `GET /v1/models`; `MODEL@NAMESPACE` asks another namespace",
        examples=["extractive", "extractive@handbook"],
    )
    messages: Annotated[Many[ChatMessage], Field(min_length=1, max_length=2000)] = Field(
        description="the conversation; what its last question leaves out is taken from before"
    )
    stream: bool | None = Field(
        None, description="send each sentence as a chunk once it is checked, then [DONE]"
    )
    stream_options: StreamOptions | None = Field(None, description="with `stream` only")
    temperature: float | None = Field(None, ge=0, le=2, description="handed to the model")
    max_tokens: int | None = Field(None, ge=1, description="of the answer; 4096 at most")
    max_completion_tokens: int | None = Field(
        None, ge=1, description="the same by its newer name, which wins"
    )
    n: Literal[1] | None = Field(None, description="one answer a question")
    tools: Annotated[Many[Any], Field(max_length=0)] | None = Field(
        None, description="none can be called"
    )
    response_format: ResponseFormat | None = Field(None, description="answers are text")


class ChatPlan(Contract):
    """How the reply is shaped: the model as it was asked for, and whether as events."""

    model: str
    stream: bool = False
    include_usage: bool = True


class UrlCitation(Contract):
    """One marker of the answer: content[start_index:end_index], and the passage it means."""

    start_index: int
    """where the marker begins in the answer"""
    end_index: int
    """where the marker ends in the answer, exclusive"""
    title: str
    """the document's title, or its name"""
    url: str = Field(description="the source's address, else `urn:uuid:` and the passage's uuid")
    rank: int
    """the citation's number"""
    uuid: str
    """the passage"""
    doc_id: str
    """the document"""
    snippet: str
    """the cited text"""


class Annotation(Contract):
    """A citation, as OpenAI's clients know it."""

    type: Literal["url_citation"] = "url_citation"
    """always a citation"""
    url_citation: UrlCitation
    """the marker and its passage"""


class AnswerMessage(Contract):
    """The answer; `annotations` in the order of its markers."""

    role: Literal["assistant"] = "assistant"
    """always the assistant"""
    content: str
    """the answer; a sentence that there is none, where nothing answers the question"""
    refusal: None = None
    """nothing is refused in OpenAI's sense"""
    annotations: tuple[Annotation, ...] = ()
    """the markers of the text, in its order"""


class ChatChoice(Contract):
    """The one answer."""

    index: int = 0
    """always 0, the only answer"""
    message: AnswerMessage
    """the answer"""
    finish_reason: Literal["stop"] = "stop"
    """always a whole answer"""
    logprobs: None = None
    """none are known"""


class Usage(Contract):
    """Tokens of the passages given to the model, and of what it wrote, as estimated here."""

    prompt_tokens: int
    """of the passages given to the model"""
    completion_tokens: int
    """of the answer"""
    total_tokens: int
    """both"""


class Evidence(Contract):
    """What OpenAI's format has no place for: what the answer stands on, and how well.

    `citations`: those the answer cites; the first five where it cites none. `query_used`: the
    question as understood.
    """

    request_id: str
    """of this request, as in the logs"""
    namespace: str
    """where was searched"""
    query_used: str = ""
    """the question as understood"""
    query_used_by: QueryUsedBy = "as_sent"
    """who made `query_used` of the question: nobody, a rule, or the language model"""
    citations: tuple[Citation, ...] = ()
    """those the answer cites; the first five where it cites none"""
    confidence: float
    """between 0 and 1"""
    confidence_level: ConfidenceLevel
    """the same in a word"""
    grounding: Grounding | None = None
    """what the sources say of each sentence; null: there is no answer"""
    warnings: tuple[str, ...] = ()
    """what a reader should know"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """which part did not answer"""


class ChatCompletion(Contract):
    """The reply of `POST /v1/chat/completions`; `docstokg` is ours, the rest is OpenAI's."""

    id: str
    """of this reply"""
    object: Literal["chat.completion"] = "chat.completion"
    """always a chat's answer"""
    created: int
    """seconds since 1970"""
    model: str
    """as it was asked for"""
    choices: tuple[ChatChoice, ...]
    """the one answer"""
    usage: Usage
    """tokens, as estimated here"""
    docstokg: Evidence
    """what the answer stands on"""


class ListedModel(Contract):
    """A model that may be asked for, in the namespace behind its `@`, else in `default`."""

    id: str
    """what `model` of a chat may be"""
    object: Literal["model"] = "model"
    """always a model"""
    created: int = 0
    """not known: 0"""
    owned_by: str = "docstokg"
    """always this service"""


class ModelList(Contract):
    """`GET /v1/models`."""

    object: Literal["list"] = "list"
    """always a list"""
    data: tuple[ListedModel, ...] = ()
    """the models"""


class ErrorDetail(Contract):
    """What went wrong; `message` lists everything that is wrong with a request."""

    message: str
    """everything that is wrong, in sentences"""
    type: str
    """OpenAI's name for this kind of error"""
    param: str | None = None
    """the field that is wrong, where it is one"""
    code: str
    """the same code as other routes give"""


class ErrorReply(Contract):
    """An error as OpenAI's clients read it, with the statuses of the other routes."""

    error: ErrorDetail
    """what went wrong"""
