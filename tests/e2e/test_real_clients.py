"""Packages of others against a real server: clients, and LangChain's standard tests of ours."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.builders import ran

ROOT = Path(__file__).resolve().parents[2]
LANGCHAIN = ROOT / "integrations" / "langchain"
pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the Python of requirements/clients.txt."""
    python = ran(ROOT / "scripts" / "find-tool", "clients", "python", check=True)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    return ran(python.stdout.strip(), *arguments, cwd=LANGCHAIN, env=inherited | environment)


def test_clients_of_openai_and_mcp_get_answers(server_for) -> None:
    done = run(str(ROOT / "tests" / "e2e" / "real_clients.py"), server_for())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": works") == 9


def test_the_langchain_retriever_passes_the_standard_tests(server_for) -> None:
    done = run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests"),
        DOCSTOKG_URL=server_for(),
        PYTHONPATH=str(LANGCHAIN),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout
