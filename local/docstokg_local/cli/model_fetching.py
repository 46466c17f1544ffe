"""One file of an encoder from wherever its user says, pinned by hash; a broken fetch goes on."""

from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import urllib3

from docstokg.errors import Misconfigured, Unavailable, WrongAnswer
from docstokg_local.cli.model_files import has_hash

REACH_S = 30.0
BLOCK = 1 << 16


def fetch_file(url: str, sha256: str, folder: Path) -> Path:
    """Fetch a file of another encoder into its folder.

    Raises `Unavailable`, `WrongAnswer`, `Misconfigured`. What came before a broken connection
    stays, and the next try goes on behind it; only a file of this hash gets its name.
    """
    target = folder / Path(urlsplit(url).path).name
    part = target.with_name(f"{target.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not has_hash(target, sha256):
            _go_on(url, part)
            if not has_hash(part, sha256):
                part.unlink()
                raise WrongAnswer(f"{url} is not the file of that hash: nothing was kept")
            part.replace(target)
    except urllib3.exceptions.HTTPError as away:
        came = part.stat().st_size if part.is_file() else 0
        raise Unavailable(
            f"{url} could not be fetched ({type(away).__name__}), {came:,} bytes are here: run it "
            f"again to go on, or copy the file from a machine with a network to {target}"
        ) from away
    except OSError as broken:
        raise Misconfigured(f"{target} cannot be written: {broken.strerror}") from broken
    return target


def _go_on(url: str, part: Path) -> None:
    """Write what is missing of a file; a server that begins anew is read anew."""
    came = part.stat().st_size if part.is_file() else 0
    with urllib3.PoolManager(retries=urllib3.Retry(5, 0, 0), timeout=REACH_S) as pool:
        asked = {"Range": f"bytes={came}-"} if came else {}
        reply = pool.request("GET", url, headers=asked, preload_content=False)
        if reply.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it was here
        if reply.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise Unavailable(f"{url} was answered with status {reply.status}")
        with part.open("ab" if reply.status == HTTPStatus.PARTIAL_CONTENT else "wb") as file:
            file.writelines(reply.stream(BLOCK))
