"""One environment as deployed: its variables and its definition, with AWS on loopback.

Functions are fresh processes. What Lambda counts in a state's time is counted here, and doubled:
the INIT of a function without a snapshot, and the restore of one with.
"""

from __future__ import annotations

import json
import secrets as random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from docstokg.contracts.routes import RouteName, route_of
from docstokg_local.engine.engine import StateMachine
from infra import templates
from infra.settings import Environment
from infra.specs import FUNCTIONS
from tests.conftest import CORPUS, load_folder, write_corpus
from tests.infra.conftest import Template
from tests.infra.deployed import ACCOUNT, REGION, Deployed
from tests.infra.gateway import (
    Answer,
    outcome_of,
    render_execution,
    render_request,
    render_response,
)
from tests.infra.iam import Call, Policies
from tests.infra.loopback_aws import LoopbackAws, Moto
from tests.infra.loopback_search import LoopbackSearch
from tests.loopback import Loopback
from tests.runtime_api import Fleet, Folders, Sandbox
from tests.signatures import certificate

AGENT_PORT = 2772
"""Where AppConfig's extension listens beside a function."""

SECRET = "secret-of-"
LOADER = "loader"
MODEL_KEY = "filled-in"
PLAN_KEY = "key-of-a-plan-of-this-gateway"
SUBJECT = "o'neil"
ROLE = f"arn:aws:sts::{ACCOUNT}:assumed-role/reader/session"
METHOD = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:restapi1/live/POST/v1/answer"


class Issuer:
    """Who signs the tokens of an environment's callers, and publishes the key."""

    def __init__(self, ours: Environment) -> None:
        self._ours, self._key = ours, ec.generate_private_key(ec.SECP256R1())
        public = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self._server = Loopback()
        self._server.answer = {"keys": [public | {"kid": "1", "use": "sig"}]}
        self.url = f"{self._server.url}/jwks"

    def token(self) -> str:
        tokens = self._ours.tokens
        assert tokens is not None
        claims = {
            "iss": tokens.issuer,
            tokens.claims.split(",")[0]: tokens.audience,
            "sub": SUBJECT,
            "exp": time.time() + 600,
            tokens.claims.split(",")[1]: ["*"],
            tokens.claims.split(",")[2]: ["*"],
        }
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": "1"})

    def close(self) -> None:
        self._server.close()


class Start(NamedTuple):
    """CPU seconds before the event of a function's first call, counted twice."""

    how: str
    seconds: float


class Cloud:
    """One environment: loopback AWS, its functions, its state machine behind its gateway."""

    executions: Any = None

    def __init__(
        self, template: Template, moto: Moto, model: Any, bundles: Path, folder: Path
    ) -> None:
        """`model`: a server on loopback that is asked for answers."""
        self.ours = template.ours
        self.deployed = Deployed(template)
        self.policies = Policies(self.deployed)
        self.folder, self.moto, self.bundles, self.model = folder, moto, bundles, model
        self.names = self.served()
        self.asked: list[tuple[str, Call]] = []
        self.aws = LoopbackAws(
            moto, start=self._start, invoke=self._invoked, executions=self.executions
        )
        signers = {name: SECRET + name for name in (*self.names, LOADER)}
        self.search = LoopbackSearch(signers, certificate(folder), self._heard)
        self.issuer = Issuer(self.ours)
        self._make(moto)
        self.variables = {name: self._variables(name) for name in self.names}
        self.fleet = self._processes("logs")
        self.starts: dict[str, Start] = {}
        self._starting = {name: threading.Lock() for name in self.names}

    def served(self) -> list[str]:
        """Name the functions that answer questions."""
        absent = {"record"} if self.ours.auth == "jwt" else {"record", "authorize"}
        return [s.name for s in FUNCTIONS if s.name not in absent and not s.loads]

    @cached_property
    def machine(self) -> StateMachine:
        """The machine that answers, over these functions."""
        table = {f"{name.title()}Function": self._step(name) for name in self.names}
        machine = self.deployed.properties(self.deployed.machine)
        return StateMachine(json.loads(machine["DefinitionString"]), table)

    def _processes(self, logs: str) -> Fleet:
        return Fleet(
            Folders(self.bundles / "host"),
            self.folder / logs,
            variables=self.variables,
            timeouts={spec.name: float(spec.timeout_s) for spec in FUNCTIONS},
        )

    def restart(self) -> None:
        """End every process and start others, so that the next question is the first again.

        Snapshots lose their connections before they are restored, as at the first start.
        """
        self.fleet.close()
        self.fleet, self.starts = self._processes("logs-anew"), {}
        self.publish()
        self.search.cut_connections()
        self.start()

    def _heard(self, role: str, method: str, path: str) -> None:
        domain = self.deployed.arn(self.deployed.only("AWS::OpenSearchService::Domain"))
        call = Call("", f"es:ESHttp{method.title()}", f"{domain}{path}")
        self.asked.append((role, call))

    def _make(self, moto: Moto) -> None:
        """Tables, queue and secrets as CloudFormation makes them: nothing is filled in yet."""
        deployed = self.deployed
        tables = moto.session.client("dynamodb")
        for name in deployed.all("AWS::DynamoDB::Table"):
            properties = deployed.properties(name)
            tables.create_table(
                TableName=deployed.ref(name),
                KeySchema=properties["KeySchema"],
                AttributeDefinitions=properties["AttributeDefinitions"],
                BillingMode="PAY_PER_REQUEST",
            )
        queues = moto.session.client("sqs")
        for name in deployed.all("AWS::SQS::Queue"):
            queues.create_queue(QueueName=deployed.ref(name).rpartition("/")[2])
        secrets = moto.session.client("secretsmanager")
        self.arns = {}
        for name in deployed.all("AWS::SecretsManager::Secret"):
            rule = deployed.properties(name)["GenerateSecretString"]
            value = json.loads(rule["SecretStringTemplate"])
            value[rule["GenerateStringKey"]] = random.token_hex(16)
            secret = secrets.create_secret(Name=name, SecretString=json.dumps(value))
            self.arns[deployed.ref(name)] = secret["ARN"]

    def fill_in(self) -> None:
        """What docs/deploy.md tells the operator to do after the first deploy."""
        client = self.moto.session.client("secretsmanager")
        for ours, arn in self.arns.items():
            field, text = "llm_api_key", MODEL_KEY
            if "Graph" in ours:
                field = "graph_password"
            elif "Plans" in ours:
                field, text = "plan_keys", f"{PLAN_KEY}={SUBJECT}"
            client.put_secret_value(SecretId=arn, SecretString=json.dumps({field: text}))

    def _variables(self, name: str) -> dict[str, str]:
        """The deployed variables; only addresses are changed, to what listens here."""
        variables = dict(self.deployed.variables(name))
        if "DOCSTOKG_SECRETS" in variables:
            ids = variables["DOCSTOKG_SECRETS"].split(",")
            variables["DOCSTOKG_SECRETS"] = ",".join(self.arns[arn] for arn in ids)
        if "DOCSTOKG_INDEX_URL" in variables:
            variables["DOCSTOKG_INDEX_URL"] = self.search.url
            variables["SSL_CERT_FILE"] = str(self.folder / "certificate.pem")
        if "DOCSTOKG_GRAPH_URL" in variables:
            variables["DOCSTOKG_GRAPH_URL"] = f"sqlite:///{self.folder / 'graph.sqlite'}"
        if "DOCSTOKG_JWT_JWKS_URL" in variables:
            variables["DOCSTOKG_JWT_JWKS_URL"] = self.issuer.url
        if name == "synthesize":
            variables["DOCSTOKG_LLM_BASE_URL"] = self.model.url
        variables["DOCSTOKG_CACHE_DIR"] = str(self.folder / "tmp" / name)
        if name in self.ours.snap_start:
            variables["AWS_LAMBDA_INITIALIZATION_TYPE"] = "snap-start"
        return variables | {
            "AWS_ENDPOINT_URL": self.aws.url,
            "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
            "AWS_ACCESS_KEY_ID": name,
            "AWS_SECRET_ACCESS_KEY": SECRET + name,
            "AWS_DEFAULT_REGION": REGION,
        }

    def publish(self) -> None:
        """Start the processes of a snapshot, as publishing a version does."""
        for name in self.ours.snap_start:
            self.fleet.sandbox(name)

    def start(self) -> None:
        """Start the other processes; no question has waited for them yet, the first one will."""
        with ThreadPoolExecutor(2) as starting:
            list(starting.map(self.fleet.sandbox, self.names))

    def load(self, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fill index and graph as the operator who has the loader's policy."""
        signing = {"AWS_ACCESS_KEY_ID": LOADER, "AWS_SECRET_ACCESS_KEY": SECRET + LOADER}
        trusted = {"SSL_CERT_FILE": str(self.folder / "certificate.pem")}
        for name, value in {**signing, **trusted, "AWS_DEFAULT_REGION": REGION}.items():
            monkeypatch.setenv(name, value)
        load_folder(
            write_corpus(self.folder / "corpus", CORPUS),
            self.folder / "graph.sqlite",
            cache_dir,
            index_url=self.search.url,
            index_auth="sigv4-es",
            index_name=self.deployed.variables("retrieve")["DOCSTOKG_INDEX_NAME"],
        )

    def _step(self, name: str) -> Any:
        return lambda payload, _: self.call(name, payload)

    def call(self, name: str, event: Any) -> Any:
        """Invoke a function; the first time the caller waits for its start, twice as long.

        A start counts by its CPU time: a busy machine's clock would count its other work.
        """
        with self._starting[name]:
            if name not in self.starts:
                self.starts[name] = self._started(name)
                time.sleep(2 * self.starts[name].seconds)
        return self.fleet.invoke(name, event)

    def _started(self, name: str) -> Start:
        sandbox = self.fleet.sandbox(name)
        if name in self.ours.snap_start:
            return Start("restore", sandbox.restore())
        return Start("INIT", sandbox.init_cpu_s)

    def _start(self, input_text: str) -> dict[str, Any]:
        return {"executionArn": "arn", **outcome_of(self.machine.execute(json.loads(input_text)))}

    def _invoked(self, name: str, event: bytes) -> bytes:
        answer = self.call(name.rpartition("-")[2], json.loads(event))
        return json.dumps(answer).encode()

    def post(self, route: str, body: dict[str, Any]) -> Answer:
        """A question through the gateway's templates and the state machine."""
        template = templates.request_workflow(route, "arn:alias", self._caller())
        request = render_request(template, json.dumps(body), self._context())
        return render_execution(self.machine.execute(json.loads(request["input"])))

    def route(
        self, name: RouteName, body: dict[str, Any], sandbox: Sandbox | None = None
    ) -> Answer:
        """A route that one function serves, or the sandbox of it that is given.

        `body`: what is sent, or the parameters of the query string where the route has some.
        """
        route = route_of(name)
        template = templates.request_function(name, self._caller(), route.parameters)
        event = render_request(template, json.dumps(body), self._context(), body)
        reply = self.call(route.function, event) if sandbox is None else sandbox.invoke(event)
        return render_response(templates.response("function"), reply)

    def stream(self, body: dict[str, Any], request_id: str, media: str = "") -> Answer:
        """A question to the function that reads the gateway's own event (AWS_PROXY)."""
        stage = self.deployed.properties(self.deployed.only("AWS::ApiGateway::Stage"))
        reply = self.call(
            "stream",
            {
                "headers": {"content-type": media or "application/json"},
                "body": json.dumps(body),
                "requestContext": self._context() | {"requestId": request_id},
                "stageVariables": stage["Variables"],
            },
        )
        return Answer(reply["statusCode"], reply["headers"], reply["body"])

    def _caller(self) -> str:
        return templates.caller(self.ours.auth, self.ours.iam_namespaces)

    def _context(self) -> dict[str, Any]:
        """Return the gateway's request context: a checked signature, or the authoriser's policy."""
        context: dict[str, Any] = {"requestId": "req-1", "identity": {"userArn": ROLE}}
        if self.ours.auth == "jwt":
            headers = {"Authorization": f"Bearer {self.issuer.token()}", "X-Api-Key": PLAN_KEY}
            policy = self.call("authorize", {"headers": headers, "methodArn": METHOD})
            (statement,) = policy["policyDocument"]["Statement"]
            assert statement["Effect"] == "Allow"
            assert policy.get("usageIdentifierKey", "") == (PLAN_KEY if self.ours.metering else "")
            context["authorizer"] = policy["context"]
        return context

    def calls(self) -> Iterator[Call]:
        """Everything recorded, with the role of whoever signed it, once each."""
        back = {moto: ours for ours, moto in self.arns.items()}
        (loader,) = (
            self.deployed.ref(name)
            for name in self.deployed.all("AWS::IAM::ManagedPolicy")
            if "Loader" in name
        )
        for signer, call in dict.fromkeys(
            (signer, (c.action, c.resource, tuple(c.context.items())))
            for signer, c in (*self.aws.calls, *self.asked)
        ):
            principal = loader if signer == LOADER else self.deployed.role_of(signer)
            action, resource, context = call
            yield Call(principal, action, back.get(resource, resource), dict(context))

    def close(self) -> None:
        self.fleet.close()
        self.search.close()
        self.issuer.close()
        self.aws.close()
