"""Packages of others against a real server: clients, and LangChain's standard tests of ours."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.builders import ran
from tests.streaming_model import StreamingModel, streaming

ROOT = Path(__file__).resolve().parents[2]
LANGCHAIN = ROOT / "integrations" / "langchain"
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the Python of requirements/clients.txt."""
    python = ran(ROOT / "scripts" / "find-tool", "clients", "python", check=True)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    return ran(python.stdout.strip(), *arguments, cwd=LANGCHAIN, env=inherited | environment)


def test_clients_of_openai_and_mcp_get_answers(server_for) -> None:
    """Clients get answers, and each failure as the error that the reference lists for them."""
    models = {"models": ("extractive", "gpt-4o-mini")}
    answer = "Seizures are electrical events [1]. They may follow a fever [1]. They stop soon [1]."
    with streaming(StreamingModel(answer=answer, break_after=9)) as model:
        done = run(
            str(ROOT / "tests" / "e2e" / "real_clients.py"),
            server_for(**models),
            server_for(llm_base_url="http://127.0.0.1:9", llm_api_key="k", **models),
            server_for(llm_base_url=model.url, llm_api_key="k", **models),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": works") == 15
    table = done.stdout[done.stdout.index("| client |") :]
    assert table in (ROOT / "docs" / "reference.md").read_text("utf-8")


def test_the_langchain_retriever_passes_the_standard_tests(server_for) -> None:
    done = run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests"),
        DOCSTOKG_URL=server_for(),
        PYTHONPATH=str(LANGCHAIN),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout
