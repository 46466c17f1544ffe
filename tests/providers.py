"""OpenAI, Anthropic, Bedrock and a gateway on one loopback port, which let only right calls in.

Each checks what its own service checks: the path, the key in its header, the version, the shape
of the body; Bedrock recomputes the signature.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.loopback import Quiet
from tests.model_server import completion, listening, send_json
from tests.signatures import Signed, problem

OPENAI_KEY, ANTHROPIC_KEY, GATEWAY_KEY = "sk-openai", "sk-ant", "sk-gateway"


@dataclass
class Providers:
    """Requests as (provider, model, body); `refuse`: status by provider."""

    port: int = 0
    answer: str = "It is so [1]."
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    refuse: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def at(self, provider: str) -> str:
        """Give the address to configure for a provider."""
        tail = "/v1" if provider in ("openai", "gateway") else ""
        return f"http://127.0.0.1:{self.port}/{provider}{tail}"


@contextmanager
def serving() -> Iterator[Providers]:
    """Serve until the block ends."""
    state = Providers()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            provider, _, path = self.path.lstrip("/").partition("/")
            check = {
                "openai": _openai,
                "gateway": _gateway,
                "anthropic": _anthropic,
                "bedrock": _bedrock,
            }[provider]
            url = f"http://{headers['host']}{self.path}"
            status, payload = check(state, Call(f"/{path}", url, headers, body))
            if status == 200 and provider in state.refuse:
                status, payload = state.refuse[provider], {"message": "no", "error": {}}
            send_json(self, status, payload)

    with listening(Handler) as state.port:
        yield state


Reply = tuple[int, dict[str, Any]]


class Call(NamedTuple):
    """A request; `path`: after the provider's name."""

    path: str
    url: str
    headers: dict[str, str]
    body: bytes


def _refused(state: Providers, status: int, why: str) -> Reply:
    state.problems.append(why)
    return status, {"error": {"message": why, "type": "refused"}, "message": why}


def _chat(state: Providers, provider: str, key: str, call: Call) -> Reply:
    if call.path != "/v1/chat/completions":
        return _refused(state, 404, f"{provider}: no {call.path}")
    if call.headers.get("authorization") != f"Bearer {key}":
        return _refused(state, 401, f"{provider}: {call.headers.get('authorization')}")
    request = json.loads(call.body)
    if [message["role"] for message in request["messages"]] != ["system", "user"]:
        return _refused(state, 400, f"{provider}: roles")
    state.asked.append((provider, request["model"], request))
    return 200, completion(request["model"], state.answer)


def _openai(state: Providers, call: Call) -> Reply:
    request = json.loads(call.body)
    # Its newer models refuse the old name of the limit and any temperature of one's own.
    if request["model"].startswith(("gpt-5", "gpt-6")) and {"max_tokens", "temperature"} & set(
        request
    ):
        return _refused(state, 400, "openai: unsupported parameter")
    return _chat(state, "openai", OPENAI_KEY, call)


def _gateway(state: Providers, call: Call) -> Reply:
    return _chat(state, "gateway", GATEWAY_KEY, call)


def _anthropic(state: Providers, call: Call) -> Reply:
    if call.path != "/v1/messages":
        return _refused(state, 404, f"anthropic: no {call.path}")
    if call.headers.get("x-api-key") != ANTHROPIC_KEY or "authorization" in call.headers:
        return _refused(state, 401, "anthropic: the key")
    if call.headers.get("anthropic-version") != "2023-06-01":
        return _refused(state, 400, "anthropic: the version")
    request = json.loads(call.body)
    if not request.get("system") or [m["role"] for m in request["messages"]] != ["user"]:
        return _refused(state, 400, "anthropic: rules belong into system")
    state.asked.append(("anthropic", request["model"], request))
    return 200, {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [{"type": "text", "text": state.answer}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 120, "output_tokens": 30},
    }


def _bedrock(state: Providers, call: Call) -> Reply:
    wrong = problem(Signed("bedrock", payload=False), "POST", *call[1:])
    if wrong is not None:
        return _refused(state, 403, f"bedrock: {wrong}")
    parts = call.path.strip("/").split("/")
    if len(parts) != 3 or (parts[0], parts[2]) != ("model", "converse"):
        return _refused(state, 404, f"bedrock: no {call.path}")
    request = json.loads(call.body)
    if not request.get("system") or [m["role"] for m in request["messages"]] != ["user"]:
        return _refused(state, 400, "bedrock: rules belong into system")
    state.asked.append(("bedrock", unquote(parts[1]), request))
    return 200, {
        "output": {"message": {"role": "assistant", "content": [{"text": state.answer}]}},
        "stopReason": "end_turn",
        "metrics": {"latencyMs": 1},
        "usage": {"inputTokens": 120, "outputTokens": 30, "totalTokens": 150},
    }
