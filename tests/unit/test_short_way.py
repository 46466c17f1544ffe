"""What the short way of a refusal reads, h11 reads likewise; all else goes the long way."""

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from docstokg.contracts.envelope import Reply
from docstokg_local.server.short_way import LONGEST_BYTES, Arrival, Refusal, read, written

BODY = b'{"query":"a"}'
HEAD = b"POST /v1/search HTTP/1.1\r\nHost: a:1\r\nAccept: */*\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: 13\r\n\r\n" + BODY


def by_h11(data: bytes) -> Arrival:
    """Read the same as the long way does; it must be one request and nothing else."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request, body = connection.next_event(), b""
    assert isinstance(request, h11.Request)
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage)
    assert connection.trailing_data == (b"", False)
    assert connection.their_state is h11.DONE  # the next request is welcome
    assert (request.method, request.http_version) == (b"POST", b"1.1")
    headers = {name.decode(): value.decode() for name, value in request.headers}
    return Arrival(request.target.decode(), headers, body)


def test_a_request_that_arrived_whole_is_read() -> None:
    asked = read(WHOLE)
    assert asked is not None
    assert asked == by_h11(WHOLE)
    assert (asked.path, asked.body, asked.headers["host"]) == ("/v1/search", BODY, "a:1")


LENGTH = b"Content-Length: 13\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        WHOLE[:-1],
        WHOLE + b"x",
        WHOLE + WHOLE,
        b"\r\n" + WHOLE,
        HEAD,
        WHOLE.replace(b"POST", b"GET"),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        WHOLE.replace(b"/v1/search", b"http://a/v1/search"),
        WHOLE.replace(b"/v1/search", b"/v1/search?a=b"),
        WHOLE.replace(b"/v1/search", b"/v1/%73earch"),
        WHOLE.replace(b"Host: a:1\r\n", b""),
        WHOLE.replace(b"Host: a:1", b"Host: a\r\nHost: b"),
        WHOLE.replace(b"Content-Length: 13", b"Transfer-Encoding: chunked"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length: 13\r\nTransfer-Encoding: chunked"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length: 13\r\nContent-Length: 13"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length: 13\r\ncontent-length: 5"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length: +13"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length: 013"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length: 1_3"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length : 13"),
        WHOLE.replace(b"Content-Length: 13", b"Content-Length: 13\r\n folded"),
        WHOLE.replace(b"Accept: */*", b"Accept: */*\nTransfer-Encoding: chunked"),
        WHOLE.replace(b"Accept: */*", b"Accept: */*\rX: y"),
        WHOLE.replace(b"Accept: */*", b"Accept: \x00"),
        WHOLE.replace(b"Accept: */*", b"Accept: \xff"),
        WHOLE.replace(b"Accept: */*", b"Expect: 100-continue"),
        WHOLE.replace(b"Accept: */*", b"Upgrade: websocket"),
        WHOLE.replace(b"Accept: */*", b"Connection: close"),
        WHOLE.replace(b"Accept: */*", b"Connection: keep-alive, upgrade"),
        WHOLE.replace(b"Accept: */*", b"X-Forwarded-For: 10.0.0.1"),
        WHOLE.replace(b"Accept: */*", b"\r\n".join(b"H%d: 1" % n for n in range(40))),
        WHOLE.replace(b"Accept: */*", b"Accept: " + b"a" * 4000),
        HEAD + b"Content-Length: %d\r\n\r\n" % LONGEST_BYTES + b"x" * LONGEST_BYTES,
    ],
)
def test_what_is_of_another_shape_goes_the_long_way(data: bytes) -> None:
    assert read(data) is None


PIECES = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\x00", b"\x80", b"0", b"3", b"\r\n\r\n"),
    *(b"Content-Length: 13\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Connection: close\r\n", b"Connection: Keep-Alive\r\n", b"X-A: b\r\n", b"Host: b\r\n"),
    *(b"content-length:13 \r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n", b"_!~: \r\n"),
)


@given(
    st.lists(
        st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 4), st.sampled_from((b"", *PIECES))),
        max_size=4,
    )
)
@example([])
@example([(26, 0, b"X-A: b\r\n")])
def test_whatever_it_reads_the_long_way_reads_likewise(edits: list[tuple[int, int, bytes]]) -> None:
    data = WHOLE
    for place, cut, piece in edits:
        data = data[:place] + piece + data[place + cut :]
    asked = read(data)
    if asked is not None:
        assert asked == by_h11(data)


def test_a_refusal_is_a_response_that_clients_read() -> None:
    reply = Reply(statusCode=503, body='{"a":"é"}', headers={"Retry-After": "4"})
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="POST", target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(written(Refusal(reply, "ID", 4), [(b"date", b"now")]))
    response = client.next_event()
    assert isinstance(response, h11.Response)
    assert (response.status_code, response.reason) == (503, b"Service Unavailable")
    assert dict(response.headers) == {
        b"date": b"now",
        b"retry-after": b"4",
        b"content-length": b"10",
        b"x-request-id": b"ID",
    }
    body = client.next_event()
    assert isinstance(body, h11.Data)
    assert body.data == '{"a":"é"}'.encode()
    assert isinstance(client.next_event(), h11.EndOfMessage)
