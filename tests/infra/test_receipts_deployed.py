"""Receipts in AWS: who signs reads the key and nobody else does; the public keys are served."""

import json
from typing import Any

import pytest

from docstokg.adapters.receipt_keys import ReceiptKeys
from docstokg.errors import Misconfigured
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.infra.conftest import Template, synthesised
from tests.infra.gateway import render_response
from tests.infra.test_template import paths

SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:receipts-AbCdEf"
KEYS = "/.well-known/docstokg-keys.json"


@pytest.fixture(scope="module")
def public() -> dict[str, Any]:
    return ReceiptKeys.make().key_set()


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory, public: dict[str, Any]) -> Template:
    changes = f"settings={{'receipt_key': {SECRET!r}}}, receipt_keys={public!r}"
    return synthesised(tmp_path_factory.mktemp("signing"), "dev", changes)


def test_only_respond_may_read_the_key(signing: Template, dev: Template) -> None:
    def readers(template: Template) -> list[str]:
        policies = template.all("AWS::IAM::Policy")
        return [name for name, policy in policies.items() if SECRET in json.dumps(policy)]

    (reader,) = readers(signing)
    assert "Respond" in reader
    assert readers(dev) == []


def test_public_keys_are_served_only_where_they_exist(
    signing: Template, dev: Template, public: dict[str, Any]
) -> None:
    served = paths(signing)[KEYS, "GET"]
    assert (served["AuthorizationType"], served["Integration"]["Type"]) == ("NONE", "MOCK")
    reply = served["Integration"]["IntegrationResponses"][0]
    body = render_response(reply["ResponseTemplates"]["application/json"], {}).json
    assert body == public
    for template, has_keys in ((signing, True), (dev, False)):
        contract = paths(template)["/openapi.json", "GET"]["Integration"]["IntegrationResponses"]
        document = render_response(contract[0]["ResponseTemplates"]["application/json"], {}).json
        assert (KEYS in document["paths"]) is has_keys
    assert (KEYS, "GET") not in paths(dev)


def test_a_key_is_read_from_its_secret(aws: Any) -> None:
    keys = ReceiptKeys.make()
    client = aws.client("secretsmanager")
    secret = client.create_secret(Name="receipts", SecretString=keys.private_pem())
    receipt_keys = Wiring(Settings(receipt_key=secret["ARN"])).receipt_keys()
    assert receipt_keys is not None
    assert receipt_keys.sign({"receipt": {}}) == keys.sign({"receipt": {}})
    other = client.create_secret(Name="other", SecretString='{"graph_password": "hunter2"}')
    with pytest.raises(Misconfigured) as caught:
        Wiring(Settings(receipt_key=other["ARN"])).receipt_keys()
    assert "hunter2" not in str(caught.value)
