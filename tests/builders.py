"""Settings, request bodies and files that many tests need in the same form."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docstokg.settings import Settings


def settings_at(path: Path, **fields: Any) -> Settings:
    """Return settings with one file for both stores; paths among `fields` become text."""
    url = f"sqlite:///{path}"
    values = {
        name: str(value) if isinstance(value, Path) else value for name, value in fields.items()
    }
    return Settings.model_validate({"index_url": url, "graph_url": url, **values})


def answer_request(query: str, tokens: int = 200, model: str = "extractive", **fields: Any) -> Any:
    """Return the body of a question that a model answers with at most `tokens`."""
    synthesis = {"enabled": True, "model": model}
    return {"query": query, "synthesis": synthesis, "budget": {"max_tokens_gen": tokens}, **fields}


def keyed(folder: Path, holders: dict[str, Any]) -> dict[str, str]:
    """Write a file of keys and return the settings that name it.

    A holder has its key as `sub`, all namespaces and all groups unless it states others.
    """
    usual = {"namespaces": ["*"], "groups": ["*"]}
    keys = {key: {"sub": key, **usual, **holder} for key, holder in holders.items()}
    (folder / "keys.json").write_text(json.dumps(keys), encoding="utf-8")
    return {"auth": "keys", "keys_file": str(folder / "keys.json")}


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return the message of MCP that calls a tool."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def ran(*command: object, check: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output as text."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=check, **options)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Make a folder of these files."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        raw = content.encode("utf-8") if isinstance(content, str) else content
        (folder / name).write_bytes(raw)
    return folder


def body_of(reply: Any) -> dict[str, Any]:
    """Return the body of a reply, which must have status 200."""
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def refusal(reply: Any) -> tuple[int, str]:
    """Return the status of a problem and its code."""
    return reply.status_code, reply.json()["code"]


def eventually(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Wait until `check` holds; return its last result."""
    until = time.monotonic() + seconds
    while not (result := check()) and time.monotonic() < until:
        time.sleep(0.1)
    return result
