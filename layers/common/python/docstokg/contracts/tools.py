"""What every tool takes beside its request, and the envelope a route's own function receives."""

from typing import Annotated

from pydantic import Field

from docstokg.contracts.model import StrictContract

MIN_RESPONSE_TOKENS = 100


class Paging(StrictContract):
    """How much of a result one tool call may return, and where the next one goes on."""

    max_response_tokens: Annotated[
        int | None,
        Field(
            ge=MIN_RESPONSE_TOKENS,
            description="The text of the result never has more tokens than this, estimated as "
            "ceil(UTF-8 bytes / 4). What does not fit comes with the next page. Default: no limit.",
        ),
    ] = None
    response_cursor: Annotated[
        str | None,
        Field(
            max_length=128,
            description="`next_cursor` of the page before, with otherwise the same arguments: the "
            "result goes on where that page ended.",
        ),
    ] = None
