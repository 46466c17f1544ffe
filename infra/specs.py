"""What each function needs, may reach and serves: the tables that CDK, packaging and tests read."""

from dataclasses import dataclass
from pathlib import Path

from docstokg.contracts.routes import Route
from docstokg.domain.time_budget import net

ROOT = Path(__file__).parent.parent
PYTHON = "3.13"
IMPORT_NAME = "docstokg_functions"
"""Of the folder functions/, in the repository, in wheels and in the zips."""
SIZE_LIMIT_MB = 240
AGENT_MB = 20
"""Of that, what is set aside for AppConfig's agent, a layer whose size AWS does not state."""
# What must not fire while traffic shifts; when it does, the alias goes back.
ROLLBACK_ALARMS = (
    *("api5xx", "workflow-failed", "workflow-crashed", "workflow-timed-out", "degraded"),
)


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """Memory buys CPU (1,769 MB = one core); the timeout is the last net behind the ASL's own.

    `uses` names what the function reaches: each name is one grant and its settings. `concurrency`
    is the bulkhead of a steady load: one slow step must not eat the account's; 0 sets nothing
    aside. `lock`: of the packages in its zip, in requirements/, where it shares another function's.
    `keeps`: which files of those packages stay in the zip, as globs; none named = all. An
    underscore in the name is a folder below `functions/`.
    """

    name: str
    memory_mb: int
    timeout_s: int
    uses: frozenset[str]
    concurrency: int = 50
    lock: str = ""
    keeps: tuple[str, ...] = ()
    storage_mb: int = 512

    @property
    def folder(self) -> Path:
        """Of its code, below the repository."""
        return Path("functions", *self.name.split("_"))

    @property
    def package(self) -> Path:
        """Of its code, below its zip."""
        return Path(IMPORT_NAME, *self.name.split("_"))

    @property
    def handler(self) -> str:
        """What Lambda imports: the same name here and in the zip."""
        return ".".join((*self.package.parts, "handler", "handler"))

    @property
    def title(self) -> str:
        """Its name in the names of constructs."""
        return self.name.title().replace("_", "")

    @property
    def loads(self) -> bool:
        """Whether it is a stage of loading, which nobody waits for."""
        return self.name.startswith("ingest_")

    @property
    def packages(self) -> str:
        """The name of its lock."""
        return self.lock or self.name

    @property
    def substitution(self) -> str:
        """The name the state machine file uses for it."""
        return f"{self.title}Function"


def _spec(
    name: str, memory_mb: int, *uses: str, concurrency: int = 50, lock: str = ""
) -> FunctionSpec:
    timeout_s = net(name).function_s
    return FunctionSpec(name, memory_mb, timeout_s, frozenset(uses), concurrency, lock)


def _stage(
    name: str, memory_mb: int, timeout_s: int, *uses: str, storage_mb: int = 512, lock: str = ""
) -> FunctionSpec:
    """A stage of loading; how many run beside each other is the machine's to say."""
    return FunctionSpec(
        f"ingest_{name}", memory_mb, timeout_s, frozenset(uses), 0, lock, storage_mb=storage_mb
    )


SPECS: tuple[FunctionSpec, ...] = (
    _spec("validate", 1024, "flags"),
    _spec("retrieve", 1769, "index", "embedder", "cache"),
    _spec("expand", 1769, "graph", "circuit"),
    _spec("ground", 1769, "index", "reranker", "tells"),
    _spec("synthesize", 1769, "model", "tells"),
    _spec("respond", 1769, "index", "graph", "embedder", "verifier", "cache", "circuit", "trace"),
    _spec("traverse", 1769, "index", "graph", "embedder", "circuit", "flags", concurrency=20),
    _spec(
        "check", 1769, "index", "graph", "embedder", "verifier", "circuit", "flags", concurrency=20
    ),
    _spec("mcp", 1024, "workflow", "cursor", "flags", concurrency=20),
    _spec(
        "stream", 1769, "streams", "graph", "embedder", "circuit", concurrency=20, lock="respond"
    ),
    _spec("documents", 1024, "index", "cursor", "intake", concurrency=10, lock="ground"),
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


_STORES = ("intake", "loader", "graph_loader", "embedder")

STAGES: tuple[FunctionSpec, ...] = (
    # Converters read what anybody sent: no credential, no store, no way out of a VPC.
    _stage("read", 2048, 300, "intake"),
    _stage("encode", 3008, 900, "intake", "embedder"),
    _stage("names", 1769, 900, "intake"),
    # These three read the names of entities with the embedder.
    # On disk a chunk takes 1.5 kB with its text and a third of that without it, a name in memory
    # 1.6 kB: two million and a million fit (docs/operations.md, how large a load).
    _stage("resolve", 3008, 900, *_STORES, storage_mb=10240),
    _stage("write", 3008, 900, *_STORES, storage_mb=4096, lock="ingest_resolve"),
    _stage("close", 3008, 900, *_STORES, storage_mb=4096, lock="ingest_resolve"),
)
"""Of the machine that loads, in its order."""

FUNCTIONS = (*SPECS, *STAGES)
"""Of every environment."""
PACKAGED = (*FUNCTIONS, PAGE)
"""Everything that is built into a zip, also what not every environment has."""


def gateway_path(route: Route) -> str:
    """Give a route's path as the gateway is told it.

    A document's name may hold slashes, as %2F: whether the gateway reads them before it routes
    only an account can show, so its part of the path takes both.
    """
    return route.path.replace("{doc_id}", "{doc_id+}")
