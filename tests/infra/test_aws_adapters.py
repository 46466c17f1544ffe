"""The AWS adapters against moto, real sockets that misbehave, and real keys."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from docstokg.adapters.aws.appconfig_flags import AppConfigFlags
from docstokg.adapters.aws.dynamodb_cache import DynamoDbCache
from docstokg.adapters.aws.dynamodb_counter import DynamoDbCounter
from docstokg.adapters.aws.secrets import read_secrets
from docstokg.adapters.aws.shared_circuit import CircuitTable
from docstokg.adapters.aws.sqs_trace import SqsTrace
from docstokg.adapters.breaker import Breaker
from docstokg.adapters.jwt_tokens import JwksTokens
from docstokg.contracts.envelope import Caller
from docstokg.contracts.state import TraceMessage
from docstokg.domain.circuit import Circuit
from docstokg.domain.deadline import Deadline
from docstokg.entry import Entry
from docstokg.errors import (
    CircuitOpen,
    DocsToKGError,
    Misconfigured,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring, with_secrets
from docstokg_functions.authorize.authorize import authorize
from docstokg_functions.record.record import record, remove_expired
from tests.loopback import Loopback, answering

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LATE = Deadline.after(86_400)
"""Late enough for a busy machine to make a client."""
ARN = "arn:aws:execute-api:eu-central-1:111122223333:abc/live/POST/v1/answer"


@pytest.fixture(params=["name"])
def table(aws: Any, request: pytest.FixtureRequest) -> str:
    """A table by this key, as the template has it."""
    aws.client("dynamodb").create_table(
        TableName="table",
        KeySchema=[{"AttributeName": request.param, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": request.param, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return "table"


@pytest.mark.parametrize("table", ["key"], indirect=True)
def test_a_cached_body_comes_back_until_it_expires(table: str) -> None:
    cache = DynamoDbCache(table)
    body = json.dumps({"answer": "It's \U0001f600"}, ensure_ascii=False)
    assert cache.get("k", LATE) is None
    cache.put("k", "hash", body, 60, LATE)
    assert cache.get("k", LATE) == ("hash", body)
    cache.put("k", "other", body, 0, LATE)
    assert cache.get("k", LATE) is None


def test_a_silent_service_costs_only_the_time_given(
    credentials: None, agent: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.waits.clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", agent.url)
    cache = DynamoDbCache("cache")
    with pytest.raises(Timeout):
        cache.get("k", Deadline.after(0.05))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Circuits are read before each call."""
    monkeypatch.setattr("docstokg.adapters.aws.shared_circuit.REFRESH_S", 0)


def refuse() -> None:
    raise Unavailable("refused")


def _settled(table: CircuitTable) -> None:
    """Wait for its background work."""
    table._background.submit(lambda: None).result()


def test_an_open_circuit_is_shared_between_sandboxes(table: str, fresh: None) -> None:
    first, second = (CircuitTable(table, "graph") for _ in range(2))
    once = Circuit(failures=1)
    local, remote = (Breaker("graph", circuit=once, shared=store) for store in (first, second))
    assert remote.call(lambda: 1, Deadline.after(1)) == 1
    with pytest.raises(Unavailable, match="refused"):
        local.call(refuse, Deadline.after(1))
    _settled(first)
    second.is_open()
    _settled(second)
    for breaker in (local, remote):
        with pytest.raises(CircuitOpen, match="elsewhere"):
            breaker.call(lambda: 1, Deadline.after(1))
    third = CircuitTable(table, "model")
    assert not third.is_open()
    third.open(0)
    _settled(third)
    assert not third.is_open()


def test_without_the_table_only_the_own_circuit_counts(aws: Any, fresh: None) -> None:
    lines: list[str] = []
    telemetry = Telemetry(write=lines.append)
    table = CircuitTable("nowhere", "graph", telemetry=telemetry)
    breaker = Breaker("graph", shared=table)
    for _ in range(3):
        assert breaker.call(lambda: 1, Deadline.after(1)) == 1
        _settled(table)
    table.open()
    _settled(table)
    events = [json.loads(line)["event"] for line in lines]
    assert set(events) == {"circuit_not_read", "circuit_not_shared"}


def test_a_count_is_shared_and_expires(aws: Any, table: str) -> None:
    first, second = (DynamoDbCounter(table) for _ in range(2))
    taken = [counter.add("walks-x-1", 120, LATE) for counter in (first, second, first)]
    assert taken == [1, 2, 3]
    assert first.add("walks-x-2", 120, LATE) == 1
    items = aws.client("dynamodb").scan(TableName=table)["Items"]
    (item,) = (item for item in items if item["taken"]["N"] == "3")
    assert 100 <= int(item["expires_at"]["N"]) - time.time() <= 120
    with pytest.raises(Misconfigured):
        DynamoDbCounter("nowhere").add("x", 60, LATE)


TRACE = TraceMessage(
    request_id="r1",
    session="s",
    namespace="default",
    query_hash="h",
    created_ms=1,
    retrieved=({"uuid": "u1", "rank": 1, "score": 0.5},),
    supported_by=(1,),
)


def test_a_trace_arrives_as_it_was(aws: Any) -> None:
    client = aws.client("sqs")
    url = client.create_queue(QueueName="traces")["QueueUrl"]
    SqsTrace(url).send(TRACE, LATE)
    (message,) = client.receive_message(QueueUrl=url)["Messages"]
    assert TraceMessage.model_validate_json(message["Body"]) == TRACE


def test_a_wrong_secret_disables_only_its_provider(
    aws: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    client = aws.client("secretsmanager")
    for name, value in {
        "graph": {"graph_user": "reader", "graph_password": "p"},
        "model": {"llm_api_key": "k"},
        "foreign": {"max_timeout_s": "60"},
        "number": {"graph_password": 7},
    }.items():
        client.create_secret(Name=name, SecretString=json.dumps(value))
    client.create_secret(Name="text", SecretString="hunter2")
    settings = with_secrets(Settings(secrets="graph, model"), {})
    assert (settings.graph_user, settings.graph_password) == ("reader", "p")
    assert settings.llm_api_key == "k"
    # A provider whose secret was removed is lost, and no other.
    assert with_secrets(Settings(secrets="absent, graph"), {}).graph_user == "reader"
    assert with_secrets(Settings(secrets="absent"), {}) == Settings(secrets="absent")
    capsys.readouterr()
    for name in ("foreign", "number", "text"):
        assert with_secrets(Settings(secrets=f"{name}, graph"), {}).graph_user == "reader"
        assert with_secrets(Settings(secrets=name), {}) == Settings(secrets=name)
    log = capsys.readouterr().err
    assert log.count("secret_unreadable") == 4 and log.count("secret_fields_ignored") == 2
    assert "hunter2" not in log and '"60"' not in log
    client.put_secret_value(
        SecretId="model", SecretString='{"llm_api_key": "k", "rotated_by": "x"}'
    )
    assert with_secrets(Settings(secrets="model"), {}).llm_api_key == "k"
    assert read_secrets([], ["graph_password"], {}) == {}


def test_a_rotated_secret_is_used_without_a_deploy(
    aws: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = aws.client("secretsmanager")
    client.create_secret(Name="graph", SecretString='{"graph_password": "old"}')
    embedder = object()

    def build(wiring: Wiring) -> Any:
        wiring.override("embedder", embedder) if not wiring.models() else None
        return lambda event, _: {
            "password": wiring.settings.graph_password,
            "model": wiring.models()["embedder"] is embedder,
        }

    entry = Entry(build, Settings(secrets="graph"))
    assert entry({}, None) == {"password": "old", "model": True}
    client.put_secret_value(SecretId="graph", SecretString='{"graph_password": "new"}')
    assert entry({}, None)["password"] == "old", "not asked before each event"
    monkeypatch.setattr("docstokg.entry.SECRETS_TIME_S", 0.0)
    assert entry({}, None) == {"password": "new", "model": True}
    client.put_secret_value(SecretId="graph", SecretString='{"graph_user": "me"}')
    assert entry({}, None)["password"] is None, "a field that was taken out is forgotten"
    client.put_secret_value(SecretId="graph", SecretString='{"graph_password": "new"}')
    assert entry({}, None)["password"] == "new"
    # What cannot be read is no reason to forget what was.
    client.delete_secret(SecretId="graph", ForceDeleteWithoutRecovery=True)
    assert entry({}, None)["password"] == "new"


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A server, where AppConfig's agent is looked for before each request."""
    with answering() as server:
        monkeypatch.setattr("docstokg.adapters.aws.appconfig_flags.PORT", server.port)
        monkeypatch.setattr("docstokg.adapters.aws.appconfig_flags.KEEP_S", 0)
        yield server


def test_functions_without_their_agent_keep_the_last_flags(agent: Loopback) -> None:
    agent.status, agent.answer = 200, {"KG_2HOP_ENABLED": False, "UNKNOWN": True}
    flags = AppConfigFlags("a/e/p")
    wiring = Wiring(Settings(appconfig="a/e/p"), ports={"flags": flags})
    assert wiring.current_settings().kg_2hop_enabled is False
    agent.status = 500
    assert wiring.current_settings().kg_2hop_enabled is False
    fresh = AppConfigFlags("a/e/p")
    unknowing = Wiring(Settings(appconfig="a/e/p"), ports={"flags": fresh})
    # Somebody may have switched it off: nobody knows before the agent has answered once.
    assert unknowing.current_settings().kg_2hop_enabled is False
    assert unknowing.current_settings().kg_enabled is False
    agent.status, agent.answer = 200, {"KG_ENABLED": True, "KG_2HOP_ENABLED": True}
    assert unknowing.current_settings().kg_2hop_enabled is True


RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
ISSUER = "https://login.test/"


@pytest.fixture
def keys(agent: Loopback) -> JwksTokens:
    rsa_key = jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True)
    curve_key = jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True)
    published = [rsa_key | {"kid": "1", "use": "sig"}, curve_key | {"kid": "2", "use": "sig"}]
    agent.status, agent.answer = 200, {"keys": published}
    return JwksTokens(ISSUER, "docstokg", f"http://127.0.0.1:{agent.port}/jwks")


def token(key: Any = RSA, kid: str = "1", algorithm: str = "RS256", **changes: Any) -> str:
    claims: dict[str, Any] = {
        "iss": ISSUER, "aud": "docstokg", "sub": "o'neil", "exp": time.time() + 60,
        "namespaces": ["default"], "groups": ["staff"],
    }  # fmt: skip
    claims |= changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


def policy(tokens: JwksTokens, headers: dict[str, str] | None) -> dict[str, Any]:
    return authorize({"methodArn": ARN, "headers": headers}, tokens.caller, {})


@pytest.mark.parametrize(
    "forged",
    [
        lambda: token(exp=time.time() - 3600),
        lambda: token(exp=None),
        lambda: token(iss="https://other.test/"),
        lambda: token(aud="another"),
        lambda: token(sub=None),
        lambda: token(OTHER),
        lambda: token(kid="unknown"),
        lambda: token(namespaces=7),
        lambda: token(aud=None, client_id="docstokg"),
        lambda: token(groups=[1]),
        lambda: token("public key as a shared secret, of 32 bytes", algorithm="HS256"),
        lambda: jwt.encode({"sub": "x"}, None, algorithm="none", headers={"kid": "1"}),
        lambda: "not.a.token",
        lambda: "",
    ],
)
def test_a_token_that_is_not_good_is_nobody(keys: JwksTokens, forged: Callable[[], str]) -> None:
    assert keys.caller(forged()) is None
    # A denial, not an error: strangers must not be able to raise our alarms.
    answer = policy(keys, {"Authorization": f"Bearer {forged()}"})
    (statement,) = answer["policyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert "context" not in answer


def test_an_issuer_may_name_its_claims_freely(agent: Loopback, keys: JwksTokens) -> None:
    """Cognito's access tokens: `client_id`, no `aud`, groups as a list, the rest as text."""
    cognito = Wiring(
        Settings(
            jwt_issuer=ISSUER,
            jwt_audience="docstokg",
            jwt_jwks_url=f"http://127.0.0.1:{agent.port}/jwks",
            jwt_claims=("client_id", "custom:spaces", "cognito:groups", "custom:load"),
        )
    ).token_verifier()
    claims = {
        "custom:spaces": "default legal",
        "cognito:groups": ["staff"],
        "custom:load": "legal",
    }
    sent = token(aud=None, namespaces=None, groups=None, client_id="docstokg", **claims)
    assert cognito.caller(sent) == Caller(
        sub="o'neil", namespaces=("default", "legal"), groups=("staff",), load=("legal",)
    )
    assert cognito.caller(token(aud=None, client_id="another", **claims)) is None
    assert cognito.caller(token(**claims)) is None


def test_without_the_issuers_keys_tokens_are_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    tokens = JwksTokens(ISSUER, "docstokg", f"http://127.0.0.1:{port}/jwks")
    with pytest.raises(Unavailable):
        policy(tokens, {"authorization": f"Bearer {token()}"})


def test_policies_cover_the_stage_and_carry_the_caller(keys: JwksTokens) -> None:
    answer = policy(keys, {"AUTHORIZATION": f"bearer {token()}"})
    assert answer["principalId"] == "o'neil"
    (statement,) = answer["policyDocument"]["Statement"]
    assert statement["Resource"] == "arn:aws:execute-api:eu-central-1:111122223333:abc/live/*"
    assert "'" not in answer["context"]["caller"]
    assert statement["Effect"] == "Allow"
    for headers in ({}, None, {"Authorization": token()}, {"Authorization": "Bearer "}):
        refused = policy(keys, headers)
        assert refused["policyDocument"]["Statement"][0]["Effect"] == "Deny"


class Remembered:
    """A TraceStore in memory that raises `error` for the request `refuse`."""

    def __init__(self, refuse: str = "", error: type[DocsToKGError] = WrongAnswer) -> None:
        self.rows: dict[str, TraceMessage] = {}
        self._refuse, self._error = refuse, error

    def write(self, messages: Any, deadline: Deadline) -> None:
        if any(message.request_id == self._refuse for message in messages):
            raise self._error("refused")
        self.rows |= {message.request_id: message for message in messages}

    def remove_before(self, epoch_ms: int, deadline: Deadline) -> int:
        old = [key for key, row in self.rows.items() if row.created_ms < epoch_ms]
        for key in old:
            del self.rows[key]
        return len(old)


def records(*names: str) -> list[dict[str, str]]:
    return [
        {
            "messageId": f"m-{name}",
            "body": TRACE.model_copy(update={"request_id": name}).model_dump_json(),
        }
        for name in names
    ]


def test_only_failed_messages_go_back() -> None:
    telemetry = Wiring(Settings()).telemetry
    store = Remembered(refuse="b")
    answer = record([*records("a", "b", "c"), {"messageId": "bad", "body": "{"}], store, telemetry)
    assert {f["itemIdentifier"] for f in answer["batchItemFailures"]} == {"m-b", "bad"}
    assert set(store.rows) == {"a", "c"}
    down = Remembered(refuse="b", error=Unavailable)
    answer = record(records("a", "b", "c"), down, telemetry)
    assert len(answer["batchItemFailures"]) == 3
    assert remove_expired(30, store, telemetry) == {"removed": 2}
