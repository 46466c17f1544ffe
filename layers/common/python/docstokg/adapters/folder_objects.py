"""Folder object store."""

import contextlib
import hashlib
import heapq
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from docstokg.errors import Misconfigured
from docstokg.ports import StoredObject

PAGE = 1000
# Folder of unfinished writes; not part of the store.
UNFINISHED = ".unfinished"


class FolderObjects:
    """An `ObjectStore` on a local folder.

    The ETag is the content's MD5. Unlike in S3, writing both `a` and `a/b` raises OSError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._etags: dict[tuple[str, int, int], str] = {}
        try:
            (folder / UNFINISHED).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"{folder} cannot hold objects: {error}") from error

    def list(self, prefix: str, after: str = "") -> Sequence[StoredObject]:
        """Return at most 1,000 objects below `prefix` after the key `after`, in byte order."""
        above = os.fsencode(after)
        keys = (key for key in self._keys(prefix) if os.fsencode(key) > above)
        page = heapq.nsmallest(PAGE, keys, key=os.fsencode)
        return [stored for key in page if (stored := self._stored(key))]

    def get(self, key: str) -> bytes:
        """Return an object; raise KeyError if it is missing."""
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as absent:
            raise KeyError(key) from absent

    def put(self, key: str, body: bytes) -> None:
        """Write an object atomically; raise KeyError for an invalid key, like `a//b`."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        file, name = tempfile.mkstemp(dir=self._folder / UNFINISHED)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(body)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)

    def delete(self, key: str) -> None:
        """Remove an object if it exists; its folders stay; raise KeyError for an invalid key."""
        # Below an object there are no objects, as in S3.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in key or parts[0] == UNFINISHED:
            raise KeyError(key)
        return self._folder.joinpath(*parts)

    def _keys(self, prefix: str) -> Iterator[str]:
        within, _, _ = prefix.rpartition("/")
        top = self._folder if not within else self._path(within)
        for folder, folders, files in os.walk(top):
            if Path(folder) == self._folder and UNFINISHED in folders:
                folders.remove(UNFINISHED)
            start = Path(folder).relative_to(self._folder).as_posix()
            for file in files:
                key = file if start == "." else f"{start}/{file}"
                if key.startswith(prefix):
                    yield key

    def _stored(self, key: str) -> StoredObject | None:
        path = self._path(key)
        try:
            about = path.stat()
            version = (key, about.st_size, about.st_mtime_ns)
            if version not in self._etags:
                with path.open("rb") as opened:
                    digest = hashlib.file_digest(opened, lambda: hashlib.md5(usedforsecurity=False))
                self._etags[version] = digest.hexdigest()
        except FileNotFoundError:
            return None
        return StoredObject(key, about.st_size, self._etags[version], about.st_mtime)
