"""Function specifications."""

import re
from pathlib import Path
from typing import NamedTuple

from docstokg.contracts.routes import Route
from docstokg.domain.time_budget import net

ROOT = Path(__file__).parent.parent
PYTHON = "3.13"
# Import name of functions/ in repository, wheels and zips.
IMPORT_NAME = "docstokg_functions"
SIZE_LIMIT_MB = 240
# Reserved for AppConfig's agent, a layer of unpublished size.
AGENT_MB = 20
# Alarms that roll back the alias while traffic shifts.
ROLLBACK_ALARMS = (
    "api5xx",
    "workflow-failed",
    "workflow-crashed",
    "workflow-timed-out",
    "degraded",
)
# Per cent of degraded answers over which the alarm `degraded` fires.
MOST_DEGRADED = 5


class FunctionSpec(NamedTuple):
    """Resources of a function. Memory sets CPU (1,769 MB = one core).

    `timeout_s`: after the state machine's own. `uses`: dependencies, each with a grant and
    settings. `lock`: name in requirements/, if shared. `keeps`: globs of the package files in the
    zip; none = all. An underscore in the name is a subfolder.
    """

    name: str
    memory_mb: int
    timeout_s: int
    uses: frozenset[str]
    lock: str = ""
    keeps: tuple[str, ...] = ()
    storage_mb: int = 512

    @property
    def folder(self) -> Path:
        """Return the folder of its code in the repository."""
        return Path("functions", *self.name.split("_"))

    @property
    def package(self) -> Path:
        """Return the folder of its code in its zip."""
        return Path(IMPORT_NAME, *self.name.split("_"))

    @property
    def handler(self) -> str:
        """Return Lambda's handler name."""
        return ".".join((*self.package.parts, "handler", "handler"))

    @property
    def title(self) -> str:
        """Return its name in construct ids."""
        return self.name.title().replace("_", "")

    @property
    def loads(self) -> bool:
        """Return whether it is a stage of loading."""
        return self.name.startswith("ingest_")

    @property
    def packages(self) -> str:
        """Return the name of its lock."""
        return self.lock or self.name

    @property
    def substitution(self) -> str:
        """Return its substitution name in the state machine file."""
        return f"{self.title}Function"


def _spec(name: str, memory_mb: int, *uses: str, lock: str = "") -> FunctionSpec:
    timeout_s = net(name).function_s
    return FunctionSpec(name, memory_mb, timeout_s, frozenset(uses), lock)


def _stage(
    name: str, memory_mb: int, timeout_s: int, *uses: str, storage_mb: int = 512, lock: str = ""
) -> FunctionSpec:
    return FunctionSpec(
        f"ingest_{name}", memory_mb, timeout_s, frozenset(uses), lock, storage_mb=storage_mb
    )


SPECS: tuple[FunctionSpec, ...] = (
    _spec("validate", 1024, "flags"),
    _spec("retrieve", 1769, "index", "embedder", "cache"),
    _spec("expand", 1769, "graph", "circuit"),
    _spec("ground", 1769, "index", "reranker", "tells"),
    _spec("synthesize", 1769, "model", "tells"),
    _spec("respond", 1769, "index", "graph", "embedder", "verifier", "cache", "circuit", "trace"),
    _spec("traverse", 1769, "index", "graph", "embedder", "circuit", "flags"),
    _spec("check", 1769, "index", "graph", "embedder", "verifier", "circuit", "flags"),
    _spec("mcp", 1024, "workflow", "flags"),
    _spec("stream", 1769, "streams", "graph", "embedder", "circuit", lock="respond"),
    _spec("documents", 1024, "index", "intake", lock="ground"),
    _spec("health", 512, "index", "graph"),
    _spec("authorize", 512, "tokens"),
    _spec("record", 512, "graph_writer"),
)

# Only for environments with the page; it has no layer and no rights.
PAGE = FunctionSpec(
    "page",
    256,
    net("page").function_s,
    frozenset(),
    keeps=(
        "swagger_ui_bundle/__init__.py",
        "swagger_ui_bundle/vendor/*/swagger-ui.css",
        "swagger_ui_bundle/vendor/*/swagger-ui-bundle.js",
        "swagger_ui_bundle-*.dist-info/*",
    ),
)


_STORES = ("intake", "loader", "graph_loader", "embedder")

# Stages of the load machine, in order.
STAGES: tuple[FunctionSpec, ...] = (
    # Untrusted files: no credentials, no stores, no way out of a VPC.
    _stage("read", 2048, 300, "intake"),
    _stage("encode", 3008, 900, "intake", "embedder"),
    _stage("names", 1769, 900, "intake"),
    # These stages embed entity names. A chunk takes 1.5 kB of disk with text and a third without, a
    # name 1.6 kB of memory: two million and one million fit (docs/operations.md, how large a load).
    _stage("resolve", 3008, 900, *_STORES, storage_mb=10240),
    _stage("write", 3008, 900, *_STORES, storage_mb=4096, lock="ingest_resolve"),
    _stage("close", 3008, 900, *_STORES, storage_mb=4096, lock="ingest_resolve"),
)

# Functions of every environment.
FUNCTIONS = (*SPECS, *STAGES)
# All functions with a zip, including optional ones.
PACKAGED = (*FUNCTIONS, PAGE)


def gateway_path(route: Route) -> str:
    """Return a route's path in the gateway's syntax; `doc_id` and `model` may contain slashes."""
    return re.sub(r"\{(doc_id|model)\}", r"{\1+}", route.path)
