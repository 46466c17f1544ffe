"""Error messages and exit codes."""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from docstokg.errors import DocsToKGError, LoadError, Misconfigured
from docstokg_local.cli.printing import echo

DONE, NOT_GOOD, WRONG_USAGE, NOT_VERIFIED = 0, 1, 2, 3


def run(command: Callable[..., Any], arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; print a product error as one message.

    2: `LoadError`, `Misconfigured`; 1: other product errors; 130: interrupted.
    """
    try:
        command(args=arguments, standalone_mode=True)
        code = DONE
    except SystemExit as done:
        code = int(done.code) if isinstance(done.code, int) else WRONG_USAGE
    except DocsToKGError as failed:
        echo(f"docstokg: {failed}", err=True)
        code = WRONG_USAGE if isinstance(failed, (LoadError, Misconfigured)) else NOT_GOOD
    except KeyboardInterrupt:
        echo("docstokg: interrupted", err=True)
        code = 130
    except BrokenPipeError:
        return _reader_gone()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    # Typer handles a closed pipe itself, with this wrapper and exit code 1.
    return DONE if type(sys.stdout).__name__ == "PacifyFlushWrapper" else code


def finish(is_good: bool) -> NoReturn:
    """End a command with exit code 0 or 1."""
    raise typer.Exit(DONE if is_good else NOT_GOOD)


def _reader_gone() -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def leave(code: int) -> NoReturn:
    """Exit with a code even if an abandoned call still runs in a daemon thread."""
    if not any(thread.daemon for thread in threading.enumerate()):
        raise SystemExit(code)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
