"""Base classes of messages."""

import ast
import inspect
import re
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, from_json, to_json

Item = TypeVar("Item")

# A tuple that also accepts a list, even in strict models.
Many = Annotated[tuple[Item, ...], Field(strict=False)]


def _unpacked(value: object) -> object:
    return from_json(value) if isinstance(value, str) else value


def _packed(value: Any, handler: SerializerFunctionWrapHandler) -> str:
    # Seven times as fast as the standard library; a question packs 60 kB.
    return to_json(handler(value)).decode()


# A large message field, serialised as a JSON string. The cost of a JSONata evaluation grows with
# the nodes of the whole state, and a string is one node.
Packed = Annotated[
    Item, BeforeValidator(_unpacked), WrapSerializer(_packed, return_type=str, when_used="json")
]


class Contract(BaseModel):
    """A frozen internal message; unknown fields are rejected."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class StrictContract(BaseModel):
    """A frozen client message; types are strict and unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


# Messages for pydantic error types, in JSON terms instead of Python terms.
_WORDS = {
    "extra_forbidden": "unknown field",
    "missing": "this field is required",
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
    **dict.fromkeys(("model_type", "dict_type"), "must be an object"),
    **dict.fromkeys(("string_type", "string_sub_type"), "must be a string"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "none_required": "must be null",
}


def wrong_in_words(error: ErrorDetails) -> str:
    """Return the message of a validation error in JSON terms."""
    message = _WORDS.get(error["type"], error["msg"].removeprefix("Value error, "))
    return re.sub(r"^\w+ should", "must", message)


@cache
def field_texts(model: type) -> dict[str, str]:
    """Return the text below each field of a class and its bases, by field."""
    texts: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if kind.__module__.startswith("docstokg"):
            (body,) = ast.parse(inspect.getsource(kind)).body
            for pair in pairwise(cast(ast.ClassDef, body).body):
                match pair:
                    case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        texts[name.rstrip("_")] = " ".join(text.split())
    return texts


class DescribedSchema(GenerateJsonSchema):
    """JSON schemas with the texts below fields as their descriptions."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a model."""
        described = super().model_schema(schema)
        for name, text in field_texts(schema["cls"]).items():
            described["properties"][name]["description"] = text
        return described
