"""Steps stay small, take few parameters, and never swallow a failure without a log line."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    [
        *(ROOT / "functions").rglob("*.py"),
        *(ROOT / "layers/common/python/docstokg/usecases").rglob("*.py"),
    ]
)
MOST_PARAMETERS = 6
MOST_COMPLEX = 15
OURS = {
    "DocsToKGError", "Retryable", "Unavailable", "CircuitOpen", "Timeout", "QuotaExceeded",
    "Permanent", "Misconfigured", "WrongAnswer", "PlanRejected", "LoadError",
}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(root: ast.AST) -> Iterator[Function]:
    """Every function that stands in no other function: methods too."""
    for node in ast.iter_child_nodes(root):
        if isinstance(node, Function):
            yield node
        else:
            yield from functions(node)


def parameters(function: Function) -> int:
    given = function.args
    names = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in names)


def complexity(function: Function) -> int:
    """Count as radon does, with a nested function's own one and its branches added."""
    total = 0
    for node in ast.walk(function):
        match node:
            case ast.Try() | ast.TryStar():
                total += len(node.handlers) + bool(node.orelse)
            case ast.BoolOp():
                total += len(node.values) - 1
            case ast.If() | ast.IfExp() | ast.Assert():
                total += 1
            case ast.For() | ast.AsyncFor() | ast.While():
                total += 1 + bool(node.orelse)
            case ast.comprehension():
                total += 1 + len(node.ifs)
            case ast.Match():
                total += len(node.cases) - any(_is_wildcard(case) for case in node.cases)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                total += 1
    return total


def _is_wildcard(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def names(handled: ast.expr | None) -> set[str]:
    if handled is None:
        return {"DocsToKGError"}
    parts = handled.elts if isinstance(handled, ast.Tuple) else [handled]
    return {node.attr if isinstance(node, ast.Attribute) else ast.unparse(node) for node in parts}


def is_told(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler raises, or itself calls a method named `log`."""
    return any(
        isinstance(node, ast.Raise)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "log"
        )
        for statement in handler.body
        for node in ast.walk(statement)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_small_and_take_few_parameters(path: Path) -> None:
    every = [node for node in ast.walk(tree(path)) if isinstance(node, Function)]
    many = {one.name: n for one in every if (n := parameters(one)) > MOST_PARAMETERS}
    assert not many, f"parameters: {many}"
    deep = {one.name: n for one in functions(tree(path)) if (n := complexity(one)) > MOST_COMPLEX}
    assert not deep, f"cyclomatic complexity: {deep}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_failure_of_a_dependency_is_swallowed_without_a_line(path: Path) -> None:
    silent = [
        node.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and names(node.type) & (OURS | {"Exception", "BaseException"})
        and not is_told(node)
    ]
    assert not silent, f"{path.name}: lines {silent}"


def test_the_counters_count() -> None:
    source = """
def outer(self, a, /, b, *rest, c=1, **more):
    def inner():
        return [x for x in a if x and b]
    try:
        assert a
    except DocsToKGError:
        pass
    else:
        for _ in b:
            if a: return 1 if b else 2
"""
    (function,) = functions(ast.parse(source))
    assert parameters(function) == 3
    # outer, inner, comprehension and its if, and, except, else, assert, for, if, ternary
    assert complexity(function) == 11
    (handler,) = [n for n in ast.walk(function) if isinstance(n, ast.ExceptHandler)]
    assert names(handler.type) == {"DocsToKGError"}
    assert not is_told(handler)
    assert is_told(ast.parse("try: pass\nexcept E: t.log('x')").body[0].handlers[0])  # type: ignore[attr-defined]
