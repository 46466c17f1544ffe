"""Answer events in client formats."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from docstokg.contracts.routes import RouteName
from docstokg.domain.deadline import Deadline
from docstokg.usecases.answer_checks import checks_of
from docstokg.usecases.chat_reply import ResponseEvents, live_chunk
from docstokg.usecases.live import LiveReply, SendEvent, event_frame, plain, text_of
from docstokg.wiring import Wiring

# Unread events per client before the model has to wait.
EVENTS_WAITING = 8


def listening(wiring: Wiring) -> Callable[[SendEvent], LiveReply]:
    """Return a function that creates the listener of one question."""
    checks = checks_of(wiring.embedder(), wiring.knowledge_graph(), wiring.settings.domains)
    return lambda send: LiveReply(checks, wiring.telemetry, send)


class Events:
    """Frames from a thread to one client; a slow client blocks the thread."""

    def __init__(self, deadline: Deadline) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(EVENTS_WAITING)
        self._deadline = deadline
        self._is_begun = False
        self.gone = threading.Event()

    def put(self, frame: str | None) -> bool:
        """Send a frame (None: nothing); return False if the client disconnected or is too slow."""
        if self.gone.is_set():
            return False
        if frame is None:
            return True
        if not self._room.acquire(timeout=self._deadline.remaining()):
            self.gone.set()
            return False
        self._is_begun = True
        if not self.gone.is_set():
            self._loop.call_soon_threadsafe(self._frames.put_nowait, frame)
        return not self.gone.is_set()

    def close(self, last: str | None = None) -> None:
        """Send `last` if frames were sent, close the queue and wake blocked producers."""
        self.gone.set()
        if last is not None and self._is_begun:
            self._frames.put_nowait(last)
        self._frames.put_nowait(None)
        self._room.release(EVENTS_WAITING)

    async def first(self) -> str | None:
        """Wait for the first frame; return None if there is none."""
        return await self._frames.get()

    async def stream(self, frame: str | None) -> AsyncIterator[str]:
        """Yield this frame and all later ones."""
        while frame is not None:
            yield frame
            self._room.release()
            frame = await self._frames.get()


def frames_of(
    route: RouteName, request_id: str, model: str, token: object
) -> Callable[[str, Any], str | None]:
    """Return a route's event formatter; it returns None for unused events."""
    if route == "chat":
        head = {
            "id": f"chatcmpl-{request_id}",
            "created": int(time.time()),
            "model": model,
        }

        def chat(name: str, value: Any) -> str | None:
            if not name:
                return None
            if name == "problem":
                return f"data: {text_of(value)}\n\ndata: [DONE]\n\n"
            end = "data: [DONE]\n\n" if name == "response" else ""
            return f"data: {text_of(live_chunk(name, plain(value), head))}\n\n{end}"

        return chat
    if route == "responses":
        return ResponseEvents(request_id, model).of
    if route == "mcp":
        progress = Progress(token)

        def message(name: str, value: Any) -> str | None:
            event = value if name == "response" else progress.of(name, value)
            return None if event is None else f"event: message\ndata: {text_of(event)}\n\n"

        return message
    return event_frame


class Progress:
    """MCP progress notifications of an answer."""

    def __init__(self, token: object) -> None:
        self._token, self._count = token, 0

    def of(self, name: str, value: Any) -> dict[str, Any] | None:
        """Return the notification of `citations` or a `sentence`; None for other events."""
        if name == "citations":
            words = f"{len(value['citations'])} passages found"
        elif name == "sentence":
            words = value.text.strip()
        else:
            return None
        self._count += 1
        fields = {"progressToken": self._token, "progress": self._count, "message": words}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": fields}
