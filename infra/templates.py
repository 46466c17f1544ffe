"""Assembly of the VTL files."""

import base64
import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import Literal

from docstokg.contracts import compact_json
from docstokg.contracts.chat import CHAT_ROUTES

MAX_BYTES = 64 * 1024
FOLDER = Path(__file__).parent / "vtl"

type CallerSource = Literal["jwt", "iam", "none"]


def _read(name: str) -> str:
    return (FOLDER / f"{name}.vtl").read_text(encoding="utf-8").rstrip("\n")


def _fill(text: str, **values: str) -> str:
    for key, value in values.items():
        text = text.replace(f"%%{key}%%", value)
    return text


def caller(
    source: CallerSource, namespaces: tuple[str, ...] = (), load: tuple[str, ...] = ()
) -> str:
    """Return VTL that sets $caller to {sub, namespaces, groups, load}; never client text."""
    rights = {"NAMESPACES": json.dumps(list(namespaces)), "LOAD": json.dumps(list(load))}
    return _fill(_read(f"caller_{source}"), **rights)


def edge(namespaces: tuple[str, ...], origin: str) -> str:
    """Return the stage variable for `stream`: namespaces and headers, as base64url of JSON."""
    headers = {"Access-Control-Allow-Origin": origin} if origin else {}
    payload = json.dumps({"namespaces": namespaces, "headers": headers})
    return base64.urlsafe_b64encode(payload.encode()).decode()


def request_workflow(
    route: str, target: str, caller_vtl: str, parameters: tuple[str, ...] = ()
) -> str:
    """Return VTL for StartSyncExecution on `target` (alias ARN).

    `parameters`: see `request_function`.
    """
    parts = {"BODY": _body(parameters, MAX_BYTES), "TARGET": target, "CALLER": caller_vtl}
    return _fill(_read("request_workflow"), ROUTE=route, **parts)


def request_function(
    route: str, caller_vtl: str, parameters: tuple[str, ...] = (), max_bytes: int = MAX_BYTES
) -> str:
    """Return VTL for the workflow's envelope as a function's event.

    `parameters` of query string and path become the body, as strings. A body is cut above
    `max_bytes`; the function refuses it.
    """
    headers = _read("headers_mcp") if route == "mcp" else '#set($headers = "")'
    parts = {"BODY": _body(parameters, max_bytes), "HEADERS": headers, "CALLER": caller_vtl}
    return _fill(_read("request_function"), ROUTE=route, **parts)


def _body(parameters: tuple[str, ...], max_bytes: int) -> str:
    if not parameters:
        return _fill(_read("body_sent"), LENGTH=str((max_bytes // 3 + 2) * 4))
    return _fill(_read("body_parameters"), NAMES=", ".join(f"'{name}'" for name in parameters))


def response(name: str, route: str = "") -> str:
    """Return the template of an outcome; chat routes have their own error format.

    `workflow`: of StartSyncExecution, which is HTTP 200 also if the execution failed. `function`: a
    function's {statusCode, body, headers?}, or its error. `refused`: the service refused the call.
    Others raise FileNotFoundError.
    """
    problem = _problem(route in CHAT_ROUTES)
    return _fill(_read(f"response_{name}"), REPLY=_read("part_reply"), PROBLEM=problem)


def response_unrouted(status: int, code: str, detail: str, *, chat: bool = False) -> str:
    """Return the template for an unknown path or method; `chat`: in OpenAI's error format.

    Raise ValueError for an unknown status.
    """
    title, problem = HTTPStatus(status).phrase, _problem(chat)
    return _fill(
        _read("response_unrouted"),
        PROBLEM=problem,
        STATUS=str(status),
        TITLE=title,
        CODE=code,
        DETAIL=detail,
    )


def _problem(chat: bool) -> str:
    return _read("part_error" if chat else "part_problem")


def static_json(document: object) -> str:
    """Return a template that prints a JSON document, with `$` and `#` escaped."""
    text = compact_json(document)
    escaped = re.sub(r"[$#]", lambda match: "${dollar}" if match[0] == "$" else "${hash}", text)
    return f"#set($dollar = '$')\n#set($hash = '#')\n{escaped}"


def gateway_problem(status: int, code: str, detail: str) -> str:
    """Return the body of a gateway response; only $context is substituted, without VTL.

    Raise ValueError for an unknown status.
    """
    return (
        f'{{"type":"about:blank","title":"{HTTPStatus(status).phrase}","status":{status},"code":"{code}",'
        f'"detail":"{detail}","request_id":"$context.requestId","errors":[]}}'
    )
