"""Links to passages."""

from urllib.parse import urlencode


def passage_link(
    public_url: str, namespace: str, doc_id: str, uuid: str, span: tuple[int, int] | None = None
) -> str:
    """Return the address of a passage on the page at `public_url`, as the page itself writes it.

    `span`: of the cited text, in the citation's offset base.
    """
    named = {"namespace": namespace, "doc": doc_id, "passage": uuid}
    if span is not None:
        named["span"] = f"{span[0]}-{span[1]}"
    return f"{public_url.rstrip('/')}/#{urlencode(named)}"


def is_web(uri: str | None) -> bool:
    """Return whether a client can open a source's URI in a browser."""
    return uri is not None and uri.startswith(("http://", "https://"))
