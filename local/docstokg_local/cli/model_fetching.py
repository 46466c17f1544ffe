"""Encoder file download, pinned by hash."""

from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import urllib3

from docstokg.errors import Misconfigured, Unavailable, WrongAnswer
from docstokg_local.cli.model_files import has_hash

REACH_S = 30.0
BLOCK = 1 << 16


def fetch_file(url: str, sha256: str, folder: Path) -> Path:
    """Download a file of another encoder into its folder, unless present; return its path.

    Raises `Unavailable`, `WrongAnswer`, `Misconfigured`. The next call continues a partial
    download; only a file with this hash gets its final name.
    """
    target = folder / Path(urlsplit(url).path).name
    part = target.with_name(f"{target.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not has_hash(target, sha256):
            _go_on(url, part)
            if not has_hash(part, sha256):
                part.unlink()
                raise WrongAnswer(
                    f"{url} does not have the given SHA-256; the download was deleted"
                )
            part.replace(target)
    except urllib3.exceptions.HTTPError as away:
        size = part.stat().st_size if part.is_file() else 0
        raise Unavailable(
            f"{url} could not be downloaded ({type(away).__name__}), {size:,} bytes are kept; run "
            f"the command again to continue, or copy the file from another machine to {target}"
        ) from away
    except OSError as broken:
        raise Misconfigured(f"cannot write {target}: {broken.strerror}") from broken
    return target


def _go_on(url: str, part: Path) -> None:
    size = part.stat().st_size if part.is_file() else 0
    with urllib3.PoolManager(retries=urllib3.Retry(5, 0, 0), timeout=REACH_S) as pool:
        headers = {"Range": f"bytes={size}-"} if size else {}
        reply = pool.request("GET", url, headers=headers, preload_content=False)
        if reply.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # already complete
        if reply.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise Unavailable(f"{url}: the server responded with status {reply.status}")
        with part.open("ab" if reply.status == HTTPStatus.PARTIAL_CONTENT else "wb") as file:
            file.writelines(reply.stream(BLOCK))
