"""Counted in separate processes: memory of a thread stays allocated to its process."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docstokg_local.server.serving import ARENAS

COUNT = """
import ctypes, sys, threading
from docstokg_local.server.serving import few_arenas
if sys.argv[2] == "few":
    few_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]
together = threading.Barrier(12)
def work():
    together.wait()
    kept = [libc.malloc(5000) for _ in range(50)]
    together.wait()
    for one in kept:
        libc.free(one)
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = libc.fopen(sys.argv[1].encode(), b"w")
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps(folder: Path, how: str) -> int:
    """Count the heaps of a process in which twelve threads asked for memory at once."""
    report = folder / "heaps.xml"
    subprocess.run([sys.executable, "-c", COUNT, str(report), how], check=True)
    return len(re.findall(r"<heap nr=", report.read_text()))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_twelve_threads_share_two_heaps(tmp_path: Path) -> None:
    assert heaps(tmp_path, "few") <= ARENAS
    assert heaps(tmp_path, "as it comes") > ARENAS
