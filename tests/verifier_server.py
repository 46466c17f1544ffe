"""One loopback server with the wire formats of all remote verifiers, which obeys or breaks them.

A claim counts as supported when a source contains all its words, and as contradicted when the
source contains "never".
"""

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import Quiet
from tests.model_server import completion, listening, passages_of, send_bytes, start_reply

DEEP = b"[" * 200_000
HUGE = 50 << 20
WIRE_LIES = ("hang", "drip", "redirect", "error_500", "not_json", "deep", "break_off", "huge")
"""Modes that break HTTP or JSON."""
LIES = ("wrong_length", "nan", "outside", "wrong_kind", "unknown_label")
"""Modes that break the format of the answer."""

_WORD = re.compile(r"\w+")
_STATEMENT = re.compile(r"Statement \d+ \(passages ([\d, ]+)\): (.*)")


def supports(claim: str, source: str) -> bool:
    """Return whether a source contains all words of a claim."""
    return not set(_WORD.findall(claim.casefold())) - set(_WORD.findall(source.casefold()))


@dataclass
class VerifierServer:
    """`mode`: "ok", "slow" (after `delay_s`), or a lie; `asked`: path and body of each request.

    `keys`: the header Authorization of each request.

    `script`: the label that `/predict` returns for a claim with score 0.9, whatever its source.
    """

    mode: str = "ok"
    delay_s: float = 0.0
    port: int = 0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    script: dict[str, str] = field(default_factory=dict)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(server: VerifierServer | None = None) -> Iterator[VerifierServer]:
    """Serve until the block ends."""
    state = server or VerifierServer()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append((self.path, None))
            self._send(200, b"{}")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            state.asked.append((self.path, body))
            state.keys.append(self.headers.get("Authorization"))
            self.close_connection = True
            with suppress(BrokenPipeError, ConnectionResetError):
                self._answer(body)

        def _answer(self, body: Any) -> None:
            mode = state.mode
            if mode == "hang":
                state.released.wait(30)
            elif mode == "redirect":
                self._send(307, b"", Location=f"{state.url}/stolen")
            elif mode == "error_500":
                self._send(500, b'{"error": "broken"}')
            elif mode == "not_json":
                self._send(200, b"<html>gateway</html>")
            elif mode == "deep":
                self._send(200, DEEP)
            elif mode == "huge":
                self._send(200, b'"' + b"A" * HUGE + b'"')
            elif mode == "break_off":
                start_reply(self, 200, 1000)
                self.wfile.write(b"[[")
            else:
                if mode == "slow":
                    state.released.wait(state.delay_s)
                data = json.dumps(answer(self.path, body, mode, state.script)).encode()
                if mode != "drip":
                    self._send(200, data)
                    return
                start_reply(self, 200, len(data))
                for byte in data:
                    time.sleep(0.1)
                    self.wfile.write(bytes([byte]))

        def _send(self, status: int, data: bytes, **headers: str) -> None:
            send_bytes(self, status, data, Connection="close", **headers)

    with listening(Handler) as state.port:
        try:
            yield state
        finally:
            state.released.set()


def answer(path: str, body: Any, mode: str, script: dict[str, str] | None = None) -> Any:
    """Return the payload for a path: TEI, OpenAI chat, a Lambda invocation, or a guardrail."""
    if path.endswith("/predict"):
        if script:
            return [_scripted(script[claim]) for _, claim in body["inputs"]]
        return _lied([_row(claim, source, mode) for source, claim in body["inputs"]], mode)
    if path.endswith("/chat/completions"):
        return _chat(body, mode)
    if path.endswith("/invocations"):
        rows = [_opinion(claim, sources, mode) for claim, sources in body["pairs"]]
        return {"opinions": _lied(rows, mode)}
    texts = {part["text"]["qualifiers"][0]: part["text"]["text"] for part in body["content"]}
    score = _score(supports(texts["guard_content"], texts["grounding_source"]), mode)
    kind = "TOXIC" if mode in ("unknown_label", "wrong_length") else "GROUNDING"
    filters = [{"type": kind, "threshold": 0.5, "score": score, "action": "NONE"}]
    assessments = [{"contextualGroundingPolicy": {"filters": filters}}]
    return {"action": "NONE", "outputs": [], "assessments": assessments, "usage": {}}


def _lied(rows: list[Any], mode: str) -> list[Any]:
    return rows[1:] if mode == "wrong_length" else rows


def _score(is_supported: bool, mode: str) -> Any:
    lies = {"nan": float("nan"), "outside": 1.5, "wrong_kind": "much"}
    return lies.get(mode, 0.9 if is_supported else 0.1)


def _row(claim: str, source: str, mode: str) -> list[dict[str, Any]]:
    label = "LABEL_7" if mode == "unknown_label" else "ENTAILMENT"
    contradiction = 0.8 if "never" in source else 0.05
    scores = {label: _score(supports(claim, source), mode), "CONTRADICTION": contradiction}
    return [{"label": name, "score": score} for name, score in scores.items()]


def _scripted(label: str) -> list[dict[str, Any]]:
    labels = ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")
    return [{"label": name, "score": 0.9 if name == label else 0.05} for name in labels]


def _opinion(claim: str, sources: Sequence[str], mode: str) -> list[Any]:
    if mode == "unknown_label":
        return ["entailment"]
    best = any(supports(claim, source) for source in sources)
    contradicted = 0.8 if any("never" in source for source in sources) else 0.05
    return [_score(best, mode), contradicted, []]


def _chat(body: dict[str, Any], mode: str) -> dict[str, Any]:
    prompt = body["messages"][-1]["content"]
    passages = dict(passages_of(body))
    rows: list[dict[str, Any]] = []
    for n, (numbers, claim) in enumerate(_STATEMENT.findall(prompt), 1):
        sources = [passages[number.strip()] for number in numbers.split(",")]
        quote = next((source for source in sources if supports(claim, source)), "")
        denial = next((source for source in sources if "never" in source), "")
        kind = "supported" if quote else "contradicted" if denial else "not_stated"
        rows.append({"n": n, "verdict": kind, "quotes": [quote or denial]})
    lies = {
        "wrong_length": [{"n": len(rows) + 1, "verdict": "supported", "quotes": ["x"]}],
        "nan": [{**row, "n": float("nan")} for row in rows],
        "outside": [{**row, "n": 99} for row in rows],
        "wrong_kind": "supported",
        "unknown_label": [{**row, "verdict": "likely"} for row in rows],
        "invented_quote": [{**row, "verdict": "supported", "quotes": ["it is so"]} for row in rows],
        "no_quote": [{**row, "verdict": "supported", "quotes": []} for row in rows],
        "half": rows[:1],
    }
    text = json.dumps({"statements": lies.get(mode, rows)})
    return completion(None, f"```json\n{text}\n```")
