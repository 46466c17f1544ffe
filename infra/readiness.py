"""Problems that prevent a deployment."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from infra.models import bedrock_models
from infra.settings import ENVIRONMENTS, S3_LIST, UNRESERVED, Environment

# Example values of the delivered settings.
EXAMPLE = re.compile(r"example\.(com|org|net)|(vpc|subnet)-0123456789abcdef")
ACCOUNT = re.compile(r"\d{12}")


def obstacles(environment: Environment) -> list[str]:
    """Return the settings to complete or raise, one sentence each."""
    problems = []
    if not environment.account:
        problems.append("account is empty: name the twelve digits this environment belongs to")
    elif not ACCOUNT.fullmatch(environment.account):
        problems.append(f"account {environment.account!r} is not twelve digits")
    problems += [
        f"{path} is an example: {value}"
        for path, value in _texts(environment, "")
        if EXAMPLE.search(value)
    ]
    if environment.auth == "jwt" and environment.tokens is None:
        problems.append("auth is jwt, and tokens names no issuer")
    network = environment.network
    if network and network.s3_prefix_list == S3_LIST and environment.region != "eu-central-1":
        problems.append(f"network.s3_prefix_list {S3_LIST} is of eu-central-1, not of this region")
    here, room = (environment.account, environment.region), environment.function_quota - UNRESERVED
    others = (other for other in ENVIRONMENTS.values() if other.name != environment.name)
    beside = (other for other in others if (other.account, other.region) == here)
    together = environment.reserved + sum(other.reserved for other in beside)
    if environment.account and together > max(room, 0) >= environment.reserved:
        problems.append(f"the environments of this account reserve {together} together")
    if environment.reserved and environment.reserved > room:
        problems.append(
            f"concurrency reserves {environment.reserved}; with {UNRESERVED} left unreserved the "
            f"account needs a quota of {environment.reserved + UNRESERVED} concurrent executions, "
            f"and function_quota says {environment.function_quota}"
        )
    return problems


def cautions(environment: Environment) -> list[str]:
    """Return warnings about a working configuration."""
    told = []
    if not environment.alarm_email:
        told.append("alarm_email is empty: alarms change colour and nobody is told")
    if names := bedrock_models(environment):
        told.append(
            f"{', '.join(names)}: the account's first call of each is made by a person who has "
            "aws-marketplace:Subscribe and ViewSubscriptions; no function has these"
        )
    return told


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, f"{path}[{key}]")
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _texts(item, f"{path}[{number}]")
