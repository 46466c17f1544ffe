"""Options of most commands: stores, namespace, JSON files."""

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstokg.errors import LoadError
from docstokg_local.cli.stores import settings_of

if TYPE_CHECKING:
    from docstokg.wiring import Wiring


def option(
    name: str,
    about: str = "",
    value: str | None = None,
    *short: str,
    default: Any = None,
    **more: Any,
) -> Any:
    """Describe an option: what it does, and the word that stands for its value."""
    return typer.Option(default, name, *short, metavar=value, help=about or None, **more)


def flag(name: str, about: str, **more: Any) -> Any:
    """Describe an option that is set or not."""
    return typer.Option(False, name, help=about, **more)


def argument(value: str, about: str | None = None, **more: Any) -> Any:
    """Describe an argument, by the word that stands for it."""
    return typer.Argument(metavar=value, help=about, **more)


def check_namespace(namespace: str | None) -> str | None:
    """Refuse what no namespace can be called, as wrong usage."""
    from docstokg.contracts.request import NAMESPACE_PATTERN

    if namespace is not None and not re.match(NAMESPACE_PATTERN, namespace):
        rule = "small letters, digits, - and _, at most 63, the first no sign"
        raise typer.BadParameter(f"namespace {namespace!r}: {rule}", param_hint="--namespace")
    return namespace


Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="URL",
        help="Index: sqlite:///PATH, http(s):// OpenSearch. [env: DOCSTOKG_INDEX_URL]",
        show_default=".docstokg/ of this folder, else the user's data folder",
    ),
]
Graph = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="URL",
        help="Graph: sqlite:///PATH, neo4j://, neo4j+s:// or bolt://. [env: DOCSTOKG_GRAPH_URL]",
        show_default="the index, when that is sqlite",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Tenant: small letters, digits, - _.",
        callback=check_namespace,
    ),
]
NamespaceOrNone = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Namespace of the sources.",
        show_default="default; with --source: none",
        callback=lambda name: None if name is None else check_namespace(name),
    ),
]
NamespaceNamed = Annotated[str, argument("NS", "The namespace.", callback=check_namespace)]


def wiring_of(
    index: str | None, graph: str | None, *, aloud: bool = True, log: bool = True
) -> "Wiring":
    """Connect to the stores; `aloud` names them where nobody did.

    Without `log` no line is written unless DOCSTOKG_LOG_LEVEL asks for it: the command itself
    says what went wrong.
    """
    from docstokg.observability import Telemetry
    from docstokg.wiring import Wiring

    settings = settings_of(index, graph, name_store=aloud)
    if aloud:
        from docstokg_local.cli.model_files import tell_when_missing

        tell_when_missing(settings.embed_provider)
    # A request's log line belongs to a server; a command shows its own result instead.
    is_explicit = "DOCSTOKG_LOG_LEVEL" in os.environ
    level = settings.log_level if is_explicit else "ERROR"
    telemetry = Telemetry(level=level, reveal=settings.rag_log_snippets)
    if not log and not is_explicit:
        telemetry = Telemetry(write=lambda line: None)
    return Wiring(settings, telemetry)


def text_file(path: Path) -> str:
    """Read a file, or a pipe (`-`); `LoadError` says what is wrong."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except OSError as broken:
        raise LoadError(f"{path}: {broken.strerror}") from broken
    except UnicodeDecodeError as broken:
        raise LoadError(f"{path} is not UTF-8: {broken}") from broken


def json_file(path: Path) -> dict[str, Any]:
    """Read an object from a file, or a pipe (`-`); `LoadError` says what is wrong."""
    try:
        value = json.loads(text_file(path))
    except ValueError as broken:
        raise LoadError(f"{path} is not JSON: {broken}") from broken
    if not isinstance(value, dict):
        raise LoadError(f"{path} is not a JSON object")
    return value
