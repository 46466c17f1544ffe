"""A user's program with the client, as `mypy --strict` sees it."""

import sys
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from docstokg.contracts import fields, request
from tests.builders import ran

RIGHT = """
from docstokg.client import Client

with Client("http://127.0.0.1:8080", timeout_s=9) as rag:
    found = rag.search("Where?", filter={"year": 2026, "doc_id": ["a.md"]}, top_k=3)
    reply = rag.answer(
        "Where?",
        history=[{"role": "user", "content": "What?"}],
        budget={"max_tokens_gen": 99},
        kg_expansion={"direction": "out", "seeds": ["HP:1"]},
        synthesis={"enabled": True, "model": "extractive"},
    )
    print(found.citations[0].uuid, reply.answer, rag.health().status)
"""
MISTAKES = {
    "misspelt field": 'rag.answer("Where?", synthesys={"enabled": True})',
    "misspelt nested field": 'rag.answer("Where?", budget={"max_token_gen": 99})',
    "wrong type": 'rag.search("Where?", top_k="8")',
    "wrong nested type": 'rag.search("Where?", budget={"timeout_s": "12"})',
    "missing argument": "rag.answer()",
    "missing nested field": 'rag.answer("Where?", history=[{"role": "user"}])',
    "wrong value": 'rag.search("Where?", verbosity="ful")',
    "wrong nested value": 'rag.search("Where?", kg_expansion={"direction": "up"})',
    "wrong attribute": 'rag.answer("Where?").anwser',
    "wrong nested attribute": 'rag.answer("Where?").citations[0].pages',
}


def errors(folder: Path, program: str) -> set[int]:
    """Return the lines with errors."""
    file = folder / "program.py"
    file.write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, file]
    done = ran(*command, cwd=folder)
    assert done.stderr == "", done.stderr
    lines = [line.split(":") for line in done.stdout.splitlines() if ": error:" in line]
    assert {Path(line[0]).name for line in lines} <= {"program.py"}, done.stdout
    return {int(line[1]) for line in lines}


@pytest.mark.slow
def test_mypy_finds_each_mistake_of_a_program(tmp_path: Path) -> None:
    program = "from docstokg.client import Client\n\nrag = Client()\n"
    begin = program.count("\n") + 1
    assert errors(tmp_path, program + "\n".join(MISTAKES.values()) + "\n") == set(
        range(begin, begin + len(MISTAKES))
    )
    assert errors(tmp_path, RIGHT) == set()


@pytest.mark.parametrize(
    ("typed", "contract"),
    [
        (fields.TurnFields, request.Turn),
        (fields.SearchBudgetFields, request.SearchBudget),
        (fields.BudgetFields, request.Budget),
        (fields.KgExpansionFields, request.KgExpansion),
        (fields.SynthesisFields, request.SynthesisRequest),
        (fields.ProvidersFields, request.Providers),
        (fields.GraphLimitsFields, request.GraphLimits),
        (fields.LimitsFields, request.Limits),
        (fields.SearchFields, request.SearchRequest),
        (fields.AnswerFields, request.RAGRequest),
    ],
    ids=lambda typed: typed.__name__,
)
def test_typed_fields_equal_the_contract(typed: type, contract: type[BaseModel]) -> None:
    hints = typing.get_type_hints(typed)
    assert hints.keys() == contract.model_fields.keys() - {"query"}
    for name, hint in hints.items():
        annotation = contract.model_fields[name].annotation
        assert set(literals(hint)) == set(literals(annotation)), name
        assert (type(None) in typing.get_args(hint)) == (
            type(None) in typing.get_args(annotation)
        ), name


def literals(annotation: object) -> list[object]:
    """Return the values of all `Literal` in an annotation, without those of its models."""
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    parts = typing.get_args(annotation) if not isinstance(annotation, typing.TypeAliasType) else ()
    return [value for part in parts for value in literals(part)]
