"""Arguments and results of MCP tools."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, Field, TypeAdapter

from docstokg.contracts import Json
from docstokg.contracts.model import DescribedSchema, StrictContract

MIN_RESPONSE_TOKENS = 100
DEFAULT_RESPONSE_TOKENS = 2000


class ResultOptions(StrictContract):
    """Size and form of a tool's result."""

    max_response_tokens: Annotated[
        int | None,
        Field(
            ge=MIN_RESPONSE_TOKENS,
            description="maximum tokens of the result; null: no limit",
        ),
    ] = DEFAULT_RESPONSE_TOKENS
    numbers: bool = False
    """true: with scores, offsets and hashes"""


class FetchRequest(StrictContract):
    """Arguments of fetch."""

    id: str = Field(min_length=1, max_length=128)
    """`id` of a result of search"""


class ToolResult(TypedDict):
    """Part of every result; `more`: number of passages or other elements left out."""

    more: int


class SearchResult(ToolResult):
    """Result of search_documentation."""

    citations: list[Json]
    notes: list[str]
    graph: Json | None


class AnswerResult(SearchResult):
    """Result of answer_with_citations; `proof`: where the sentences stand, in words."""

    answer: str
    confidence_level: str
    grounded: bool | None
    proof: str
    doubtful: list[Json]


class CheckResult(ToolResult):
    """Result of check_grounding; `issues`: contradictions to the ontology."""

    grounded: bool | None
    sentences: list[Json]
    issues: list[Json]


class WalkResult(ToolResult):
    """Result of traverse_relationships; `cursor`: of the next part of the walk."""

    nodes: list[Json]
    edges: list[Json]
    cursor: str | None


class DocumentsResult(ToolResult):
    """Result of list_documents; `cursor`: of the next documents."""

    documents: list[Json]
    cursor: str | None


class NamespacesResult(ToolResult):
    """Result of list_namespaces."""

    namespaces: list[Json]


class PassageResult(ToolResult):
    """Result of read_passage; `lit`: range of `text` to highlight."""

    before: str
    text: str
    after: str
    source: str
    doc_id: str
    uri: str | None
    lit: tuple[int, int] | None


class FoundResult(ToolResult):
    """Result of search."""

    results: list[Json]


class FetchResult(ToolResult):
    """Result of fetch."""

    id: str
    title: str
    text: str
    url: str
    metadata: Json


def input_schema(request: type[BaseModel], names: Sequence[str]) -> Json:
    """Return the JSON schema of a tool's arguments: the named fields of the route's request.

    Tools accept the other fields too. Raise KeyError for an unknown one.
    """
    whole = _schema(request)
    fields = {name: whole["properties"][name] for name in names}
    required = [name for name in whole.get("required", ()) if name in names]
    schema = {"type": "object", "properties": fields, "required": required}
    return _plain(schema, whole.get("$defs", {}))


def output_schema(result: type[ToolResult]) -> Json:
    """Return the JSON schema of a tool's result: the type of each part.

    Only `more` is required: empty parts are omitted.
    """
    parts = TypeAdapter(result).json_schema()["properties"]
    properties = {name: _part(schema) for name, schema in parts.items()}
    required = list(ToolResult.__annotations__)
    return {"type": "object", "properties": properties, "required": required}


def _part(schema: Json) -> Json:
    resolved = _resolved(schema, {})
    kind = resolved["type"]
    part = {"type": [kind, "null"] if _accepts_null(schema) else kind}
    if "items" in resolved:
        part["items"] = {"type": resolved["items"]["type"]}
    return part


# Keywords that published arguments lack: the route checks them and names what is wrong.
_UNUSED = frozenset(
    {
        "title", "examples", "pattern", "minLength", "maxLength", "minItems", "maxItems",
        "maxProperties", "propertyNames", "additionalProperties",
    }
)  # fmt: skip


def _plain(schema: Json, definitions: Json) -> Json:
    """Return a schema without references and null alternatives, which some clients cannot read."""
    plain: Json = {}
    for key, value in _resolved(schema, definitions).items():
        if key == "properties":
            plain[key] = {name: _plain(field, definitions) for name, field in value.items()}
        elif key == "items":
            element = _plain(value, definitions)
            plain[key] = {name: part for name, part in element.items() if name != "description"}
        elif key not in _UNUSED and not (key == "default" and value in (None, "", [], {})):
            plain[key] = value
    return plain


def _resolved(schema: Json, definitions: Json) -> Json:
    keywords = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        keywords.pop("default", None)
        return _resolved({**target, **keywords}, definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        return _resolved({**choices[0], **keywords}, definitions)
    return {**keywords, **({"anyOf": choices} if choices else {})}


def lenient(value: Any, model: type[BaseModel]) -> Any:
    """Return arguments of a call as `model` reads them.

    A number in a string becomes the number; a null is omitted if its field has a default and
    accepts no null. All else is unchanged.
    """
    schema = _schema(model)
    return _lenient(value, schema, schema.get("$defs", {}))


@cache
def _schema(model: type[BaseModel]) -> Json:
    return model.model_json_schema(mode="validation", schema_generator=DescribedSchema)


def _lenient(value: Any, schema: Json, definitions: Json) -> Any:
    resolved = _resolved(schema, definitions)
    kind = resolved.get("type")
    if isinstance(value, dict):
        fields = resolved.get("properties", {})
        return {
            name: _lenient(argument, fields.get(name, {}), definitions)
            for name, argument in value.items()
            if argument is not None
            or "default" not in fields.get(name, {})
            or _accepts_null(fields[name])
        }
    if isinstance(value, list) and "items" in resolved:
        return [_lenient(element, resolved["items"], definitions) for element in value]
    if isinstance(value, str) and kind in ("integer", "number"):
        with suppress(ValueError):
            return int(value) if kind == "integer" else float(value)
    return value


def _accepts_null(schema: Json) -> bool:
    return any(choice.get("type") == "null" for choice in schema.get("anyOf", ()))
