"""API Gateway's template engine as far as our templates use it, over an independent renderer.

`airspeed` is a port of Velocity made for AWS templates; `$util` and `$input` follow the API
Gateway reference. What only AWS can show is listed in docs/deploy.md.
"""

import base64
import json
import re
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

import airspeed

from docstokg_local.engine.engine import Execution
from infra import templates


class Input:
    """`path`: its parameters as they stand in the URL; the query string's are decoded."""

    def __init__(
        self,
        body: str,
        querystring: dict[str, str] | None = None,
        path: dict[str, str] | None = None,
        header: dict[str, str] | None = None,
    ) -> None:
        self.body, self._querystring, self._path = body, querystring or {}, path or {}
        self._header = header or {}

    def params(self) -> dict[str, dict[str, str]]:
        return {"querystring": self._querystring, "path": self._path, "header": self._header}

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
        plain = json.dumps(str(text))[1:-1].replace("'", r"\'").replace("/", r"\/")
        # JSON escapes the rest in the same way, but units in small letters, and DEL as well.
        return re.sub(r"\\(.)([0-9a-f]{4})?", _unit, plain)


def _unit(match: re.Match[str]) -> str:
    if match[1] != "u":
        return match[0]
    return "\x7f" if match[2] == "007f" else f"\\u{match[2].upper()}"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def render_request(
    template: str, body: str, context: dict[str, Any], *parameters: dict[str, str] | None
) -> Any:
    """The integration request, parsed: it must be JSON or the service would refuse it.

    `parameters`: those of the query string, of the path, and of the headers.
    """
    return json.loads(_merge(template, body, context, *parameters))


def render_response(template: str, payload: Any, status: int = 200) -> Answer:
    """Return the client's response for an integration response of `payload`."""
    context: dict[str, Any] = {"requestId": "req-1", "responseOverride": {"header": {}}}
    body = _merge(template, json.dumps(payload, ensure_ascii=False), context).strip()
    override = context["responseOverride"]
    headers = {"Content-Type": "application/json"} | override["header"]
    return Answer(override.get("status", status), headers, body)


def outcome_of(execution: Execution) -> dict[str, Any]:
    """Return the description of an execution by StartSyncExecution."""
    outcome: dict[str, Any] = {"status": execution.status}
    if execution.status == "SUCCEEDED":
        outcome["output"] = json.dumps(execution.output, ensure_ascii=False)
    elif execution.status == "FAILED":
        outcome |= {"error": execution.error, "cause": execution.cause}
    return outcome


def render_execution(execution: Execution, route: str = "") -> Answer:
    """Return the client's response after an execution of the machine that answers."""
    return render_response(templates.response("workflow", route), outcome_of(execution))


def _merge(
    template: str, body: str, context: dict[str, Any], *parameters: dict[str, str] | None
) -> str:
    names = {"input": Input(body, *parameters), "util": Util(), "context": context}
    text: str = airspeed.Template(template).merge(names)
    return text
