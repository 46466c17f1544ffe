"""OpenSearch layout."""

import json
from importlib import resources
from typing import Any, NamedTuple

from docstokg.domain.vectors import unpack
from docstokg.errors import Misconfigured

Json = dict[str, Any]


class Shards(NamedTuple):
    """Primary shards of an index, and replicas of each; None: one if there is a second node."""

    primaries: int = 1
    replicas: int | None = None

    def settings(self) -> Json:
        """Return the settings of a new index."""
        return {"number_of_shards": self.primaries, **self.copies()}

    def copies(self) -> Json:
        """Return the settings that can be changed later."""
        if self.replicas is None:
            return {"auto_expand_replicas": "0-1"}
        return {"auto_expand_replicas": False, "number_of_replicas": self.replicas}


# 3: headings (twice) and options are searched, sentences have vectors; 2: titles three times.
TEMPLATE_VERSION = 3


# Slower questions and bulk requests are logged, if the service delivers slow logs.
SLOW_LOGS: Json = {
    "search.slowlog.threshold.query.warn": "1s",
    "search.slowlog.threshold.fetch.warn": "1s",
    "indexing.slowlog.threshold.index.warn": "10s",
    "indexing.slowlog.source": "false",
}
# Facet key of non-English chunks.
LANGUAGE = "language"


def facts_alias(name: str) -> str:
    """Return the alias of the facts of a chunk index."""
    return f"{name}-facts"


def index_name(name: str, kind: str, number: int) -> str:
    """Return the name of an alias's index; `number` counts its rebuilds."""
    return f"{name}-{kind}-v{TEMPLATE_VERSION}-{number:06d}"


def index_behind(mapping: Json) -> str:
    """Return the only index in an alias's mapping; raise `Misconfigured` unless there is one."""
    if len(mapping) != 1:
        raise Misconfigured(f"one alias stands for several indices: {', '.join(sorted(mapping))}")
    return str(next(iter(mapping)))


def template() -> Json:
    """Return settings and mappings of both indices and a vector field."""
    text = resources.files(__package__).joinpath(f"index.v{TEMPLATE_VERSION}.json")
    loaded: Json = json.loads(text.read_text("utf-8"))
    return loaded


def index_settings(kind: str, shards: Shards) -> Json:
    """Return the settings of a new index of one kind: chunks, facts or documents."""
    settings = template().get(kind, {}).get("settings", {}).get("index", {})
    return {"index": {**settings, **SLOW_LOGS, **shards.settings()}}


def feature_name(token: str) -> str:
    """Escape "%" and "." of a token for a field name; "" becomes "%00"."""
    return token.replace("%", "%25").replace(".", "%2E") or "%00"


def token_of(name: str) -> str:
    """Reverse `feature_name`."""
    return "" if name == "%00" else name.replace("%2E", ".").replace("%25", "%")


def numbers(vector: bytes) -> list[float]:
    """Return the components with 9 digits, which preserve float32."""
    return [float(f"{value:.9g}") for value in unpack(vector).tolist()]
