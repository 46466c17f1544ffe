"""What one process gives to sockets: so many, and so long for headers, bodies and reading.

uvicorn bounds neither connections nor the time a client may take to send its headers.
"""

import asyncio
import ctypes
import resource
import socket
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from docstokg_local.server import short_way
from docstokg_local.server.balance import Shares

HEADERS_S = 10.0
KEEP_ALIVE_S = 5
UNREAD_S = 30.0
ACCEPTED_AT_ONCE = 1
"""Connections one process takes when it wakes: the others take theirs."""

WAITING_CONNECTIONS = 256
MOST_CONNECTIONS = 512
HEADER_BYTES = 16_384
PAUSE_S = 0.03
"""Before the next refusal of a connection that did not wait as long as the last one told it to.

A client that asks again at once hears no thirty times a second, not as often as it can: what its
noise would cost belongs to those who are answered.
"""

TOGETHER_BYTES = 65_536
"""What a response may hold back before it is sent."""


_SEND = ctypes.PyDLL(None).send
_SEND.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
_SEND.restype = ctypes.c_ssize_t
_AT_ONCE = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)


def most_connections() -> int:
    """Give the limit of this process: well below its open files, which stores need too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = soft if soft != resource.RLIM_INFINITY else MOST_CONNECTIONS * 3
    return max(8, min(MOST_CONNECTIONS, files // 3))


class OneSend:
    """A transport that sends head and body of a response by one system call, not by two.

    Each call gives the interpreter away, and a loop beside busy threads waits milliseconds until it
    has it back: most of what a refusal takes in a flood. What a stream writes goes out when
    the loop turns.
    """

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._inner, self._loop = inner, loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Hold it back until `send`, the loop's next turn, or TOGETHER_BYTES."""
        if not data:
            return
        if not self._held:
            self._loop.call_soon(self.send)
        self._held.append(data)
        self._size += len(data)
        if self._size > TOGETHER_BYTES:
            self.send()

    def at_once(self, data: bytes) -> None:
        """Send a whole response and keep the interpreter meanwhile.

        Python's own `send` gives it away for the few microseconds of the call, and a loop beside
        busy threads waits a thousand times as long until it has it back. What the socket does
        not take, and every error, is the transport's.
        """
        self.send()
        taken = 0
        wire = self._inner.get_extra_info("socket")
        if wire is not None and not self._inner.get_write_buffer_size():
            taken = max(0, _SEND(wire.fileno(), data, len(data), _AT_ONCE))
        if taken < len(data):
            self._inner.write(data[taken:])

    def send(self) -> None:
        """Send what is held back."""
        if self._held:
            together, self._held, self._size = b"".join(self._held), [], 0
            self._inner.write(together)

    def close(self) -> None:
        """Close when everything is sent."""
        self.send()
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class BoundedProtocol(H11Protocol):
    """One connection; when there are too many, the one that was idle longest gives way."""

    shares: Shares | None = None
    """What the workers behind one port hold; None in a process that has the port to itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._since = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._most = most_connections()
        self._taken = False
        self._not_before = 0.0
        self._pausing: tuple[asyncio.TimerHandle, bytes] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, if need be in place of an idle one; refuse it when all work."""
        if len(self.connections) >= self._most:
            others = [one for one in self.connections if isinstance(one, BoundedProtocol)]
            idle = [one for one in others if not one.is_working()]
            if not idle:
                self.transport = transport
                transport.abort()
                return
            oldest = min(idle, key=lambda one: one._since)
            self.connections.discard(oldest)
            oldest.transport.abort()
        self._taken = True
        self._sends = OneSend(transport, self.loop)
        super().connection_made(self._sends)  # type: ignore[arg-type]
        self._wait_for_headers()
        if self.shares is not None:
            self.shares.take(len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Read on; the time for headers runs from their first byte, or from the last answer."""
        if not self._taken:
            return
        self._end_pause()
        if self._refused(data):
            return
        super().data_received(data)
        if self.is_working():
            self._stop_waiting()
        elif self._timer is None:
            self._wait_for_headers()

    def _refused(self, data: bytes) -> bool:
        """Refuse what has arrived whole, where the server has no room for it: the short way."""
        refuse: short_way.Refuse | None = self.app_state.get("refuse")
        if refuse is None or not self._is_between_requests():
            return False
        arrival = short_way.read(data)
        refusal = refuse(arrival, self.client[0] if self.client else "") if arrival else None
        if refusal is None:
            return False
        self._unset_keepalive_if_required()
        self._stop_waiting()
        text = short_way.written(refusal, self.server_state.default_headers)
        now = self.loop.time()
        pause_s = PAUSE_S if now < self._not_before else 0.0
        self._not_before = now + pause_s + refusal.retry_after_s
        self._pausing = (self.loop.call_later(pause_s, self._end_pause), text)
        if not pause_s:
            self._end_pause()
        return True

    def _end_pause(self) -> None:
        """Send the refusal that is held back, if one is, and wait for the next request."""
        if self._pausing is None:
            return
        timer, text = self._pausing
        timer.cancel()
        self._pausing = None
        self._sends.at_once(text)
        self._since = time.monotonic()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _is_between_requests(self) -> bool:
        """Tell whether the next byte is a request's first, and its answer may be sent at once."""
        states = (self.conn.our_state, self.conn.their_state)
        if states != (h11.IDLE, h11.IDLE) or self.conn.trailing_data[0]:
            return False
        return not (self.flow.write_paused or self.transport.is_closing())

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn closes what stays silent for KEEP_ALIVE_S."""
        self._sends.send()
        super().on_response_complete()
        self._since = time.monotonic()

    def pause_writing(self) -> None:
        """Give a client that does not read its answer a time to do so."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads."""
        super().resume_writing()
        self._forget_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_waiting()
        self._forget_unread()
        if self._pausing is not None:
            self._pausing[0].cancel()
            self._pausing = None
        if self._taken:
            super().connection_lost(exc)
            if self.shares is not None:
                self.shares.hold(len(self.connections))

    def shutdown(self) -> None:
        """End when what was begun is answered."""
        self._end_pause()
        super().shutdown()

    def is_working(self) -> bool:
        """Tell whether a request has arrived that is not answered yet."""
        if self._pausing is not None:
            return True
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_headers(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(HEADERS_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def limits() -> dict[str, Any]:
    """Give uvicorn's own settings beside the protocol's."""
    return {
        "http": BoundedProtocol,
        "backlog": ACCEPTED_AT_ONCE,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "h11_max_incomplete_event_size": HEADER_BYTES,
    }
