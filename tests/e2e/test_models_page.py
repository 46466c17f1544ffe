"""The recipes of docs/models.md, run as they stand against servers that check every call."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import ran
from tests.providers import ANTHROPIC_KEY, GATEWAY_KEY, OPENAI_KEY, Providers, serving
from tests.signatures import KEY, SECRET, TOKEN

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text("utf-8")
RECIPES = {
    match[1]: match[2]
    for match in re.finditer(r"^## ([^\n]+)\n(?:(?!^##).)*?```sh\n(.*?)```", PAGE, re.M | re.S)
}
ASKED = {
    "No model": [],
    "OpenAI": [("openai", "gpt-4o-mini")] * 2,
    "Anthropic": [("anthropic", "claude-haiku-5-5")] * 2,
    "Amazon Bedrock, by role": [("bedrock", "eu.amazon.nova-lite-v1:0")] * 2,
    "A model on this machine, or any gateway": [("gateway", "qwen2.5:1.5b")] * 2,
}


@pytest.fixture
def server() -> Iterator[Providers]:
    with serving() as state:
        state.answer = "Seizures are sudden, uncontrolled electrical events in the brain [1]."
        yield state


def test_every_recipe_is_followed_here() -> None:
    assert list(RECIPES) == list(ASKED)


@pytest.mark.parametrize("recipe", ASKED)
def test_a_recipe_works_as_it_is_pasted(
    recipe: str, server: Providers, small_store: Path, cache_dir: Path, tmp_path: Path
) -> None:
    """The placeholders are filled in: keys, and the address of this server."""
    commands = RECIPES[recipe].replace("sk-ant-...", ANTHROPIC_KEY).replace("sk-...", OPENAI_KEY)
    commands = commands.replace("http://127.0.0.1:11434/v1", server.at("gateway"))
    store = f"sqlite:///{small_store}"
    unset = {name: "" for name in os.environ if name.startswith(("AWS_", "DOCSTOKG_"))}
    environment = (
        os.environ
        | unset
        | {
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "DOCSTOKG_INDEX_URL": store,
            "DOCSTOKG_GRAPH_URL": store,
            "DOCSTOKG_CACHE_DIR": str(cache_dir),
            "DOCSTOKG_LLM_API_KEY": GATEWAY_KEY if "gateway" in recipe else "",
            "DOCSTOKG_PROVIDER_URLS": ",".join(
                f"{provider}={server.at(provider)}"
                for provider in ("openai", "anthropic", "bedrock")
            ),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": TOKEN,
        }
    )
    done = ran("bash", "-eu", "-o", "pipefail", "-c", commands, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert server.problems == []
    assert [(provider, model) for provider, model, _ in server.asked] == ASKED[recipe]
    assert "[1]" in done.stdout and "electrical events" in done.stdout
    assert "unavailable" not in done.stdout
