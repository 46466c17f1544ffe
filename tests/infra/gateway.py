"""API Gateway's template engine as far as our templates use it, over an independent renderer.

`airspeed` is a port of Velocity made for AWS templates; `$util` and `$input` follow the API
Gateway reference. What only AWS can show is listed in docs/deploy.md.
"""

import base64
import json
import struct
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

import airspeed

JAVASCRIPT = {
    '"': '\\"', "'": "\\'", "\\": "\\\\", "/": "\\/", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    "\b": "\\b", "\f": "\\f",
}  # fmt: skip


class Input:
    """`path`: its parameters as they stand in the URL; the query string's are decoded."""

    def __init__(
        self,
        body: str,
        querystring: dict[str, str] | None = None,
        path: dict[str, str] | None = None,
    ) -> None:
        self.body, self._querystring, self._path = body, querystring or {}, path or {}

    def params(self) -> dict[str, dict[str, str]]:
        return {"querystring": self._querystring, "path": self._path, "header": {}}

    def path(self, expression: str) -> Any:
        value = json.loads(self.body)
        return value if expression == "$" else value.get(expression.removeprefix("$."))


class Util:
    def base64Encode(self, text: str) -> str:  # noqa: N802
        return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()

    def base64Decode(self, text: str) -> str:  # noqa: N802
        return base64.b64decode(text).decode()

    def urlDecode(self, text: str) -> str:  # noqa: N802
        return unquote_plus(text)

    def parseJson(self, text: str) -> Any:  # noqa: N802
        return json.loads(text)

    def escapeJavaScript(self, text: str) -> str:  # noqa: N802
        """commons-lang 2.x `StringEscapeUtils.escapeJavaScript`: `'` and `/` too, UTF-16 units."""
        return "".join(_escaped(character) for character in str(text))


def _escaped(character: str) -> str:
    if character in JAVASCRIPT:
        return JAVASCRIPT[character]
    if 32 <= ord(character) < 128:
        return character
    units = character.encode("utf-16-le", "surrogatepass")
    return "".join(f"\\u{unit:04X}" for unit in struct.unpack(f"<{len(units) // 2}H", units))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def render_request(
    template: str,
    body: str,
    context: dict[str, Any],
    querystring: dict[str, str] | None = None,
    path: dict[str, str] | None = None,
) -> Any:
    """The integration request, parsed: it must be JSON or the service would refuse it."""
    return json.loads(_merge(template, body, context, querystring, path))


def render_response(template: str, payload: Any, status: int = 200) -> Answer:
    """What the client gets for an integration response of `payload`."""
    context: dict[str, Any] = {"requestId": "req-1", "responseOverride": {"header": {}}}
    body = _merge(template, json.dumps(payload, ensure_ascii=False), context).strip()
    override = context["responseOverride"]
    headers = {"Content-Type": "application/json"} | override["header"]
    return Answer(override.get("status", status), headers, body)


def _merge(
    template: str,
    body: str,
    context: dict[str, Any],
    querystring: dict[str, str] | None = None,
    path: dict[str, str] | None = None,
) -> str:
    names = {"input": Input(body, querystring, path), "util": Util(), "context": context}
    text: str = airspeed.Template(template).merge(names)
    return text
