"""Common options and JSON files."""

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
    **options: Any,
) -> Any:
    """Return a typer option; `value` is the placeholder of its value in the help."""
    return typer.Option(default, name, *short, metavar=value, help=about or None, **options)


def flag(name: str, about: str, **options: Any) -> Any:
    """Return a Boolean typer option."""
    return typer.Option(False, name, help=about, **options)


def argument(value: str, about: str | None = None, **options: Any) -> Any:
    """Return a typer argument; `value` is its placeholder in the help."""
    return typer.Argument(metavar=value, help=about, **options)


def check_namespace(namespace: str | None) -> str | None:
    """Return a valid namespace or None; raise `typer.BadParameter` for an invalid one."""
    from docstokg.contracts.request import NAMESPACE_PATTERN

    if namespace is not None and not re.match(NAMESPACE_PATTERN, namespace):
        rule = "use at most 63 lower-case letters, digits, - and _, the first a letter or digit"
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
        show_default="the index if it is sqlite",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Namespace (tenant): lower-case letters, digits, - and _.",
        callback=check_namespace,
    ),
]
NamespaceOrNone = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Namespace (tenant).",
        show_default="`default` if it is not empty, else the only one that is not",
        callback=check_namespace,
    ),
]
NamespaceNamed = Annotated[str, argument("NS", "The namespace.", callback=check_namespace)]


def wiring_of(
    index: str | None, graph: str | None, *, verbose: bool = True, log: bool = True
) -> "Wiring":
    """Return the wiring; `verbose` prints a default store and missing model files.

    `log`: log errors without DOCSTOKG_LOG_LEVEL, too. Raises `Misconfigured` for invalid settings.
    """
    from docstokg.observability import Telemetry
    from docstokg.wiring import Wiring

    settings = settings_of(index, graph, name_store=verbose)
    if verbose:
        from docstokg_local.cli.model_files import tell_when_missing

        tell_when_missing(settings.embed_provider)
    # Request log lines are for servers; a command prints its result instead.
    is_explicit = "DOCSTOKG_LOG_LEVEL" in os.environ
    level = settings.log_level if is_explicit else "ERROR"
    telemetry = Telemetry(level=level, reveal=settings.rag_log_snippets)
    if not log and not is_explicit:
        telemetry = Telemetry(write=lambda line: None)
    return Wiring(settings, telemetry)


def text_file(path: Path) -> str:
    """Read a text file, or standard input (`-`); raise `LoadError` if it is unreadable."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except OSError as broken:
        raise LoadError(f"{path}: {broken.strerror}") from broken
    except UnicodeDecodeError as broken:
        raise LoadError(f"{path} is not UTF-8: {broken}") from broken


def json_file[Kind: (dict[str, Any], list[Any])](path: Path, kind: type[Kind]) -> Kind:
    """Read a JSON object or list from a file, or standard input (`-`).

    Raise `LoadError` for others.
    """
    try:
        value = json.loads(text_file(path), object_pairs_hook=_object, parse_constant=_no_number)
    except (ValueError, RecursionError) as broken:
        raise LoadError(f"{path} is not JSON: {broken}") from broken
    if not isinstance(value, kind):
        raise LoadError(f"{path} is not a JSON {'object' if kind is dict else 'list'}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} is repeated")
    return mapping


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
