"""Arguments and results of MCP tools."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, Field, TypeAdapter

from docstokg.contracts import Json
from docstokg.contracts.model import StrictContract

MIN_RESPONSE_TOKENS = 100
DEFAULT_RESPONSE_TOKENS = 2000


class Paging(StrictContract):
    """Page size and cursor of a tool call."""

    max_response_tokens: Annotated[
        int | None,
        Field(
            ge=MIN_RESPONSE_TOKENS,
            description="maximum tokens; null: no limit",
        ),
    ] = DEFAULT_RESPONSE_TOKENS
    response_cursor: Annotated[
        str | None,
        Field(
            max_length=128,
            description="`next_cursor` of the previous page",
        ),
    ] = None
    numbers: bool = Field(
        False,
        description="true: with scores, offsets and hashes",
    )


class FetchRequest(StrictContract):
    """Arguments of fetch."""

    id: str = Field(min_length=1, max_length=128, description="`id` of a result of search")


class Page(TypedDict):
    """Parts of every page; `next_cursor`: `response_cursor` of the next page."""

    truncated: bool
    next_cursor: str | None


class SearchResult(Page):
    """Result of search_documentation."""

    citations: list[Json]
    notes: list[str]
    graph: Json | None


class AnswerResult(SearchResult):
    """Result of answer_with_citations; `proof`: where the sentences stand, in words.

    `more`: number of passages that are not shown.
    """

    answer: str
    confidence_level: str
    grounded: bool | None
    proof: str
    doubtful: list[Json]
    more: int


class CheckResult(Page):
    """Result of check_grounding; `issues`: contradictions to the ontology."""

    grounded: bool | None
    sentences: list[Json]
    issues: list[Json]


class WalkResult(Page):
    """Result of traverse_relationships; `cursor`: of the next part of the walk."""

    nodes: list[Json]
    edges: list[Json]
    cursor: str | None


class DocumentsResult(Page):
    """Result of list_documents; `cursor`: of the next documents."""

    documents: list[Json]
    cursor: str | None


class NamespacesResult(Page):
    """Result of list_namespaces."""

    namespaces: list[Json]


class PassageResult(Page):
    """Result of read_passage; `lit`: range of `text` to highlight."""

    before: str
    text: str
    after: str
    source: str
    doc_id: str
    uri: str | None
    lit: tuple[int, int] | None


class FoundResult(Page):
    """Result of search."""

    results: list[Json]


class FetchResult(Page):
    """Result of fetch."""

    id: str
    title: str
    text: str
    url: str
    metadata: Json


def input_schema(request: type[BaseModel], shown: Sequence[str]) -> Json:
    """Return the JSON schema of a tool's arguments: the `shown` fields of the route's request.

    Tools accept the other fields too. Raise KeyError for an unknown one.
    """
    whole = _schema(request)
    fields = {name: whole["properties"][name] for name in shown}
    required = [name for name in whole.get("required", ()) if name in shown]
    schema = {"type": "object", "properties": fields, "required": required}
    return _plain(schema, whole.get("$defs", {}))


def output_schema(result: type[Page]) -> Json:
    """Return the JSON schema of a tool's pages: the type of each part.

    Only the parts of `Page` are required, because any other part can be on another page.
    """
    parts = TypeAdapter(result).json_schema()["properties"]
    shown = {name: _part(schema) for name, schema in parts.items()}
    return {"type": "object", "properties": shown, "required": list(Page.__annotations__)}


def _part(schema: Json) -> Json:
    meant = _resolved(schema, {})
    made = {"type": [meant["type"], "null"] if _accepts_null(schema) else meant["type"]}
    if "items" in meant:
        made["items"] = {"type": meant["items"]["type"]}
    return made


# Keywords that published arguments lack: the route checks them and names what is wrong.
_UNUSED = frozenset(
    {
        "title", "examples", "pattern", "minLength", "maxLength", "minItems", "maxItems",
        "maxProperties", "propertyNames", "additionalProperties",
    }
)  # fmt: skip


def _plain(schema: Json, definitions: Json) -> Json:
    """Return a schema without references and null alternatives, which some clients cannot read."""
    made: Json = {}
    for key, value in _resolved(schema, definitions).items():
        if key == "properties":
            made[key] = {name: _plain(one, definitions) for name, one in value.items()}
        elif key == "items":
            item = _plain(value, definitions)
            made[key] = {name: part for name, part in item.items() if name != "description"}
        elif key not in _UNUSED and not (key == "default" and value in (None, "", [], {})):
            made[key] = value
    return made


def _resolved(schema: Json, definitions: Json) -> Json:
    rest = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        rest.pop("default", None)
        return _resolved({**target, **rest}, definitions)
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(choices) == 1:
        return _resolved({**choices[0], **rest}, definitions)
    return {**rest, **({"anyOf": choices} if choices else {})}


def lenient(value: Any, model: type[BaseModel]) -> Any:
    """Return arguments of a call as `model` reads them.

    A number in a string becomes the number; a null is omitted if its field has a default and
    accepts no null. All else is unchanged.
    """
    schema = _schema(model)
    return _lenient(value, schema, schema.get("$defs", {}))


@cache
def _schema(model: type[BaseModel]) -> Json:
    return model.model_json_schema(mode="validation")


def _lenient(value: Any, schema: Json, definitions: Json) -> Any:
    meant = _resolved(schema, definitions)
    kind = meant.get("type")
    if isinstance(value, dict):
        fields = meant.get("properties", {})
        return {
            name: _lenient(one, fields.get(name, {}), definitions)
            for name, one in value.items()
            if one is not None
            or "default" not in fields.get(name, {})
            or _accepts_null(fields[name])
        }
    if isinstance(value, list) and "items" in meant:
        return [_lenient(one, meant["items"], definitions) for one in value]
    if isinstance(value, str) and kind in ("integer", "number"):
        with suppress(ValueError):
            return int(value) if kind == "integer" else float(value)
    return value


def _accepts_null(schema: Json) -> bool:
    return any(one.get("type") == "null" for one in schema.get("anyOf", ()))
