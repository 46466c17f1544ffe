"""An answer is told while it is made: its citations, its checked sentences, what repairs them."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request

from docstokg.contracts.chat import CHAT_ROUTES
from docstokg.contracts.envelope import Reply
from docstokg.contracts.response import Grounding
from docstokg.contracts.routes import RouteName
from docstokg.contracts.state import Grounded, Synthesis
from docstokg.domain.answer import reply as replies
from docstokg.domain.answer.live import LiveAnswer
from docstokg.observability import Telemetry
from docstokg.usecases.chat import live_chunk
from docstokg.usecases.run import Run
from docstokg.wiring import Wiring
from docstokg_functions.respond.handler import checks_of
from docstokg_functions.respond.respond import Checks, check_written

EVENTS = "text/event-stream"
EVENTS_WAITING = 8
"""Events made for a client that does not read them, before the model has to wait for it."""

Tell = Callable[[str, Any], bool]
"""Takes an event's name and value; false once nobody waits."""


class LiveReply:
    """Listens to the execution of one question, and tells of it."""

    def __init__(self, checks: Checks, telemetry: Telemetry, tell: Tell) -> None:
        self._checks, self._telemetry, self._send = checks, telemetry, tell
        self._lock = threading.Lock()
        self._answer: LiveAnswer | None = None
        self._is_ended, self._is_heard = False, True
        self._request_id = ""
        self._told_ms: dict[str, float] = {}
        self._begun = time.perf_counter()

    def after(self, state: str, payload: dict[str, Any], result: dict[str, Any]) -> None:
        """Tell the citations as soon as there are any to tell."""
        if state != "Ground":
            return
        run, grounded = Run.of(payload, self._telemetry), Grounded.model_validate(result)
        self._request_id = run.request_id
        comparison = self._checks.compare(run, run.left_s(float("inf")))

        def check(text: str) -> tuple[str, Grounding | None]:
            written = Synthesis(outcome="answered", answer=text)
            checked = check_written(run, grounded, written, self._checks, comparison)
            return checked.answer, checked.grounding

        self._answer = LiveAnswer(check)
        self._tell("citations", {"citations": grounded.citations})

    def written(self, text: str) -> bool:
        """Take all that a model has written so far; false when it may stop."""
        with self._lock:
            if self._is_ended or self._answer is None:
                return False
            for sentence in self._answer.more(replies.read(text)):
                self._tell("sentence", sentence)
            return self._is_heard and self._send("", None)

    def finish(self, reply: Reply, route: RouteName) -> None:
        """Tell what of the reply was not told, what changes what was, and the reply itself.

        A reply that is no answer, before anything was told, is left to be sent as it is.
        """
        with self._lock:
            self._is_ended = True
        if reply.statusCode != 200 and self._answer is None:
            return
        body = reply.body
        if reply.statusCode == 200 and body.startswith("data: "):  # the one event of a chat
            body = body.removeprefix("data: ").partition("\n\n")[0]
        value = json.loads(body)
        if reply.statusCode != 200:
            self._tell("problem", value)
        elif route == "mcp":
            self._tell("response", value)
        else:
            self._finish(value, value["docstokg"] if route in CHAT_ROUTES else value)

    def _finish(self, value: dict[str, Any], evidence: dict[str, Any]) -> None:
        if self._answer is None:  # an answer that was kept
            self._answer = LiveAnswer(lambda text: (text, None))
            self._tell("citations", {"citations": evidence["citations"]})
        report = evidence["grounding"]
        text = value["choices"][0]["delta"]["content"] if "choices" in value else value["answer"]
        sentences, repairs = self._answer.end(
            text, Grounding.model_validate_json(json.dumps(report)) if report else None
        )
        for sentence in sentences:
            self._tell("sentence", sentence)
        for repair in repairs:
            self._tell("repair", repair)
        self._tell("response", value)
        self._telemetry.log(
            "INFO", "streamed", request_id=self._request_id,
            first_ms=self._told_ms, repairs=len(repairs), left=not self._is_heard,
        )  # fmt: skip

    def _tell(self, name: str, value: Any) -> None:
        took_ms = (time.perf_counter() - self._begun) * 1000
        self._told_ms.setdefault(name, round(took_ms, 1))
        self._is_heard = self._is_heard and self._send(name, value)


def wants_events(request: Request, route: RouteName, body: bytes) -> bool:
    """Tell whether a client wants to be told while the answer is made; its body may be anything."""
    if route not in ("answer", "chat", "mcp"):
        return False
    if route == "answer":
        return EVENTS in request.headers.get("accept", "")
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if route == "mcp":
        return EVENTS in request.headers.get("accept", "") and progress_token(asked) is not None
    return isinstance(asked, dict) and asked.get("stream") is True


def listening(wiring: Wiring) -> Callable[[Tell], LiveReply]:
    """Give what makes a listener of one question."""
    checks = checks_of(wiring)
    return lambda tell: LiveReply(checks, wiring.telemetry, tell)


class Events:
    """Frames from a thread to one client of this event loop; a slow client makes it wait."""

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(EVENTS_WAITING)
        self._ends = time.monotonic() + timeout_s
        self._is_begun = False
        self.gone = threading.Event()

    def put(self, frame: str | None) -> bool:
        """Send a frame, when there is room for it; False once nobody waits."""
        if self.gone.is_set():
            return False
        if frame is None:
            return True
        if not self._room.acquire(timeout=max(0.0, self._ends - time.monotonic())):
            self.gone.set()
            return False
        self._is_begun = True
        if not self.gone.is_set():
            self._loop.call_soon_threadsafe(self._frames.put_nowait, frame)
        return not self.gone.is_set()

    def close(self, last: str | None = None) -> None:
        """Take nothing more; who waits for room is let go."""
        self.gone.set()
        if last is not None and self._is_begun:
            self._frames.put_nowait(last)
        self._frames.put_nowait(None)
        self._room.release(EVENTS_WAITING)

    async def first(self) -> str | None:
        """Wait for the first frame; None when there is none."""
        return await self._frames.get()

    async def stream(self, frame: str | None) -> AsyncIterator[str]:
        """Give that frame and all that follow."""
        while frame is not None:
            yield frame
            self._room.release()
            frame = await self._frames.get()


def frames_of(route: RouteName, request_id: str, body: Any) -> Callable[[str, Any], str | None]:
    """Give how an event is written for the clients of a route; None for what they do not read."""
    if route == "chat":
        head = {
            "id": f"chatcmpl-{request_id}",
            "created": int(time.time()),
            "model": json.loads(body)["model"],
        }

        def chat(name: str, value: Any) -> str | None:
            if not name:
                return None
            if name == "problem":
                return f"data: {_text(value)}\n\ndata: [DONE]\n\n"
            end = "data: [DONE]\n\n" if name == "response" else ""
            return f"data: {_text(live_chunk(name, _plain(value), head))}\n\n{end}"

        return chat
    if route == "mcp":
        progress = Progress(progress_token(json.loads(body)))

        def message(name: str, value: Any) -> str | None:
            made = value if name == "response" else progress.of(name, value)
            return None if made is None else f"event: message\ndata: {_text(made)}\n\n"

        return message
    return lambda name, value: f"event: {name}\ndata: {_text(value)}\n\n" if name else None


class Progress:
    """Notifications of the Model Context Protocol on how an answer goes."""

    def __init__(self, token: object) -> None:
        self._token, self._count = token, 0

    def of(self, name: str, value: Any) -> dict[str, Any] | None:
        """Give the notification of an event, None for those that have none."""
        if name == "citations":
            words = f"{len(value['citations'])} passages found"
        elif name == "sentence":
            words = value.text.strip()
        else:
            return None
        self._count += 1
        fields = {"progressToken": self._token, "progress": self._count, "message": words}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": fields}


def progress_token(message: object) -> object:
    """Give the token of a call whose sender wants to hear of its progress, else None."""
    for key in ("params", "_meta", "progressToken"):
        message = message.get(key) if isinstance(message, dict) else None
    return message


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict) and isinstance(value.get("citations"), tuple):
        return {"citations": [_plain(one) for one in value["citations"]]}
    return value


def _text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
