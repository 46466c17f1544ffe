"""A deployment in an emulated account: its stacks and stores, and calls of its functions."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3

from docstokg.adapters.aws.s3_objects import S3Objects
from docstokg.contracts.ingest import IngestRun
from docstokg.loading.transfer.contents import digests
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from infra.app import build, refuse_removals
from infra.package import BUILD
from infra.settings import Environment, Index, environment
from infra.specs import STAGES
from tests.builders import answer_request
from tests.envelopes import event as event_of
from tests.infra.emulator.account import ACCOUNT, REGION, Account
from tests.infra.emulator.limits import fit
from tests.ingest_runner import run_ingest
from tests.jvm.servers import Endpoint
from tests.runtime_api import FunctionError

STACKS = ("docstokg-dev-data", "docstokg-dev")
CALLER = {"sub": "deploy-local", "namespaces": ["default"], "groups": [], "load": ["default"]}
SYLLABLES = ("Mar", "Tal", "Quil", "Or", "Bren", "Dov", "Fen"), ("row", "low", "lon", "sel", "ham")
KEEPERS = ("Alda Fenwick", "Bram Oster", "Cora Lund", "Dirk Sahl", "Edda Voss")


@dataclass(frozen=True)
class Stores:
    """The real servers behind the emulated account."""

    index: Endpoint
    graph: Endpoint


def corpus() -> dict[str, tuple[str, str, str]]:
    """50 documents by name: the text, a question only it answers, and a word of the answer."""
    documents = {}
    first, second = SYLLABLES
    for number in range(50):
        name = first[number % 7] + second[number // 7 % 5] + ("" if number < 35 else "bury")
        year, keeper = 1800 + 3 * number, KEEPERS[number % 5]
        text = (
            f"# {name} weir\n\nThe {name} weir was rebuilt in {year} after the spring flood. "
            f"Its first keeper was {keeper}. Boats of {name} pay {number + 2} pence at the lock.\n"
        )
        documents[f"{name.lower()}.md"] = (text, f"When was the {name} weir rebuilt?", str(year))
    return documents


def question_of(text: str, timeout_s: float = 25) -> dict[str, Any]:
    """The body of a question that is answered without a language model."""
    return answer_request(text, budget={"max_tokens_gen": 256, "timeout_s": timeout_s})


def load_of(run_id: str, namespace: str = "default") -> IngestRun:
    """Return the run that loads `sources/NAMESPACE/`."""
    run = IngestRun(run_id=run_id, namespace=namespace)
    return run.model_copy(update={"prefix": run.sources})


class Run:
    """One run: the account, the deployed stacks, and the rows of the report."""

    def __init__(self, account: Account, stores: Stores | None, folder: Path) -> None:
        self.account, self.stores, self.folder = account, stores, folder
        self.rows: list[tuple[str, float, str]] = []
        self.failure = ""
        self.last = ""

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Time a step; yield the list of its notes. Keep the name and error of a failed one."""
        notes: list[str] = []
        begun = time.monotonic()
        sys.stderr.write(f"{name} ...\n")
        try:
            yield notes
        except BaseException as error:
            self.failure = self.failure or f'the step "{name}" failed: {error!r}'
            raise
        seconds = time.monotonic() - begun
        self.rows.append((name, seconds, "; ".join(notes)))
        sys.stderr.write(f"{name}: {seconds:.1f} s; {'; '.join(notes)}\n")

    def target(self) -> Environment:
        """The environment dev in this account, with the servers of this machine where there are."""
        # A function that starts beside others on two processors takes longer than in Lambda: what
        # answers the first questions is unpacked and started one function after another.
        dev = replace(environment("dev"), account=ACCOUNT, cold_start_s=60, max_timeout_s=60)
        # Its distributed maps would not load what S3 events start; see COVERED.
        dev = replace(dev, load_on_change=False)
        if self.stores is None:
            return dev
        domain = f"arn:aws:es:{REGION}:{ACCOUNT}:domain/docstokg-local"
        index = Index(kind="existing", endpoint=self.stores.index.url, arn=domain)
        return replace(dev, index=index, graph_url=self.stores.graph.url)

    def synthesise(
        self, name: str, target: Environment, bundles: Path, *, compared: bool = False
    ) -> tuple[Path, str]:
        """Write an assembly for the emulator; return its folder and the changes.

        `compared`: with what is deployed, as the CDK command line does.
        """
        out = self.folder / name
        app = build(target, out=out, bundles=bundles)
        if compared:
            refuse_removals(app, target, boto3.session.Session(region_name=target.region))
        app.synth()
        changes = []
        for path in sorted(out.glob("docstokg-*.template.json")):
            fitted = fit(json.loads(path.read_text("utf-8")), self._variables())
            path.write_text(json.dumps(fitted.body), encoding="utf-8")
            removed = ", ".join(sorted(kind.split("::", 1)[1] for kind in fitted.removed))
            changes.append(f"{path.name.split('.')[0]}: {len(fitted.body['Resources'])} resources")
            if removed:
                changes.append(f"without {removed}; {fitted.plain_alarms} alarms made plain")
        return out, "; ".join(changes)

    def _variables(self) -> dict[str, str]:
        """Return the variables of AWS sandboxes that the emulator lacks."""
        return {"PYTHONPATH": str(BUILD / "host" / "runtime"), "OMP_NUM_THREADS": "1"}

    def deploy(self, assembly: Path) -> str:
        """Deploy both stacks from an assembly, as the guide says."""
        for listed in assembly.glob("docstokg-*.assets.json"):
            self.account.publish(assembly, listed.name.removesuffix(".assets.json"))
        return self.account.cdk(
            "deploy", "--all", "--app", str(assembly), "--require-approval", "never"
        )

    def whole(self, *stacks: str) -> str:
        """Fail unless every resource of both stacks is there; how many are."""
        lines = []
        for stack in stacks or STACKS:
            counts = self.account.resources(stack)
            bad = {k: n for k, n in counts.items() if not k.endswith("_COMPLETE")}
            assert not bad, (stack, bad)
            total = sum(n for k, n in counts.items() if not k.startswith("DELETE"))
            lines.append(f"{stack} {total} of {total}")
        return ", ".join(lines)

    def fill_in(self, password: str = "") -> None:
        """Put the graph's credential where the guide says; `password`: its new one, if any."""
        assert self.stores is not None
        outputs = self.account.outputs(STACKS[0])
        graph = replace(self.stores.graph, password=password or self.stores.graph.password)
        self.stores = replace(self.stores, graph=graph)
        text = json.dumps({"graph_user": graph.user, "graph_password": graph.password})
        for name in ("SecretGraph", "SecretGraphWriter", "SecretGraphLoader"):
            self.account.client("secretsmanager").put_secret_value(
                SecretId=outputs[name], SecretString=text
            )

    def forget_secret(self, output: str) -> None:
        """Delete a secret under the deployed functions, as nobody should."""
        self.account.client("secretsmanager").delete_secret(
            SecretId=self.account.outputs(STACKS[0])[output], ForceDeleteWithoutRecovery=True
        )

    def settings(self) -> Settings:
        """Return the settings with which the operator's commands reach both stores."""
        assert self.stores is not None
        index, graph = self.stores.index, self.stores.graph
        addresses = {"index_url": index.url, "index_name": self.target().index_name}
        login = {"graph_user": graph.user, "graph_password": graph.password}
        return Settings.model_validate({**addresses, "graph_url": graph.url, **login})

    def digest(self) -> str:
        """Return the digest of the namespace `default` in both stores."""
        with closing(Wiring(self.settings())) as wiring:
            stores = wiring.index_writer(), wiring.graph_writer(), wiring.register()
            return digests(*stores, ["default"])[2]

    def ingest(self, load: IngestRun, killed_after: int | None = None) -> str:
        """Run the loading machine over the deployed functions; its status."""
        bucket = self.account.outputs(STACKS[0])["DocumentBucket"]
        calls = 0

        def stage(name: str) -> Callable[[dict[str, Any], object], dict[str, Any]]:
            def invoke(event: dict[str, Any], _: object) -> dict[str, Any]:
                nonlocal calls
                calls += 1
                if killed_after is not None and calls > killed_after:
                    raise KeyboardInterrupt
                return self.invoke(f"docstokg-dev-{name}", event)

            return invoke

        functions = {spec.substitution: stage(spec.name) for spec in STAGES}
        execution = run_ingest(
            functions, S3Objects(bucket), load.model_dump(mode="json") | {"bucket": bucket}
        )
        return f"{execution.status} {execution.error or ''} {execution.cause or ''}".strip()

    def invoke(self, function: str, event: dict[str, Any]) -> dict[str, Any]:
        """Call a deployed function at its alias; an error of its own is raised by its name."""
        answer = self.account.client("lambda").invoke(
            FunctionName=function, Qualifier="live", Payload=json.dumps(event).encode()
        )
        body = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            raise FunctionError(body).named()
        return dict(body)

    def post(self, route: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of one request, through the machine or the route's own function."""
        number = self.last = f"local-{time.monotonic_ns()}"
        event = event_of(body, route, CALLER, number)
        if route in ("answer", "search"):
            execution = self.account.client("stepfunctions").start_sync_execution(
                stateMachineArn=f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:docstokg-dev",
                input=json.dumps(event),
            )
            assert execution["status"] == "SUCCEEDED", (
                execution.get("error"),
                execution.get("cause"),
            )
            reply = json.loads(execution["output"])
        else:
            reply = self.invoke(f"docstokg-dev-{route}", event)
        return reply["statusCode"], json.loads(reply["body"])

    def questions(self, count: int) -> str:
        """Ask about documents that were loaded; every answer cites the one that says it."""
        documents = list(corpus().items())
        seconds = []
        for name, (_, question, word) in documents[:: len(documents) // count][:count]:
            begun = time.monotonic()
            status, answer = self.post("answer", question_of(question))
            seconds.append(time.monotonic() - begun)
            assert status == 200, answer
            cited = {citation["doc_id"] for citation in answer["citations"]}
            assert name in cited, (question, cited, answer["diagnostics"])
            assert word in str(answer["answer"]), (question, answer["answer"])
        return f"{count} answered and cited; first {seconds[0]:.1f} s, last {seconds[-1]:.1f} s"

    def warm(self) -> str:
        """Ask until an answer is whole: the first questions start functions, on a busy machine.

        With requests only: the emulator ends whoever raises, so that it would start again.
        """
        _, question, _ = next(iter(corpus().values()))
        for number in range(1, 11):
            status, answer = self.post("answer", question_of(question, timeout_s=60))
            reasons = answer["diagnostics"]["degraded_reasons"] if status == 200 else [status]
            if not reasons:
                return f"whole at question {number}"
            sys.stderr.write(f"not whole yet: {reasons}\n")
        # Its time is a fraction of a second, which a machine that does more than this has not.
        assert reasons == ["kg_timeout"], answer
        return "answered and cited, the graph late each time"

    def code_of(self, function: str) -> str:
        """What Lambda says of the code that its alias runs."""
        response = self.account.client("lambda").get_function(
            FunctionName=f"docstokg-dev-{function}", Qualifier="live"
        )
        return str(response["Configuration"]["CodeSha256"])
