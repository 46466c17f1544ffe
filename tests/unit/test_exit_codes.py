"""A command ends with its own exit code, whatever it left behind."""

import subprocess
import sys

import pytest

from tests.builders import ran

# What a native library does whose thread is still at work when the interpreter is taken apart.
LEFT_BEHIND = """
import atexit, os, sys, threading, time
from docstokg_local.cli.exit_codes import leave
class Native:
    def __del__(self):
        if threading.active_count() > 1:
            os.abort()
sys.modules["native"] = Native()
atexit.register(lambda: print("last words"))
if {left}:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("said")
{end}
"""


def run_to_end(end: str, *, has_leftover: bool) -> subprocess.CompletedProcess[str]:
    code = LEFT_BEHIND.format(end=end, left=has_leftover)
    return ran(sys.executable, "-c", code, timeout=60)


@pytest.mark.parametrize("has_leftover", [False, True])
def test_the_code_is_ours_and_everything_is_said(has_leftover: bool) -> None:
    done = run_to_end("leave(3)", has_leftover=has_leftover)
    assert (done.returncode, done.stdout) == (3, "said\nlast words\n"), done.stderr


def test_an_abandoned_call_would_otherwise_abort_the_process() -> None:
    assert run_to_end("raise SystemExit(3)", has_leftover=True).returncode == -6
