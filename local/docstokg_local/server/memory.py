"""How the server's memory is kept from growing with the number of its threads."""

import ctypes
import platform

M_ARENA_MAX = -8  # glibc's malloc.h
ARENAS = 2


def few_arenas() -> bool:
    """Let all threads share two heaps of the C library; whether it was told so.

    By itself glibc gives eight for each core, and what a question frees in one of them no other
    thread can use: a server at half capacity grew by 1.7 MB a minute, without end. Python's lock
    lets few threads allocate at once, so two cost nothing. Before the first thread begins, or the
    heaps that are there stay. Other C libraries have no such setting and nothing is done.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS))
