"""Typical mistakes at the shell and over HTTP: what is printed, with which exit code or status.

python -m benchmarks.mistakes > docs/mistakes.md
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.server import application
from docstokg_local.server.prometheus import PrometheusSink

ASK = "How many days of leave are there?"
SHELL: tuple[tuple[str, list[str], dict[str, str]], ...] = (
    ("a question before anything is loaded", ["ask", ASK, "--index", "sqlite:///new.sqlite"], {}),
    ("a command misspelt", ["aks", ASK], {}),
    ("an option misspelt", ["ask", ASK, "--topk", "3"], {}),
    ("a question too short", ["ask", "hi"], {}),
    ("no question at all", ["ask"], {}),
    ("a namespace misspelt", ["ask", ASK, "--namespace", "hanbook"], {}),
    ("a namespace in capitals", ["ask", ASK, "--namespace", "Handbook"], {}),
    ("a model nobody listed", ["ask", ASK, "--synthesize", "gpt-9"], {}),
    (
        "a model without its key",
        ["ask", ASK, "--synthesize", "gpt-4o-mini", "--citations", "1"],
        {},
    ),
    ("a filter without a key", ["ask", ASK, "--filter", "leave.md"], {}),
    ("a filter that fits nothing", ["ask", ASK, "--filter", "doc_id=leaf.md"], {}),
    ("a request file that is not there", ["ask", "--request", "request.json"], {}),
    ("a store that is no URL", ["ask", ASK, "--index", "store.sqlite"], {}),
    (
        "a server that is not running",
        ["ask", ASK, "--index", "http://127.0.0.1:9", "--graph", "bolt://127.0.0.1:9"],
        {},
    ),
    ("a setting misspelt", ["ask", ASK], {"DOCSTOKG_FUSION": "sum"}),
    ("a folder that is not there", ["load", "handbok"], {}),
    ("a file that nobody reads", ["load", "photo.png"], {}),
    ("a document that is not loaded", ["delete", "--doc-id", "leaf.md"], {}),
    ("a port that is taken", ["serve", "--port", "TAKEN"], {}),
    ("something else than a response to verify", ["verify", "handbook/leave.md"], {}),
)
PROGRAM = (
    "import sys; sys.argv[0] = 'docstokg'; from docstokg_local.cli.commands import main; main()"
)
JSON = {"Content-Type": "application/json"}
KEY = {**JSON, "X-Api-Key": "K"}
Call = tuple[str, str, str, dict[str, str], bytes]
HTTP: tuple[Call, ...] = (
    ("no key", "POST", "/v1/answer", JSON, b'{"query": "abc"}'),
    ("a wrong key", "POST", "/v1/answer", {**JSON, "Authorization": "Bearer k"}, b"{}"),
    ("no media type", "POST", "/v1/answer", {"X-Api-Key": "K"}, b'{"query": "abc"}'),
    ("broken JSON", "POST", "/v1/answer", KEY, b"{'query': 'abc'}"),
    (
        "several things wrong at once",
        "POST",
        "/v1/answer",
        KEY,
        b'{"question": "abc", "top_k": "10", "synthesis": {"enabled": true}}',
    ),
    ("synthesis in a search", "POST", "/v1/search", KEY, b'{"query": "abc", "synthesis": {}}'),
    ("a path that is not there", "POST", "/v1/ask", KEY, b"{}"),
    ("the wrong method", "GET", "/v1/answer", KEY, b""),
    ("somebody else's namespace", "POST", "/v1/search", KEY, b'{"query":"abc","namespace":"hr"}'),
    ("a body over 64 KiB", "POST", "/v1/answer", KEY, b" " * 70_000),
    (
        "a chat with a model nobody listed",
        "POST",
        "/v1/chat/completions",
        KEY,
        b'{"model": "gpt-9", "messages": [{"role": "user", "content": "abc"}]}',
    ),
)


def main() -> None:
    """Make each mistake and print the table."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as taken:
        folder = Path(name)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (folder / "handbook").mkdir()
        text = "# Leave\n\nEverybody has 30 days of leave a year.\n"
        (folder / "handbook" / "leave.md").write_text(text, encoding="utf-8")
        (folder / "photo.png").write_bytes(b"\x89PNG\r\n")
        (folder / ".docstokg").mkdir()
        run(folder, ["load", "handbook"], {})
        port = str(taken.getsockname()[1])
        rows = [
            (what, "docstokg " + " ".join(map(quoted, words)), variables, words)
            for what, words, variables in SHELL
        ]
        print("# Typical mistakes, and what is printed\n")
        print("Written by `python -m benchmarks.mistakes`; the store holds one page of a handbook.")
        print("\n## At the shell\n\n| mistake | typed | printed | exit |\n|---|---|---|---|")
        for what, typed, variables, words in rows:
            given = [port if word == "TAKEN" else word for word in words]
            code, said = run(folder, given, variables)
            shown = tidy(said, folder).replace(port, "8080")
            before = "".join(f"{key}={value} " for key, value in variables.items())
            print(f"| {what} | `{before}{typed.replace('TAKEN', '8080')}` | {shown} | {code} |")
        print("\n## Over HTTP\n\nThe key `K` is known and reads namespace `default`.\n")
        print("| mistake | sent | status | said |\n|---|---|---|---|")
        for row in over_http(folder):
            print(row)


def run(folder: Path, words: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """Type a command in the folder; give its exit code and all it printed."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("DOCSTOKG_")}
    own |= {"DOCSTOKG_CACHE_DIR": str(folder / "cache"), "COLUMNS": "100", **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder, env=own, check=False, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


def quoted(word: str) -> str:
    """Write a word as it is typed."""
    return f'"{word}"' if " " in word else word


def tidy(said: str, folder: Path) -> str:
    """Write output for a cell of the table: lines, without this run's own names."""
    said = said.replace(str(folder), "FOLDER")
    said = re.sub(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", "ID", said)
    said = re.sub(r"sha256 [0-9a-f]{12}", "sha256 ...", said)
    said = re.sub(r"in ms: .*", "in ms: ...", said)
    lines = [line.strip(" \u2502\u2500\u256d\u256e\u2570\u256f") for line in said.splitlines()]
    kept = [line.replace("|", "\\|").replace("`", "'") for line in lines if line]
    return "<br>".join(f"`{line}`" for line in kept if not line.startswith("store "))


def over_http(folder: Path) -> list[str]:
    """Send each wrong request to the real application, with keys."""
    keys = folder / "keys.json"
    holder = {"sub": "k", "namespaces": ["default"], "groups": []}
    keys.write_text(json.dumps({"K": holder}), encoding="utf-8")
    url = f"sqlite:///{folder}/.docstokg/store.sqlite"
    settings = Settings(
        index_url=url, graph_url=url, cache_dir=str(folder / "cache"), auth="keys",
        keys_file=str(keys),
    )  # fmt: skip
    sink = PrometheusSink()
    wiring = Wiring(settings, Telemetry(sink, lambda line: None))
    rows = []
    with TestClient(application(settings, wiring, sink)) as client:
        for what, method, path, headers, body in HTTP:
            reply = client.request(method, path, headers=headers, content=body)
            sent = "70,000 bytes" if len(body) > 1000 else body.decode()
            shown = f"`{method} {path}`" + (f" `{sent}`" if sent else "")
            rows.append(f"| {what} | {shown} | {reply.status_code} | {said_of(reply.json())} |")
    wiring.close()
    return rows


def said_of(reply: dict[str, Any]) -> str:
    """Write a problem, or an error of the chat format, for a cell."""
    if "error" in reply:
        error = reply["error"]
        lines = [f"{error['type']}, {error['code']}: {error['message']}"]
    else:
        lines = [f"{reply['code']}: {reply['detail']}"]
        lines += [f"{one['path']}: {one['message']}" for one in reply["errors"]]
    return "<br>".join("`" + line.replace("|", "\\|").replace("`", "'") + "`" for line in lines)


if __name__ == "__main__":
    main()
