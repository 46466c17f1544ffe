"""What each function needs, may reach and serves: the tables that CDK, packaging and tests read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from docstokg.contracts.routes import ROUTES as EVERY_ROUTE
from docstokg.contracts.routes import Route
from docstokg.domain.time_budget import net

ROOT = Path(__file__).parent.parent
PYTHON = "3.13"
SIZE_LIMIT_MB = 240
# What must not fire while traffic shifts; when it does, the alias goes back.
ROLLBACK_ALARMS = ("api5xx", "workflow-failed", "workflow-timed-out", "degraded")


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """Memory buys CPU (1,769 MB = one core); the timeout is the last net behind the ASL's own.

    `uses` names what the function reaches: each name is one grant and its settings. `concurrency`
    is the bulkhead of a steady load: one slow step must not eat the account's. `lock`: of the
    packages in its zip, in requirements/, where it shares another function's. `keeps`: which files
    of those packages stay in the zip, as globs; none named = all.
    """

    name: str
    memory_mb: int
    timeout_s: int
    uses: frozenset[str]
    concurrency: int = 50
    lock: str = ""
    keeps: tuple[str, ...] = ()

    @property
    def packages(self) -> str:
        """The name of its lock."""
        return self.lock or self.name

    @property
    def substitution(self) -> str:
        """The name the state machine file uses for it."""
        return f"{self.name.title()}Function"


def _spec(
    name: str, memory_mb: int, *uses: str, concurrency: int = 50, lock: str = ""
) -> FunctionSpec:
    timeout_s = net(name).function_s
    return FunctionSpec(name, memory_mb, timeout_s, frozenset(uses), concurrency, lock)


SPECS: tuple[FunctionSpec, ...] = (
    _spec("validate", 1024, "flags"),
    _spec("retrieve", 1769, "index", "embedder", "cache"),
    _spec("expand", 1769, "graph", "circuit"),
    _spec("ground", 1769, "index", "reranker"),
    _spec("synthesize", 1769, "model"),
    _spec("respond", 1769, "index", "graph", "embedder", "cache", "circuit", "trace"),
    _spec("traverse", 1769, "index", "graph", "embedder", "circuit", "flags", concurrency=20),
    _spec("check", 1769, "index", "graph", "embedder", "circuit", "flags", concurrency=20),
    _spec("mcp", 1024, "workflow", "cursor", concurrency=20),
    _spec("documents", 1024, "index", "cursor", concurrency=10, lock="ground"),
    _spec("health", 512, "index", "graph", concurrency=5),
    _spec("authorize", 512, "tokens"),
    _spec("record", 512, "graph_writer", concurrency=5),
)

PAGE = FunctionSpec(
    "page",
    256,
    net("page").function_s,
    frozenset(),
    concurrency=10,
    keeps=(
        "swagger_ui_bundle/__init__.py",
        "swagger_ui_bundle/vendor/*/swagger-ui.css",
        "swagger_ui_bundle/vendor/*/swagger-ui-bundle.js",
        "swagger_ui_bundle-*.dist-info/*",
    ),
)
"""Only where an environment has the page (infra/page.py); it uses nothing, not even our layer."""


ROUTES: tuple[Route, ...] = tuple(route for route in EVERY_ROUTE if route.deployed)


def packaged() -> tuple[FunctionSpec, ...]:
    """Everything that is built into a zip, also what not every environment has."""
    return (*built(), PAGE)


def built(root: Path = ROOT) -> tuple[FunctionSpec, ...]:
    """The functions whose handler exists; a route that is not built is not in the template."""
    return tuple(
        spec for spec in SPECS if (root / "functions" / spec.name / "handler.py").is_file()
    )
