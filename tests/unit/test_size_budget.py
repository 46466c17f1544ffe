"""Sizes of concepts and their budgets."""

from pathlib import Path

import pytest

from benchmarks import size

TOML = """tokens = {total}

[concepts."Readers"]
tokens = {readers}
files = ["pkg/*"]

[concepts."Writers"]
tokens = 4
files = ["pkg/write/*"]
"""


def test_each_product_file_belongs_to_a_concept(capsys: pytest.CaptureFixture[str]) -> None:
    size.main([])
    assert "no concept" not in capsys.readouterr().err


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("pkg/a.py", "pkg/write/b.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(size, "ROOT", tmp_path)
    monkeypatch.setattr(size, "BUDGETS", tmp_path / "size_budget.toml")
    monkeypatch.setattr(size, "python_files", lambda: ["pkg/a.py", "pkg/write/b.py"])
    return tmp_path / "size_budget.toml"


@pytest.mark.parametrize(
    ("total", "readers", "problem"),
    [(6, 3, ""), (6, 2, "Readers: 3 tokens, budget 2"), (5, 3, "product: 6 tokens, budget 5")],
)
def test_a_size_above_its_budget_fails(
    checkout: Path,
    capsys: pytest.CaptureFixture[str],
    total: int,
    readers: int,
    problem: str,
) -> None:
    checkout.write_text(TOML.format(total=total, readers=readers), encoding="utf-8")
    assert size.main([]) == int(bool(problem))
    assert problem in capsys.readouterr().err


def test_update_writes_the_sizes_as_budgets(checkout: Path) -> None:
    checkout.write_text(TOML.format(total=0, readers=0), encoding="utf-8")
    assert size.main(["--update"]) == 0
    assert checkout.read_text(encoding="utf-8") == TOML.format(total=6, readers=3).replace(
        "tokens = 4", "tokens = 3"
    )
