"""Size, import time, and cold and warm invocation times of each deployed function.

usage: python -m benchmarks.bundles [--cache FOLDER] [--store FOLDER] [--cold 3] [--warm 40]
       [--json FILE] [--out FILE.md]

Loads the demo corpus into FOLDER (kept there and used again), starts one process per function of
`build/host` under awslambdaric, puts the demo question through the gateway's rendered templates
and the state machine file over those processes, and the other routes through their templates.
For `mcp` and `authorize`, a loopback service emulates Step Functions, Lambda and the token issuer.
The folders for Lambda contain the same files (infra/package.py).
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from docstokg.contracts.envelope import Caller, Envelope
from docstokg.loading.pipeline import LoadOptions, load
from docstokg.loading.read.rejects import RejectLog
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.demo import QUESTION
from docstokg_local.cli.demo_corpus import write_corpus
from docstokg_local.loading.stores import stores_of
from infra.package import BUILD, build, size_mb
from infra.specs import SPECS
from tests.infra.gateway import Answer
from tests.infra.test_bundles import measured
from tests.infra.test_processes import STEPS, Deployment
from tests.runtime_api import Fleet, Folders

ARN = "arn:aws:lambda:eu-central-1:111122223333:function:docstokg-test-{name}:live"
MACHINE = "arn:aws:states:eu-central-1:111122223333:stateMachine:docstokg-test:live"
METHOD = "arn:aws:execute-api:eu-central-1:111122223333:api/test/POST/v1/answer"
ISSUER, AUDIENCE = "https://issuer.test/", "docstokg"
TRACES = 10
"""Messages in one batch of the trace queue (`infra/traces.py`: at most 50)."""
MEASURED = tuple(spec for spec in SPECS if spec.name != "stream")
"""Functions that reply in one part."""
ROUTES = ("traverse", "check", "mcp", "health")
Milliseconds = list[float]


class Timed(Deployment):
    """A deployment that records the time of each event per function, in order."""

    def __init__(self, fleet: Fleet, logs: Path) -> None:
        self.took: dict[str, Milliseconds] = {spec.name: [] for spec in MEASURED}
        self._logs = logs
        super().__init__(fleet)

    def log_bytes(self) -> int:
        """Return the number of bytes that all functions have logged."""
        return sum(path.stat().st_size for path in self._logs.glob("*.log"))

    def invoke(self, name: str, event: Any) -> Any:
        """Send one event to one function; its time in ms goes to `took`."""
        started = time.perf_counter()
        answer = super().invoke(name, event)
        self.took[name].append((time.perf_counter() - started) * 1000)
        return answer


class Amazon:
    """Step Functions, Lambda and a token issuer emulated on loopback with the same processes."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.deployment: Timed | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._requests())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def variables(self) -> dict[str, str]:
        """Return the environment that directs a function's clients here: a proxy, as hosts vary."""
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_ENDPOINT_URL": "http://aws.test",
            "HTTP_PROXY": self.url,
            "NO_PROXY": "127.0.0.1",
            "DOCSTOKG_WORKFLOW_ARN": MACHINE,
            "DOCSTOKG_ROUTE_FUNCTIONS": ",".join(
                f"{name}={ARN.format(name=name)}" for name in ("check", "traverse")
            ),
            "DOCSTOKG_JWT_ISSUER": ISSUER,
            "DOCSTOKG_JWT_AUDIENCE": AUDIENCE,
            "DOCSTOKG_JWT_JWKS_URL": f"{self.url}/jwks",
        }

    def token(self, number: int) -> str:
        """Return a signed token that is unique per number."""
        claims = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": f"caller-{number}", "namespaces": ["*"],
            "groups": ["*"], "exp": int(time.time()) + 3600,
        }  # fmt: skip
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": "1"})

    def close(self) -> None:
        """End the service."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, body: dict[str, Any]) -> Any:
        """Run StartSyncExecution with the state machine file and the processes."""
        assert self.deployment is not None
        execution = self.deployment.machine.execute(json.loads(body["input"]))
        outcome: dict[str, Any] = {"executionArn": "x", "status": execution.status}
        return outcome | {"output": json.dumps(execution.output)}

    def _requests(self) -> type[BaseHTTPRequestHandler]:
        amazon = self

        class Requests(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                key = jwt.algorithms.ECAlgorithm.to_jwk(amazon._key.public_key(), as_dict=True)
                self._send({"keys": [key | {"kid": "1", "use": "sig", "alg": "ES256"}]})

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if "X-Amz-Target" in self.headers:
                    self._send(amazon._answer(request))
                    return
                assert amazon.deployment is not None
                name = self.path.split("docstokg-test-")[1].split("%3A")[0].split(":")[0]
                self._send(amazon.deployment.fleet.invoke(name, request))

            def _send(self, answer: Any) -> None:
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Suppress the log."""

        return Requests


def demo_store(folder: Path, cache: Path) -> str:
    """Load the demo corpus into FOLDER if needed and return the URL of the store."""
    url = f"sqlite:///{(folder / 'store.sqlite').resolve()}"
    loaded = folder / "loaded"
    if not loaded.exists():
        print_line("loading the demo corpus")
        wiring = Wiring(Settings(index_url=url, graph_url=url, cache_dir=str(cache)))
        with RejectLog() as rejects:
            load([write_corpus(cache, False)], LoadOptions("default"), stores_of(wiring), rejects)
        wiring.close()
        loaded.touch()
    return url


def print_line(line: str) -> None:
    """Print progress."""
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", file=sys.stderr, flush=True)


@contextmanager
def deployed(folders: Folders, url: str, amazon: Amazon) -> Iterator[Timed]:
    """A new fleet with empty disks, like new sandboxes."""
    with tempfile.TemporaryDirectory() as name:
        variables = {
            "DOCSTOKG_INDEX_URL": url,
            "DOCSTOKG_GRAPH_URL": url,
            "DOCSTOKG_CACHE_DIR": f"{name}/sandbox",
            "DOCSTOKG_GRAPH_BUDGET_PER_MINUTE": "100000",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MODE": "PRODUCTION",
            # With a key the model client is loaded in INIT, as deployed; nothing here calls it.
            "DOCSTOKG_LLM_API_KEY": "none",
            **amazon.variables(),
        }
        fleet = Fleet(
            folders,
            Path(name) / "logs",
            variables=dict.fromkeys((spec.name for spec in MEASURED), variables),
            timeouts=dict.fromkeys((spec.name for spec in MEASURED), 30.0),
        )
        try:
            deployment = Timed(fleet, Path(name) / "logs")
            amazon.deployment = deployment
            yield deployment
        finally:
            fleet.close()


def run_question(deployment: Timed, amazon: Amazon, number: int) -> dict[str, Any]:
    """Invoke every function once; return the reply to the question with its `cost`: ms and bytes.

    `number` makes the question unique, so that its vector is not cached.
    """
    printed, started = deployment.log_bytes(), time.perf_counter()
    answer = deployment.post("answer", json.dumps(demo_request(number)))
    cost: dict[str, float] = {
        "ms": (time.perf_counter() - started) * 1000,
        "bytes": len(answer.body.encode()),
        "log_bytes": deployment.log_bytes() - printed,
    }
    assert answer.status == 200, answer.body
    response: dict[str, Any] = answer.json
    text = f"{response['answer']} This is draft {number}."
    seed = {"seed_ids": ["HP:0001250"], "query": f"seizures in infancy ({number})"}
    call = {"name": "search_documentation", "arguments": {"query": f"febrile seizures {number}"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    uses: dict[str, Callable[[], Answer]] = {
        "traverse": lambda: deployment.route("traverse", seed),
        "check": lambda: deployment.route("check", {"text": text}),
        # The request id is constant here; different callers keep stored pages apart.
        "mcp": lambda: deployment.route("mcp", message, caller(number)),
        "health": lambda: deployment.route("health", None),
    }
    for name, use in uses.items():
        before = {step: len(took) for step, took in deployment.took.items()}
        reply = use()
        assert reply.status == 200, (name, reply.body)
        assert name != "mcp" or not reply.json["result"].get("isError"), reply.body
        cost[f"{name}_bytes"] = len(reply.body.encode())
        for step, length in before.items():
            # Steps called by a tool are not counted a second time.
            if step != name:
                del deployment.took[step][length:]
    listing = Envelope(
        route="documents", request_id=f"list-{number}", caller=caller(number), body_b64="e30="
    )
    listed = deployment.invoke("documents", listing.model_dump(mode="json"))
    assert listed["statusCode"] == 200, listed
    token = {"Authorization": f"Bearer {amazon.token(number)}"}
    allowed = deployment.invoke("authorize", {"headers": token, "methodArn": METHOD})
    assert allowed["policyDocument"]["Statement"][0]["Effect"] == "Allow"
    batch = [trace(response, number * TRACES + place) for place in range(TRACES)]
    record_reply = deployment.invoke("record", {"Records": batch})
    assert record_reply == {"batchItemFailures": []}, record_reply
    return response | {"cost": cost}


def caller(number: int) -> Caller:
    """Return one of several callers without restrictions."""
    return Caller(sub=f"caller-{number}", namespaces=("*",), groups=("*",))


def demo_request(number: int | None = None) -> dict[str, Any]:
    """Return the demo request, or one with a unique question."""
    return {
        "query": QUESTION if number is None else f"{QUESTION} ({number})",
        "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {"max_tokens_gen": 512},
    }


def trace(response: dict[str, Any], number: int) -> dict[str, str]:
    """Return the queue message about a response, as `respond` writes it."""
    message = {
        "request_id": f"bench-{number}",
        "session": "bench",
        "namespace": "default",
        "query_hash": f"{number:064x}",
        "created_ms": int(time.time() * 1000),
        "retrieved": [
            {"uuid": c["uuid"], "rank": c["rank"], "score": c["score"]}
            for c in response["citations"]
        ],
        "supported_by": [c["rank"] for c in response["citations"] if c["cited"]],
    }
    return {"messageId": str(number), "body": json.dumps(message)}


def peak_mb(pid: int) -> float:
    """Return the peak memory of a process in MB of 10^6 bytes; 0 without /proc."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    (line,) = [row for row in status.read_text().splitlines() if row.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def measure(folders: Folders, url: str, cold: int, warm: int) -> dict[str, Any]:
    """Return the report: per function sizes, MB and ms; the whole question; the demo's answer."""
    layer = size_mb(folders.build / "layer")
    rows: dict[str, dict[str, Any]] = {}
    for spec in MEASURED:
        print_line(f"importing {spec.name}")
        runs = [measured(folders, spec.name) for _ in range(3)]
        rows[spec.name] = {
            "memory_mb": spec.memory_mb,
            "mb": round(size_mb(folders.build / spec.name) + layer, 1),
            "import_cpu_ms": round(min(float(str(run["ms"])) for run in runs)),
            "modules": runs[0]["count"],
        }
    amazon = Amazon()
    inits: dict[str, Milliseconds] = {spec.name: [] for spec in MEASURED}
    firsts: dict[str, Milliseconds] = {spec.name: [] for spec in MEASURED}
    whole_cold: Milliseconds = []
    for turn in range(cold):
        last = turn == cold - 1
        with deployed(folders, url, amazon) as deployment:
            for spec in MEASURED:
                inits[spec.name].append(deployment.fleet.sandbox(spec.name).init_ms)
            print_line(f"cold run {turn + 1} of {cold}: all processes are up")
            whole_cold.append(run_question(deployment, amazon, turn)["cost"]["ms"])
            for name, took in deployment.took.items():
                firsts[name].append(took[0])
            if not last:
                continue
            costs: list[dict[str, float]] = []
            for number in range(warm):
                costs.append(run_question(deployment, amazon, cold + number)["cost"])
                if number % 10 == 9:
                    print_line(f"warm run {number + 1} of {warm}")
            final = deployment.post("answer", json.dumps(demo_request()))
            assert final.status == 200, final.body
            for name, took in deployment.took.items():
                times = took[1 : 1 + warm]
                rows[name] |= {
                    "init_ms": round(statistics.median(inits[name])),
                    "first_ms": round(statistics.median(firsts[name]), 1),
                    "warm_p50_ms": round(np.percentile(times, 50), 1),
                    "warm_p95_ms": round(np.percentile(times, 95), 1),
                    "warm_mean_ms": round(statistics.mean(times), 1),
                    "peak_mb": round(peak_mb(deployment.fleet.sandbox(name).pid)),
                }
    amazon.close()
    response = final.json
    for name in ROUTES:
        rows[name]["response_bytes"] = round(
            statistics.mean(cost[f"{name}_bytes"] for cost in costs)
        )
    whole = [cost["ms"] for cost in costs]
    return {
        "measured": {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": platform.machine(),
            "cold": cold,
            "warm": warm,
        },
        "functions": rows,
        "steps": [name for name in STEPS if name != "traverse"],
        "whole": {
            "first_ms": round(statistics.median(whole_cold), 1),
            "warm_p50_ms": round(np.percentile(whole, 50), 1),
            "warm_p95_ms": round(np.percentile(whole, 95), 1),
            "warm_mean_ms": round(statistics.mean(whole), 1),
            "response_bytes": round(statistics.mean(cost["bytes"] for cost in costs)),
            "log_bytes": round(statistics.mean(cost["log_bytes"] for cost in costs)),
        },
        "demo": {
            "question": QUESTION,
            "answer": response["answer"],
            "citations": len(response["citations"]),
            "grounded": (response["grounding"] or {}).get("grounded"),
            "degraded_reasons": response["diagnostics"]["degraded_reasons"],
        },
    }


def table(report: dict[str, Any]) -> str:
    """Write the report as Markdown."""
    lines = [
        "# The deployed folders under the real runtime client",
        "",
        "`python -m benchmarks.bundles --json benchmarks/bundles.json --out benchmarks/bundles.md`;"
        " import is CPU time of a fresh",
        "process, cold = INIT + first event. Nothing of it ran in AWS.",
        "",
        "| function | MB unzipped | import ms | INIT ms | first event ms | cold ms | warm p50 ms |"
        " warm p95 ms | peak MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in report["functions"].items():
        lines.append(
            f"| {name} | {row['mb']:.1f} | {row['import_cpu_ms']} | {row['init_ms']} |"
            f" {row['first_ms']:.0f} | {row['init_ms'] + row['first_ms']:.0f} |"
            f" {row['warm_p50_ms']:.1f} | {row['warm_p95_ms']:.1f} | {row['peak_mb']} |"
        )
    whole, demo, how = report["whole"], report["demo"], report["measured"]
    lines += [
        "",
        f"The whole question through templates, state machine and processes: first"
        f" {whole['first_ms']:.0f} ms after INIT, warm p50 {whole['warm_p50_ms']:.0f} ms, p95"
        f" {whole['warm_p95_ms']:.0f} ms. {how['cold']} cold starts (medians), {how['warm']} warm"
        f" questions, each a new one; {how['machine']}, {how['date']}.",
        "",
        f"> {demo['question']}",
        ">",
        f"> {demo['answer']}",
        "",
        f"{demo['citations']} citations, grounded: {demo['grounded']}, degraded:"
        f" {', '.join(demo['degraded_reasons']) or 'no'}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    parser.add_argument("--store", type=Path, help="folder of the loaded demo store")
    parser.add_argument("--cold", type=int, default=3)
    parser.add_argument("--warm", type=int, default=40)
    parser.add_argument("--json", type=Path, help="write figures for benchmarks.cloud_costs")
    parser.add_argument("--out", type=Path, help="write tables as Markdown")
    parser.add_argument("--prepare", action="store_true", help="only build and load")
    options = parser.parse_args()
    build("host")
    folder = options.store or options.cache / "bundles-store"
    folder.mkdir(parents=True, exist_ok=True)
    url = demo_store(folder, options.cache)
    if options.prepare:
        return
    report = measure(Folders(BUILD / "host"), url, options.cold, options.warm)
    text = table(report)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
