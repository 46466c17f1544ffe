"""Sandboxed conversion."""

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, get_args

from docstokg.adapters.conversion.formats import installed_versions
from docstokg.contracts import Json
from docstokg.contracts.outline import SCANNED, Block, BlockKind, Outline, Place
from docstokg.errors import LoadError, Timeout, Unavailable

# Default time limit of a conversion, above its CPU limit for busy machines.
WALL_S = 600.0

# Maximum scanned pages per file: 40 minutes on one core.
MOST_SCANNED = 500

KINDS = frozenset(get_args(BlockKind))


class ChildConverter:
    """A `Converter` whose process runs from the first use until `close()`.

    `cpu_s`, `wall_s`: limits of a conversion in seconds. `scanned`: maximum scanned pages read per
    file.
    """

    def __init__(
        self, cpu_s: int = 60, scanned: int = MOST_SCANNED, wall_s: float = WALL_S
    ) -> None:
        self._cpu_s, self._wall_s = cpu_s, wall_s
        self._scanned = scanned if find_spec("rapidocr") else 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._versions = installed_versions()

    @property
    def versions(self) -> Mapping[str, str]:
        """Map each readable suffix to its reader and version."""
        return self._versions

    def convert(self, suffix: str, raw: bytes) -> tuple[Outline, ...]:
        """Read one file.

        Raise `LoadError` with the reason, `Timeout` after `wall_s`, `Unavailable` if the process
        ends.
        """
        documents = self._asked("convert", suffix, raw)["documents"]
        if suffix == ".pdf" and documents[0]["scanned"]:
            if readings := self._readings(documents[0]["scanned"], raw):
                documents = self._asked("convert", suffix, raw, readings=readings)["documents"]
            if not documents[0]["text"].strip():
                raise LoadError(f"has no text layer ({SCANNED})")
        return tuple(_outline(document) for document in documents)

    def _readings(self, pages: list[int], raw: bytes) -> dict[int, list[Any]]:
        readings: dict[int, list[Any]] = {}
        with contextlib.suppress(LoadError):
            for page in pages[: self._scanned]:
                readings[page] = self._asked("read", ".pdf", raw, page=page)["lines"]
        return readings

    def draw(self, raw: bytes, page: int) -> bytes:
        """Return a page (from 1) of a PDF as PNG; errors as in `convert`."""
        return base64.b64decode(self._asked("draw", ".pdf", raw, page=page)["picture"])

    def _asked(self, task: str, suffix: str, raw: bytes, **fields: Any) -> Json:
        head = {"task": task, "suffix": suffix, "size": len(raw), **fields}
        with self._lock:
            answer: Json = json.loads(self._exchange(head, raw))
        if "refused" in answer:
            raise LoadError(str(answer["refused"]))
        return answer

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process:
            _end(process)

    def _exchange(self, head: Json, raw: bytes) -> bytes:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        # Pipe reads have no timeout; killing the process ends them.
        alarm = threading.Timer(self._wall_s, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps(head).encode() + b"\n" + raw)
            process.stdin.flush()
            size = json.loads(process.stdout.readline())["size"]
            answer = process.stdout.read(size)
        except (OSError, ValueError) as broken:
            process.kill()
            self.close()
            if not alarm.is_alive():
                raise Timeout(f"conversion took longer than {self._wall_s:.0f} s") from broken
            raise Unavailable("the document converter process ended") from broken
        finally:
            alarm.cancel()
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            paths = os.pathsep.join(path for path in sys.path if path)
            self._process = subprocess.Popen(  # noqa: S603 - our own module and a number
                [sys.executable, "-m", "docstokg.adapters.conversion.child", str(self._cpu_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"PYTHONPATH": paths, "PATH": os.defpath, "LANG": "C.UTF-8"},
            )
            weakref.finalize(self, _end, self._process)
        return self._process


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.wait()
    process.stdout.close()


def _outline(reply: Json) -> Outline:
    text = reply["text"]
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    changes = {
        "text": text.replace("\0", "\ufffd"),
        "blocks": _blocks(reply["blocks"], 0, len(text)),
        "title": reply["title"].replace("\0", ""),
        "acl": tuple(reply["acl"]),
        "places": tuple(Place(*map(int, place)) for place in reply["places"]),
        "scanned": tuple(map(int, reply["scanned"])),
        "notes": tuple(map(str, reply["notes"])),
    }
    return Outline(**(reply | changes))


def _blocks(reply: list[Json], low: int, high: int) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for entry in reply:
        start, end = entry["start"], entry["end"]
        if entry["kind"] not in KINDS or not low <= start <= end <= high:
            raise LoadError("the converter returned invalid offsets")
        changes = {
            "children": _blocks(entry["children"], start, end),
            "label": entry["label"].replace("\0", ""),
        }
        blocks.append(Block(**(entry | changes)))
        low = end
    return tuple(blocks)
