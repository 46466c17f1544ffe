"""The benchmark of true and false statements asks a namespace that holds something."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import check_claims


def test_an_empty_namespace_is_an_error_that_says_what_to_do(
    small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    claims = tmp_path / "claims.jsonl"
    claims.write_text(json.dumps({"kind": "true", "text": "Febrile seizures occur."}) + "\n")
    url = f"sqlite:///{small_store}"
    arguments = ["check_claims", str(claims), "--index", url, "--namespace", "forgotten"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        check_claims.main()
    assert "add --namespace" in capsys.readouterr().err
