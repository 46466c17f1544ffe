"""The functions of dev as deployed: their own variables, AWS on loopback.

What the processes really call, with which key id, is recorded on the wire and held against the
roles of the template: a right that is missing there is a failure here.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from docstokg.contracts.envelope import Caller
from docstokg_local.asl_engine import Execution, StateMachine
from functions.authorize.authorize import encode_caller
from infra import templates
from infra.specs import built
from tests.conftest import CORPUS, write_corpus
from tests.infra.conftest import ROOT, Template
from tests.infra.deployed import ACCOUNT, REGION, Deployed
from tests.infra.gateway import Answer, render_request, render_response
from tests.infra.iam import Call, Policies
from tests.infra.loopback_aws import LoopbackAws, Moto
from tests.infra.loopback_search import LoopbackSearch
from tests.infra.service_calls import via
from tests.infra.test_permissions import neighbours
from tests.integration.test_signed_requests import certificate
from tests.runtime_api import Fleet, Folders, Sandbox

pytestmark = [pytest.mark.xdist_group("bundles"), pytest.mark.timeout(900)]

ASL = ROOT / "statemachine" / "answer.asl.json"
EVERYTHING = Caller(sub="o'neil", namespaces=("*",), groups=("*",))
AGENT_PORT = 2772
SECRET = "secret-of-"
LOADER = "loader"
# What a service does with our key for a caller that reads or writes through it.
BEHIND = {
    "dynamodb": ("kms:Decrypt",),
    "secretsmanager": ("kms:Decrypt",),
    "sqs": ("kms:GenerateDataKey",),
}


class Agent:
    """AppConfig's agent beside the functions, which listens where the extension does."""

    def __init__(self, flags: dict[str, Any]) -> None:
        body = json.dumps(flags).encode()
        self.paths: list[str] = []
        agent = self

        class Requests(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                agent.paths.append(self.path)
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        self._server = _bound(Requests)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _bound(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """The port is the extension's own; another run on this machine may hold it for a while."""
    until = time.monotonic() + 300
    while True:
        try:
            return ThreadingHTTPServer(("127.0.0.1", AGENT_PORT), handler)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(1)


class Cloud:
    """One environment: loopback AWS, its functions, its state machine behind its gateway."""

    def __init__(self, template: Template, moto: Moto, bundles: Path, folder: Path) -> None:
        self.deployed = Deployed(template)
        self.policies = Policies(self.deployed)
        self.folder, self.moto = folder, moto
        self.names = [spec.name for spec in built() if spec.name not in ("authorize", "record")]
        self.asked: list[tuple[str, Call]] = []
        self.aws = LoopbackAws(moto, start=self._start, invoke=self._invoked)
        secrets = {name: SECRET + name for name in (*self.names, LOADER)}
        self.search = LoopbackSearch(secrets, certificate(folder), self._heard)
        self._make(moto)
        self.variables = {name: self._variables(name) for name in self.names}
        self.fleet = Fleet(
            Folders(bundles / "host"),
            folder / "logs",
            variables=self.variables,
            timeouts={spec.name: float(spec.timeout_s) for spec in built()},
        )
        table = {f"{name.title()}Function": self._step(name) for name in self.names}
        self.machine = StateMachine.from_file(ASL, table)

    def _heard(self, who: str, method: str, path: str) -> None:
        domain = self.deployed.arn(self.deployed.only("AWS::OpenSearchService::Domain"))
        call = Call("", f"es:ESHttp{method.title()}", f"{domain}{path}")
        self.asked.append((who, call))

    def _make(self, moto: Moto) -> None:
        """Tables, queue and secrets as the template has them, filled in as an operator would."""
        deployed = self.deployed
        tables = moto.session.client("dynamodb")
        for name in deployed.all("AWS::DynamoDB::Table"):
            given = deployed.properties(name)
            tables.create_table(
                TableName=deployed.ref(name),
                KeySchema=given["KeySchema"],
                AttributeDefinitions=given["AttributeDefinitions"],
                BillingMode="PAY_PER_REQUEST",
            )
        queues = moto.session.client("sqs")
        for name in deployed.all("AWS::SQS::Queue"):
            queues.create_queue(QueueName=deployed.ref(name).rpartition("/")[2])
        secrets = moto.session.client("secretsmanager")
        self.arns = {}
        for name in deployed.all("AWS::SecretsManager::Secret"):
            field = deployed.properties(name)["GenerateSecretString"]["GenerateStringKey"]
            made = secrets.create_secret(Name=name, SecretString=json.dumps({field: "filled-in"}))
            self.arns[deployed.ref(name)] = made["ARN"]

    def _variables(self, name: str) -> dict[str, str]:
        """The deployed variables; only addresses are changed, to what listens here."""
        found = dict(self.deployed.variables(name))
        if "DOCSTOKG_SECRETS" in found:
            ids = found["DOCSTOKG_SECRETS"].split(",")
            found["DOCSTOKG_SECRETS"] = ",".join(self.arns[arn] for arn in ids)
        if "DOCSTOKG_INDEX_URL" in found:
            found["DOCSTOKG_INDEX_URL"] = self.search.url
            found["DOCSTOKG_INDEX_CA_FILE"] = str(self.folder / "certificate.pem")
        if "DOCSTOKG_GRAPH_URL" in found:
            found["DOCSTOKG_GRAPH_URL"] = f"sqlite:///{self.folder / 'graph.sqlite'}"
        found["DOCSTOKG_CACHE_DIR"] = str(self.folder / "tmp")
        return found | {
            "AWS_ENDPOINT_URL": self.aws.url,
            "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
            "AWS_ACCESS_KEY_ID": name,
            "AWS_SECRET_ACCESS_KEY": SECRET + name,
            "AWS_DEFAULT_REGION": REGION,
        }

    def load(self, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fill index and graph as the operator who has the loader's policy."""
        from docstokg.loading.context import LoadOptions
        from docstokg.loading.pipeline import load
        from docstokg.loading.rejects import RejectLog
        from docstokg.settings import Settings
        from docstokg.wiring import Wiring
        from docstokg_local.load_stores import stores_of

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", LOADER)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET + LOADER)
        write_corpus(self.folder / "corpus", CORPUS)
        settings = Settings(
            index_url=self.search.url,
            index_ca_file=str(self.folder / "certificate.pem"),
            index_auth="sigv4-es",
            index_name=self.deployed.variables("retrieve")["DOCSTOKG_INDEX_NAME"],
            aws_region=REGION,
            graph_url=f"sqlite:///{self.folder / 'graph.sqlite'}",
            cache_dir=str(cache_dir),
        )
        wiring = Wiring(settings)
        try:
            stores = stores_of(wiring, True)
            load([self.folder / "corpus"], LoadOptions(embed=True), stores, RejectLog(None))
        finally:
            wiring.close()

    def _step(self, name: str) -> Any:
        return lambda payload, _: self.fleet.invoke(name, payload)

    def _start(self, given: str) -> dict[str, Any]:
        return {"executionArn": "arn", **said(self.machine.execute(json.loads(given)))}

    def _invoked(self, name: str, event: bytes) -> bytes:
        answer = self.fleet.invoke(name.rpartition("-")[2], json.loads(event))
        return json.dumps(answer).encode()

    def post(self, route: str, body: dict[str, Any]) -> Answer:
        """A question through the gateway's templates and the state machine."""
        template = templates.request_workflow(route, "arn:alias", templates.caller("jwt"))
        context = {"requestId": "req-1", "authorizer": {"caller": encode_caller(EVERYTHING)}}
        request = render_request(template, json.dumps(body), context)
        outcome = said(self.machine.execute(json.loads(request["input"])))
        return render_response(templates.response_workflow(), outcome)

    def route(self, name: str, body: dict[str, Any]) -> Answer:
        """A route that one function serves."""
        template = templates.request_function(name, templates.caller("jwt"))
        context = {"requestId": "req-2", "authorizer": {"caller": encode_caller(EVERYTHING)}}
        event = render_request(template, json.dumps(body), context)
        return render_response(templates.response_function(), self.fleet.invoke(name, event))

    def calls(self) -> Iterator[Call]:
        """Everything recorded, with the role of whoever signed it, once each."""
        back = {moto: ours for ours, moto in self.arns.items()}
        (loader,) = (
            self.deployed.ref(name)
            for name in self.deployed.all("AWS::IAM::ManagedPolicy")
            if "Loader" in name
        )
        for who, call in dict.fromkeys(
            (who, (c.action, c.resource, tuple(c.context.items())))
            for who, c in (*self.aws.calls, *self.asked)
        ):
            principal = loader if who == LOADER else self.deployed.role_of(who)
            action, resource, context = call
            yield Call(principal, action, back.get(resource, resource), dict(context))

    def close(self) -> None:
        self.fleet.close()
        self.search.close()
        self.aws.close()


def said(execution: Execution) -> dict[str, Any]:
    """What StartSyncExecution says of an execution."""
    found: dict[str, Any] = {"status": execution.status}
    if execution.status == "SUCCEEDED":
        found["output"] = json.dumps(execution.output, ensure_ascii=False)
    return found


@pytest.fixture(scope="module", params=["dev"])
def cloud(
    request: pytest.FixtureRequest,
    assembly: Path,
    bundles: Path,
    cache_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp(request.param)
    moto = Moto()
    agent = Agent({"KG_ENABLED": True, "KG_2HOP_ENABLED": True})
    found = Cloud(Template(assembly, request.param), moto, bundles, folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            found.load(cache_dir, patch)
        # Sandboxes start in their INIT phase, which Lambda counts apart from the first event.
        with ThreadPoolExecutor(2) as starting:
            list(starting.map(found.fleet.sandbox, found.names))
        yield found
    finally:
        found.close()
        agent.close()
        moto.close()


def test_the_first_answers_are_cited_and_every_call_is_allowed(cloud: Cloud) -> None:
    body = {"query": "What are seizures?", "cache_key": "k"}
    written = {
        "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {"max_tokens_gen": 256},
        "verbosity": "graph",
    }
    answer = cloud.post("answer", body | written)
    assert answer.status == 200, answer.body
    assert answer.json["diagnostics"]["degraded_reasons"] == []
    assert answer.json["citations"]
    found = cloud.post("search", body | {"cache_key": "s"})
    assert found.status == 200, found.body
    assert found.json["diagnostics"]["degraded_reasons"] == []
    again = cloud.post("search", body | {"cache_key": "s"})
    assert again.json["diagnostics"]["cache_hit"] is True
    walk = cloud.route("traverse", {"seed_ids": ["HP:0001250"], "query": "seizures"})
    assert walk.status == 200, walk.body
    check = cloud.route("check", {"text": "Seizures are a feature of Dravet syndrome."})
    assert check.status == 200, check.body
    for tool, arguments in (
        ("search_documentation", {"query": "seizures"}),
        ("check_grounding", {"text": "Seizures occur."}),
    ):
        params = {"name": tool, "arguments": arguments}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        told = cloud.route("mcp", asked)
        assert told.status == 200, told.body
        assert not told.json["result"].get("isError"), told.body
    calls = list(cloud.calls())
    refused = [call for call in calls if not cloud.policies.allows(call)]
    assert refused == []
    assert cloud.search.refused == []
    actions = {call.action for call in calls}
    assert {
        *("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "sqs:SendMessage"),
        *("es:ESHttpGet", "es:ESHttpPost", "es:ESHttpPut"),
        *("secretsmanager:GetSecretValue", "states:StartSyncExecution"),
    } <= actions
    key = cloud.deployed.arn(cloud.deployed.only("AWS::KMS::Key"))
    for call in calls:
        service = call.action.split(":")[0]
        for action in BEHIND.get(service, ()):
            behind = Call(call.principal, action, key, via(service))
            assert cloud.policies.allows(behind), call
        allowed = [near for near in neighbours(call) if cloud.policies.allows(near)]
        # The loader may write every index of its domain, and a neighbouring path is one.
        assert not allowed or "Loader" in call.principal, allowed


def test_the_account_of_the_calls_is_ours(cloud: Cloud) -> None:
    for call in cloud.calls():
        assert ACCOUNT in call.resource


def test_a_restored_function_uses_todays_secret_and_new_connections(
    cloud: Cloud, bundles: Path
) -> None:
    """Snapshot taken, then the secret is filled in and every socket closed, then restored."""
    secret = next(arn for name, arn in cloud.arns.items() if "GraphReader" in name)
    client = cloud.moto.session.client("secretsmanager")
    variables = cloud.variables["traverse"] | {"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}
    sandbox = Sandbox(
        "traverse",
        Folders(bundles / "host"),
        cloud.folder / "restored.log",
        variables=variables,
        timeout_s=30,
    )
    try:
        before = reads_of(cloud, secret)
        client.put_secret_value(SecretId=secret, SecretString='{"graph_password": "rotated"}')
        cloud.search.cut_connections()
        sandbox.restore()
        template = templates.request_function("traverse", templates.caller("jwt"))
        context = {"requestId": "req-3", "authorizer": {"caller": encode_caller(EVERYTHING)}}
        body = json.dumps({"seed_ids": ["HP:0001250"], "query": "seizures"})
        reply = sandbox.invoke(render_request(template, body, context))
        answer = render_response(templates.response_function(), reply)
    finally:
        sandbox.close()
    assert answer.status == 200, answer.body
    assert reads_of(cloud, secret) == before + 1
    assert "rotated" not in sandbox.log_text()


def reads_of(cloud: Cloud, secret: str) -> int:
    return sum(call.resource == secret for _, call in cloud.aws.calls)
