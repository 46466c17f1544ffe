"""API keys of usage plans belong to callers: the product's authoriser behind the template."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from docstokg.entry import Entry
from docstokg.settings import Settings
from docstokg_functions.authorize.handler import build
from tests.infra.conftest import Template, synthesised
from tests.infra.plans import Plans
from tests.infra.test_template import paths
from tests.loopback import Loopback

pytestmark = [pytest.mark.xdist_group("synth"), pytest.mark.timeout(900)]

ISSUER = "https://login.test/"
# Plan -> the `sub` and the groups of a token of its caller; a plan may belong to a group.
CALLERS = {
    "acme": ("acme", ()),
    "brix": ("user-7", ("brix", "staff")),
    "cora": ("cora@clients", ()),
}
OWNERS = {"acme": "acme", "brix": "brix", "cora": "cora@clients"}
KEYS = {plan: f"{plan}-{'0123456789' * 3}" for plan in CALLERS}
WRONG_PAIRS = [*permutations(CALLERS, 2)]
Statuses = Callable[[dict[str, str]], set[int]]
SIGNING = ec.generate_private_key(ec.SECP256R1())


def token(plan: str, **changes: Any) -> str:
    sub, groups = CALLERS[plan]
    claims = {
        "iss": ISSUER, "aud": "docstokg", "sub": sub, "exp": time.time() + 600,
        "namespaces": [plan], "groups": list(groups),
    }  # fmt: skip
    return jwt.encode(claims | changes, SIGNING, algorithm="ES256", headers={"kid": "1"})


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Template:
    plan = "settings.Metering(rate=1, burst=1, daily_quota=3600)"
    plans = ", ".join(f"{name!r}: __import__('infra.settings').{plan}" for name in CALLERS)
    changes = f"metering={{{plans}}}"
    return synthesised(tmp_path_factory.mktemp("metered"), "staging", changes)


@pytest.fixture
def secret(aws: Any) -> Any:
    """The secret of the keys, filled in as docs/deploy.md says."""
    client = aws.client("secretsmanager")
    client.create_secret(Name="plans", SecretString=json.dumps({"plan_keys": "x=y,z"}))
    texts = [f"{KEYS[plan]}={owner}" for plan, owner in OWNERS.items()]
    client.put_secret_value(
        SecretId="plans", SecretString=json.dumps({"plan_keys": ",".join(texts)})
    )
    return client


@pytest.fixture
def authorizer(secret: Any) -> Iterator[Entry]:
    server = Loopback()
    public = jwt.algorithms.ECAlgorithm.to_jwk(SIGNING.public_key(), as_dict=True)
    server.answer = {"keys": [public | {"kid": "1", "use": "sig"}]}
    settings = Settings(
        secrets="plans",
        jwt_issuer=ISSUER,
        jwt_audience="docstokg",
        jwt_jwks_url=f"{server.url}/jwks",
    )
    yield Entry(build, settings)
    server.close()


@pytest.fixture
def gateway(metered: Template, authorizer: Entry) -> Plans:
    values = {
        name: next(value for plan, value in KEYS.items() if plan.title() in name)
        for name in metered.all("AWS::ApiGateway::ApiKey")
    }
    assert len(values) == len(CALLERS)
    return Plans(metered, values, lambda event: authorizer(event, None))


@pytest.fixture
def statuses(metered: Template, gateway: Plans) -> Statuses:
    """Return a function that returns the statuses of every route that is not open."""
    routes = [m for m in paths(metered).values() if m["AuthorizationType"] == "CUSTOM"]
    return lambda headers: {gateway.status(route, headers) for route in routes}


def pair(bearer: str, key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {bearer}", "X-API-Key": key}


def test_callers_pass_with_their_own_keys(
    metered: Template, gateway: Plans, statuses: Statuses
) -> None:
    for plan, key in KEYS.items():
        assert statuses(pair(token(plan), key)) == {200}, plan
    health = paths(metered)["/v1/health", "GET"]
    assert gateway.status(health, {}) == 200


def test_six_wrong_pairs_are_forbidden(statuses: Statuses) -> None:
    """Every token with every other caller's key, also right after its own."""
    assert len(WRONG_PAIRS) == 6
    for plan, other in WRONG_PAIRS:
        bearer = token(plan)
        assert statuses(pair(bearer, KEYS[plan])) == {200}
        assert statuses(pair(bearer, KEYS[other])) == {403}, (plan, other)
        assert statuses(pair(bearer, KEYS[plan])) == {200}


def test_unknown_and_lent_keys_are_forbidden(statuses: Statuses) -> None:
    for key in ("unknown", KEYS["acme"].upper(), KEYS["acme"][:-1], f"{KEYS['acme']} "):
        assert statuses(pair(token("acme"), key)) == {403}, key
    every_group = token("acme", sub="other", groups=["*"])
    assert statuses(pair(every_group, KEYS["brix"])) == {403}


def test_a_missing_part_of_the_pair_is_unauthorized(statuses: Statuses) -> None:
    """RFC 6750 and MCP want 401 where a credential is missing or no longer valid."""
    bearer, key = token("acme"), KEYS["acme"]
    for headers in ({}, {"Authorization": f"Bearer {bearer}"}, {"X-Api-Key": key}):
        assert statuses(headers) == {401}, headers
    for changes in ({"exp": time.time() - 3600}, {"iss": "https://other.test/"}, {"aud": "x"}):
        assert statuses(pair(token("acme", **changes), key)) == {401}, changes


def test_a_replaced_key_counts_at_the_next_reading(
    authorizer: Entry, secret: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"methodArn": "arn:aws:execute-api:r:a:api/live/GET/v1/models"}
    old, new = (event | {"headers": pair(token("acme"), key)} for key in (KEYS["acme"], "new"))
    assert authorizer(old, None)["usageIdentifierKey"] == KEYS["acme"]
    both = f"{KEYS['acme']}=acme,new=acme"
    for text, admitted in ((both, (True, True)), ("new=acme", (False, True)), ("", (False, False))):
        secret.put_secret_value(SecretId="plans", SecretString=json.dumps({"plan_keys": text}))
        monkeypatch.setattr("docstokg.entry.SECRETS_TIME_S", 0.0)
        replies = [authorizer(sent, None) for sent in (old, new)]
        assert tuple("usageIdentifierKey" in reply for reply in replies) == admitted, text


def test_key_values_are_only_in_the_secret(metered: Template, staging: Template) -> None:
    """The service makes them: neither a value nor a reference to the secret is in a key."""
    for template in (metered, staging):
        for key in template.all("AWS::ApiGateway::ApiKey").values():
            assert key.keys() <= {"Description", "Enabled", "StageKeys", "Tags"}
        (name,) = (n for n in template.all("AWS::SecretsManager::Secret") if "Plans" in n)
        readers = [
            policy
            for policy, statement in template.statements()
            if name in json.dumps(statement["Resource"])
        ]
        assert len(readers) == 1 and "Authorize" in readers[0]
    logged = staging.only("AWS::ApiGateway::Stage")["AccessLogSetting"]["Format"]
    assert "apiKeyId" in logged and not re.search(r"apiKey\b|authorization", logged, re.I)


def test_plans_without_tokens_have_no_secret(dev: Template) -> None:
    assert not [name for name in dev.all("AWS::SecretsManager::Secret") if "Plans" in name]
    assert "ApiKeySourceType" not in dev.only("AWS::ApiGateway::RestApi")
