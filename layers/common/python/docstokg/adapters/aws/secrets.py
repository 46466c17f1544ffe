"""Secrets Manager."""

from collections.abc import Iterable

from pydantic import TypeAdapter

from docstokg.adapters.aws.clients import AwsService
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, cause
from docstokg.observability import Telemetry

TIME_S = 5.0
# Seconds inside a request.
TEXT_TIME_S = 1.0

# Settings by id of their secret.
type Known = dict[str, dict[str, str]]

_TEXTS = TypeAdapter(dict[str, str])


def read_secrets(
    ids: Iterable[str], allowed: Iterable[str], known: Known, time_s: float = TIME_S
) -> dict[str, str]:
    """Return the settings in the named secrets, merged in the given order.

    Each secret is a JSON object of settings among `allowed`; others raise `Misconfigured`. `known`:
    each secret's last value, updated here; a missing or refused secret keeps it. `time_s`: seconds
    for each secret.
    """
    service = AwsService("secretsmanager")
    permitted = frozenset(allowed)
    merged: dict[str, str] = {}
    for secret_id in ids:
        try:
            answer = service.ask("get_secret_value", Deadline.after(time_s), SecretId=secret_id)
        except Misconfigured as exc:
            Telemetry().log("WARNING", "secret_missing", secret=secret_id, **cause(exc))
            merged |= known.get(secret_id, {})
            continue
        try:
            value = _TEXTS.validate_json(answer["SecretString"], strict=True)
        except (KeyError, ValueError):
            # The cause would contain the secret.
            raise Misconfigured(f"secret {secret_id} is not a JSON object of settings") from None
        if foreign := sorted(set(value) - permitted):
            raise Misconfigured(f"secret {secret_id} may not set {', '.join(foreign)}")
        known[secret_id] = value
        merged |= value
    return merged


def text_at(where: str) -> str:
    """Return the text of the secret with this id, "" if it is binary."""
    service = AwsService("secretsmanager")
    return str(
        service.ask("get_secret_value", Deadline.after(TEXT_TIME_S), SecretId=where).get(
            "SecretString", ""
        )
    )
