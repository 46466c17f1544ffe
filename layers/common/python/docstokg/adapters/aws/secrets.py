"""Credentials by reference: the environment names secrets, this reads them once at INIT."""

import json
from collections.abc import Iterable
from typing import Any

from docstokg.adapters.aws.clients import AwsService
from docstokg.errors import Misconfigured

TIME_S = 5.0


def read_secrets(
    ids: Iterable[str], allowed: Iterable[str], time_s: float = TIME_S
) -> dict[str, str]:
    """Give the settings in the named Secrets Manager secrets, merged in the order given.

    Each secret is a JSON object whose fields are names of settings among `allowed`; a foreign
    field is `Misconfigured`, so that a secret cannot change what is not a credential. `time_s`:
    seconds for each secret.
    """
    service = AwsService("secretsmanager")
    permitted = frozenset(allowed)
    merged: dict[str, str] = {}
    for secret_id in ids:
        merged.update(_fields(secret_id, _value(service, secret_id, time_s), permitted))
    return merged


def _value(service: AwsService, secret_id: str, time_s: float) -> Any:
    answer = service.call(lambda client: client.get_secret_value(SecretId=secret_id), time_s)
    try:
        return json.loads(answer["SecretString"])
    except (KeyError, ValueError):
        # The cause would quote the secret.
        raise Misconfigured(f"secret {secret_id} is not a JSON object of settings") from None


def _fields(secret_id: str, value: Any, permitted: frozenset[str]) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise Misconfigured(f"secret {secret_id} is not a JSON object of settings")
    if foreign := sorted(set(value) - permitted):
        raise Misconfigured(f"secret {secret_id} may not set {', '.join(foreign)}")
    return value
