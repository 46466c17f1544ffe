"""Puts the VTL files together, so that the stack and the tests render the very same text."""

import base64
import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import Literal

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
    """VTL that sets $caller to a JSON object {sub, namespaces, groups, load}; never client text."""
    rights = {"NAMESPACES": json.dumps(list(namespaces)), "LOAD": json.dumps(list(load))}
    return _fill(_read(f"caller_{source}"), **rights)


def edge(namespaces: tuple[str, ...], origin: str) -> str:
    """The stage variable that tells the function `stream` what the templates know."""
    headers = {"Access-Control-Allow-Origin": origin} if origin else {}
    told = json.dumps({"namespaces": namespaces, "headers": headers})
    return base64.urlsafe_b64encode(told.encode()).decode()


def request_workflow(route: str, target: str, caller_vtl: str) -> str:
    """Body and authoriser context to StartSyncExecution on `target` (an alias ARN)."""
    return _fill(_read("request_workflow"), ROUTE=route, TARGET=target, CALLER=caller_vtl)


def request_function(
    route: str, caller_vtl: str, parameters: tuple[str, ...] = (), max_bytes: int = MAX_BYTES
) -> str:
    """The same envelope as the workflow's, as a function's event.

    `parameters` of the query string and the path become the body, each a text; others are not
    read. A body of more than `max_bytes` is cut off behind them, so that the function refuses it.
    """
    names = ", ".join(f"'{name}'" for name in parameters)
    if parameters:
        body = _fill(_read("body_parameters"), NAMES=names)
    else:
        body = _fill(_read("body_sent"), LENGTH=str((max_bytes // 3 + 2) * 4))
    return _fill(_read("request_function"), BODY=body, ROUTE=route, CALLER=caller_vtl)


def response(name: str, route: str = "") -> str:
    """The template of an outcome; clients of a chat route read errors in a form of their own.

    `workflow`: of StartSyncExecution, which is HTTP 200 also when the execution failed.
    `function`: a function's {statusCode, body, headers?}, or its error, which is HTTP 200 as well.
    `refused`: the service refused the call itself: throttled, or misconfigured.
    """
    form = "part_error" if route in CHAT_ROUTES else "part_problem"
    return _fill(_read(f"response_{name}"), REPLY=_read("part_reply"), PROBLEM=_read(form))


def response_unrouted(status: int, code: str, detail: str) -> str:
    """A path or method that does not exist."""
    title = HTTPStatus(status).phrase
    return _fill(
        _read("response_unrouted"), STATUS=str(status), TITLE=title, CODE=code, DETAIL=detail
    )


def static_json(document: object) -> str:
    """A JSON document as a template that prints it: `$` and `#` mean nothing special any more."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    escaped = re.sub(r"[$#]", lambda match: "${dollar}" if match[0] == "$" else "${hash}", text)
    return f"#set($dollar = '$')\n#set($hash = '#')\n{escaped}"


def gateway_problem(status: int, code: str, detail: str) -> str:
    """Body of a gateway response: plain $context substitution, the VTL engine never sees it."""
    return (
        f'{{"type":"about:blank","title":"{HTTPStatus(status).phrase}","status":{status},"code":"{code}",'
        f'"detail":"{detail}","request_id":"$context.requestId","errors":[]}}'
    )
