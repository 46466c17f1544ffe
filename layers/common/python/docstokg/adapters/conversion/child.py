"""Child process: converts each file in a fork without files or sockets.

Standard input: `{"task", "suffix", "size"}` plus `size` bytes; replies likewise. Tasks: `convert`;
`draw` and `read` one `page` of a PDF.
"""

import base64
import codecs
import contextlib
import encodings
import io
import json
import logging
import os
import pkgutil
import resource
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from docstokg.adapters.conversion.formats import FORMATS, convert
from docstokg.contracts import Json
from docstokg.contracts.file_types import SUFFIXES
from docstokg.contracts.outline import Block, Outline
from docstokg.errors import LoadError

# Memory limit beyond the memory already in use.
MEMORY_BYTES = 512 * 1024 * 1024

READ_CPU_S = 30
# Limits per scanned page: a full A4 page takes 5 s and 470 MB, 60 MB of it models.
READ_BYTES = 1024 * 1024 * 1024

# Converting these opens the files that converters load lazily.
_SAMPLES = {
    ".html": b"<title>t</title><h1>a</h1><ul><li>b</li></ul><table><tr><td>c</table>",
    ".csv": b"a,b\n1,2\n",
    ".json": b'{"text": "# a"}',
    ".ipynb": b'{"cells": [{"cell_type": "markdown", "source": "# a"}]}',
    ".pdf": (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[4 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Length 32>>stream\nBT /F1 12 Tf 7 7 Td (Text) Tj ET\nendstream endobj\n"
        b"4 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 3 0 R/Resources<</Font<</F1"
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
        b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n9\n%%EOF"
    ),
    ".txt": "caf\xe9 d\xe9j\xe0 vu".encode("latin-1"),
    ".eml": (
        b"From: A <a@b.c>\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: =?utf-8?q?d=C3=A9?=\n"
        b'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: text/plain;'
        b" charset=iso-8859-1\nContent-Transfer-Encoding: base64\n\nYQ==\n--x\n"
        b'Content-Disposition: attachment; filename="a"\n\nb\n--x--\n'
    ),
}


def serve(requests: BinaryIO, answers: BinaryIO, cpu_s: int) -> None:
    """Answer requests until the input ends, failures as `refused`.

    A conversion may use `cpu_s` of CPU.
    """
    logging.disable()  # Library warnings do not belong in the log
    prepared: set[str] = set()
    while line := requests.readline():
        request = json.loads(line)
        suffix, raw = request["suffix"], requests.read(request["size"])
        if suffix not in prepared:
            _prepare(suffix)
            prepared.add(suffix)
        limits = cpu_s, _available(MEMORY_BYTES)
        if request["task"] == "read":
            from docstokg.adapters.conversion.pdf_scan import reader

            reader()
            limits = READ_CPU_S, _available(READ_BYTES)
        answer = _forked(partial(_done, request, raw), *limits, requests)
        answers.write(json.dumps({"size": len(answer)}).encode() + b"\n" + answer)
        answers.flush()


def _prepare(suffix: str) -> None:
    kind = SUFFIXES.get(suffix.removesuffix(".gz"), suffix.removesuffix(".gz"))
    holds_others = FORMATS[kind][0] == "convert_archive" or suffix != kind
    for sample_kind in (
        FORMATS if kind == ".zip" else (kind, ".eml", ".html") if holds_others else (kind,)
    ):
        # A missing package rejects each such file later.
        with contextlib.suppress(LoadError, ImportError):
            convert(sample_kind, _SAMPLES.get(sample_kind, b"# a\n\n- b\n"))
    # Without charset-normalizer such texts are rejected.
    with contextlib.suppress(LoadError):
        convert(".txt", "Привет, мир. Как дела сегодня?".encode("cp1251"))
    for module in pkgutil.iter_modules(encodings.__path__):
        with contextlib.suppress(LookupError, ImportError):  # Windows-only codecs
            codecs.lookup(module.name)


def _forked(work: Callable[[], Any], cpu_s: int, memory_bytes: int, requests: BinaryIO) -> bytes:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            with os.fdopen(writer, "wb") as out:
                _limit(cpu_s, memory_bytes)
                out.write(_answered(work, memory_bytes))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    answer = _read(reader, child, requests)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        signal_number = os.WTERMSIG(status)
        if signal_number in (signal.SIGXCPU, signal.SIGKILL):
            return _refusal(f"conversion took longer than {cpu_s} s")
        return _refusal(f"the converter crashed (signal {signal_number})")
    if os.WEXITSTATUS(status) or not answer:
        return _refusal(f"the converter failed or needed more than {memory_bytes >> 20} MB")
    return answer


def _read(reader: int, child: int, requests: BinaryIO) -> bytes:
    watch = select.poll()
    watch.register(reader, select.POLLIN)
    watch.register(requests, 0)  # a closed pipe is reported without a flag
    parts: list[bytes] = []
    with os.fdopen(reader, "rb", 0) as result:
        while True:
            if any(file != reader for file, _ in watch.poll()):
                os.kill(child, signal.SIGKILL)
                return b""
            if not (part := result.read(1 << 16)):
                return b"".join(parts)
            parts.append(part)


def _available(limit_bytes: int) -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or sys.platform != "linux":
        return limit_bytes
    return max(0, min(limit_bytes, hard - _used()))


def _used() -> int:
    pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    return pages * resource.getpagesize()


def _limit(cpu_s: int, memory_bytes: int) -> None:
    if sys.platform == "linux":  # macOS cannot limit the address space
        size = _used() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _done(request: Json, raw: bytes) -> Json:
    if (task := request["task"]) == "convert" and "readings" not in request:
        return {"documents": convert(request["suffix"], raw)}
    from docstokg.adapters.conversion import convert_pdf
    from docstokg.adapters.conversion.pdf_scan import read

    if task == "draw":
        return {"picture": base64.b64encode(convert_pdf.render(raw, request["page"])).decode()}
    if task == "read":
        return {"lines": read(convert_pdf.opened(raw)[request["page"] - 1])}
    return {"documents": [convert_pdf.convert(raw, request["readings"])]}


def _answered(work: Callable[[], Any], memory_bytes: int) -> bytes:
    try:
        # Keep library output out of the load's output.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            return json.dumps(work(), default=_plain).encode()
    except LoadError as refused:
        return _refusal(str(refused))
    except MemoryError:
        return _refusal(f"the converter needed more than {memory_bytes >> 20} MB of memory")
    except RecursionError:
        return _refusal("nested too deeply")
    except OSError as broken:
        return _refusal(f"the converter tried to open a file or socket ({broken.strerror})")
    except (Exception, SystemExit) as broken:  # noqa: BLE001 - a hostile file can raise any error
        return _refusal(f"the converter failed ({type(broken).__name__})")


def _refusal(reason: str) -> bytes:
    return json.dumps({"refused": reason}).encode()


def _plain(value: Outline | Block) -> Json:
    return {name: getattr(value, name) for name in value.__slots__}


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the requester was killed
        serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
