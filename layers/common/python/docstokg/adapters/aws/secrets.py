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
    ids: Iterable[str], allowed: Iterable[str], cached: Known, time_s: float = TIME_S
) -> dict[str, str]:
    """Return the settings in the named secrets, merged in the given order.

    Each secret is a JSON object of settings among `allowed`; other fields are logged and ignored.
    `cached`: each secret's last value, updated here; a missing, refused or unreadable secret keeps
    it, so only its provider is lost. `time_s`: seconds for each secret.
    """
    service = AwsService("secretsmanager")
    permitted = frozenset(allowed)
    merged: dict[str, str] = {}
    for secret_id in ids:
        try:
            answer = service.request("get_secret_value", Deadline.after(time_s), SecretId=secret_id)
            value = _TEXTS.validate_json(answer["SecretString"], strict=True)
        except (Misconfigured, KeyError, ValueError) as exc:
            # Another cause would contain the secret.
            fields = cause(exc) if isinstance(exc, Misconfigured) else {"kind": type(exc).__name__}
            Telemetry().log("WARNING", "secret_unreadable", secret=secret_id, **fields)
            merged |= cached.get(secret_id, {})
            continue
        if foreign := sorted(set(value) - permitted):
            Telemetry().log("WARNING", "secret_fields_ignored", secret=secret_id, fields=foreign)
        value = {name: text for name, text in value.items() if name in permitted}
        cached[secret_id] = value
        merged |= value
    return merged


def text_at(location: str) -> str:
    """Return the text of the secret with this id, "" if it is binary."""
    service = AwsService("secretsmanager")
    return str(
        service.request("get_secret_value", Deadline.after(TEXT_TIME_S), SecretId=location).get(
            "SecretString", ""
        )
    )
