"""Obstacles to a deployment."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.domain.time_budget import EXECUTION_S, LONGEST_DEADLINE_S, NETS
from infra.models import bedrock_models
from infra.settings import ENVIRONMENTS, S3_LIST, UNRESERVED, Environment
from infra.sizing import (
    ANSWER,
    FULL,
    MODEL_S,
    concurrency,
    gib_per_node,
    questions_per_second,
    seconds,
)
from infra.specs import PACKAGED

# Example values of the delivered settings.
EXAMPLE = re.compile(r"example\.(com|org|net)|(vpc|subnet)-0123456789abcdef")
ACCOUNT = re.compile(r"\d{12}")


def obstacles(environment: Environment) -> list[str]:
    """Return the problems of the settings that prevent a deployment, one sentence each."""
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
    return problems + contradictions(environment)


def contradictions(environment: Environment) -> list[str]:
    """Return the settings that no deployment can satisfy together, with the setting to change."""
    return [*_traffic(environment), *_index(environment), *_times(environment)]


def _traffic(environment: Environment) -> Iterator[str]:
    for name, plan in environment.metering.items():
        waf, needed = environment.waf_requests_per_5_minutes, plan.rate * 300
        if waf is not None and waf < needed:
            yield (
                f"waf_requests_per_5_minutes {waf} blocks metering.{name}, whose rate {plan.rate} "
                f"is {needed} in 5 minutes: raise it to at least {needed}, or lower the rate"
            )
        if plan.daily_quota < (hour := plan.rate * 3600):
            yield (
                f"metering.{name}.daily_quota {plan.daily_quota} is used up in less than an hour "
                f"at rate {plan.rate}: raise it to at least {hour}, or lower the rate"
            )
    rate, model_s = sum(plan.rate for plan in environment.metering.values()), _model_s(environment)
    for name in sorted(environment.concurrency.keys() & {*ANSWER, "authorize"}):
        if (reserved := environment.concurrency[name]) < (
            least := concurrency(name, rate, model_s)
        ):
            yield (
                f"concurrency.{name} {reserved} is under {least}, the calls at once of metering's "
                f"{rate} questions per second: raise it to at least {least}, or lower the rate"
            )
    known = {spec.name for spec in PACKAGED}
    for field, names in (
        ("concurrency", environment.concurrency),
        ("snap_start", environment.snap_start),
    ):
        if unknown := sorted(set(names) - known):
            yield f"{field} names no function: {', '.join(unknown)}"


def _index(environment: Environment) -> Iterator[str]:
    index, rate = environment.index, sum(plan.rate for plan in environment.metering.values())
    if index.kind == "existing":  # the owner of the domain sizes it
        return
    if index.zones > index.data_nodes:
        yield f"index.zones {index.zones} needs as many data_nodes, not {index.data_nodes}"
    elif (able := questions_per_second(index)) < rate:
        yield (
            f"index: {index.data_nodes} x {index.instance_type} with {index.chunks} chunks answer "
            f"{able:.0f} questions per second, and metering grants {rate}: more data_nodes, a "
            "larger instance_type, or a lower rate"
        )
    if (gib := gib_per_node(index)) > index.volume_gib * FULL:
        yield (
            f"index.chunks {index.chunks} take {gib:.0f} GiB per node, over {FULL:.0%} of "
            f"volume_gib {index.volume_gib}: raise volume_gib or data_nodes"
        )


def _times(environment: Environment) -> Iterator[str]:
    most = environment.max_timeout_s
    own = environment.settings.get("default_timeout_s")
    if isinstance(own, int | float) and own > most:
        yield f"settings.default_timeout_s {own} is over max_timeout_s {most}: lower it"
    if most > LONGEST_DEADLINE_S:
        yield (
            f"max_timeout_s {most} does not end before the execution ({EXECUTION_S} s): at most "
            f"{LONGEST_DEADLINE_S:.0f}"
        )
    longest = max(net.state_s or 0 for net in NETS.values())
    if longest + environment.cold_start_s >= EXECUTION_S:
        yield (
            f"cold_start_s {environment.cold_start_s} with a state of {longest} s does not end "
            f"before the execution ({EXECUTION_S} s): at most {EXECUTION_S - longest - 1}"
        )


def _model_s(environment: Environment) -> float:
    return MODEL_S if set(environment.models) - {EXTRACTIVE} else 0.0


def cautions(environment: Environment) -> list[str]:
    """Return warnings about a working configuration, one sentence each."""
    told = []
    if not environment.alarm_email:
        told.append("alarm_email is empty: alarms change colour and nobody is told")
    rate, model_s = sum(plan.rate for plan in environment.metering.values()), _model_s(environment)
    for name in ("stream", "mcp"):
        reserved = environment.concurrency.get(name)
        if reserved is not None and reserved < concurrency(name, rate, model_s):
            told.append(
                f"concurrency.{name} {reserved} answers {reserved / seconds(name, model_s):.0f} "
                f"questions per second, and metering grants {rate}: others get 429"
            )
    if names := bedrock_models(environment):
        told.append(
            f"{', '.join(names)}: the account's first call of each is made by a person who has "
            "aws-marketplace:Subscribe and ViewSubscriptions; no function has these"
        )
    wanted = environment.settings.get("load_concurrency", environment.loads)
    if wanted != environment.loads:
        told.append(
            f"load_concurrency {wanted} becomes {environment.loads}: each load needs two of the "
            f"{environment.loading} tasks that load_tasks or function_quota leaves"
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
