"""Ten tasks an agent would have, done over MCP by a fixed script that sees tool texts only.

    python -m benchmarks.agent_tasks FOLDER [--name now] [--server COMMAND ...]

FOLDER holds Markdown (`docs` of this repository), loaded into a fresh store by the server's own
`load`. Each task has a fact and a source; code checks both in what the agent was shown. The agent
asks `answer_with_citations` with the question alone, then `search_documentation`, then reads the
first passage in its context where that tool is offered, then turns one page; it stops as soon as
it has read the fact beside its source. Tokens are ceil(UTF-8 bytes of the tool texts / 4).
`--server` is what runs the command line, to measure another checkout with the same script.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BYTES_PER_TOKEN = 4
UUID = re.compile(r'"uuid":\s*"([0-9a-f-]{36})"')
CURSOR = re.compile(r'"next_cursor":\s*"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Task:
    """What to find out, how the fact reads, and the document that states it."""

    question: str
    fact: str
    source: str


TASKS = (
    Task("How many seconds does the whole state machine have?", r"\b27 s\b", "architecture.md"),
    Task("How large may a function with its layers be?", r"\b250 MB\b", "architecture.md"),
    Task(
        "After how many failures in a row is a dependency not called any more?",
        r"\bfive\b|\b5 times\b",
        "architecture.md",
    ),
    Task("How soon is a rotated secret used?", r"5 minutes|at once", "security.md"),
    Task(
        "Which action may the role of API Gateway call on the state machine?",
        r"states:StartSyncExecution",
        "security.md",
    ),
    Task("How long does a revoked token stay good?", r"\b60 s\b", "security.md"),
    Task("What happens when the cursor was changed by one letter?", r"\b400\b", "mcp.md"),
    Task("Which setting holds the key that seals cursors?", r"DOCSTOKG_CURSOR_KEY", "mcp.md"),
    Task("How do I remove documents whose files are gone?", r"--sync", "loading.md"),
    Task("How does a domain plug in ontology checks?", r"check_consistency", "domains.md"),
)


class Agent:
    """One server process over a pipe, and a count of what its tools were read for."""

    def __init__(self, server: list[str], store: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [*server, "mcp", "--index", f"sqlite:///{store}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        self._next = 0
        self.tokens = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self._ask("initialize", {**hello, "clientInfo": {"name": "tasks", "version": "1"}})
        listed = self._ask("tools/list", {})["result"]["tools"]
        self.tools = {tool["name"] for tool in listed}
        self.listed_tokens = tokens(json.dumps(listed, ensure_ascii=False))

    def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool and give its text, which is all an agent sees."""
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        text = "".join(block["text"] for block in result["content"])
        self.tokens += tokens(text)
        return text

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        return reply


def tokens(text: str) -> int:
    """Estimate tokens as the product does."""
    return math.ceil(len(text.encode("utf-8")) / BYTES_PER_TOKEN)


def work(agent: Agent, task: Task) -> dict[str, Any]:
    """Do one task; say whether it was reached, after how many calls, for how many tokens."""
    before, seen, calls = agent.tokens, "", 0

    def look(tool: str, **arguments: Any) -> bool:
        nonlocal seen, calls
        seen += agent.call(tool, **arguments)
        calls += 1
        return re.search(task.fact, seen) is not None and task.source in seen

    question = {"query": task.question}
    reached = look("answer_with_citations", **question)
    answer = _answer(seen)
    if not reached:
        reached = look("search_documentation", **question)
    if not reached and "read_passage" in agent.tools and (found := UUID.search(seen)):
        reached = look("read_passage", uuid=found[1])
    if not reached and (cursor := CURSOR.search(seen)):
        reached = look("answer_with_citations", **question, response_cursor=cursor[1])
    return {
        "question": task.question,
        "answered": bool(answer) and re.search(task.fact, answer) is not None,
        "reached": reached,
        "calls": calls,
        "tokens": agent.tokens - before,
    }


def _answer(text: str) -> str:
    try:
        return str(json.loads(text).get("answer", ""))
    except ValueError:
        return ""


def main() -> None:
    """Load the folder, do the tasks, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="now", help="what the table is headed with")
    own = [sys.executable, "-m", "docstokg_local.cli.commands"]
    parser.add_argument("--server", nargs="+", default=own, help="runs `docstokg`")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store.sqlite"
        environment = {key: v for key, v in os.environ.items() if not key.startswith("DOCSTOKG_")}
        load = [*given.server, "load", *map(str, sorted(given.folder.resolve().glob("*.md")))]
        done = subprocess.run(
            [*load, "--index", f"sqlite:///{store}"],
            env=environment, check=False, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stderr)
        agent = Agent(given.server, store, environment)
        rows = [work(agent, task) for task in TASKS]
        agent.close()
    print(
        f"### {given.name}\n\n| task | answered | reached | calls | tokens |\n|---|---|---|---|---|"
    )
    for row in rows:
        marks = ["yes" if row[key] else "no" for key in ("answered", "reached")]
        print(f"| {row['question']} | {' | '.join(marks)} | {row['calls']} | {row['tokens']:,} |")
    total = sum(row["tokens"] for row in rows)
    answered, reached = (sum(row[key] for row in rows) for key in ("answered", "reached"))
    calls = sum(row["calls"] for row in rows)
    print(f"| **all** | **{answered}** | **{reached}** | **{calls}** | **{total:,}** |")
    print(f"\nThe list of tools: {agent.listed_tokens:,} tokens, once a session.")


if __name__ == "__main__":
    main()
