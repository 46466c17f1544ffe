"""Obstacles to a deployment."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from docstokg.domain.time_budget import EXECUTION_S, LONGEST_DEADLINE_S, NETS
from docstokg.errors import Misconfigured
from infra.forms import misshapen
from infra.models import bedrock_models
from infra.settings import ENVIRONMENTS, S3_LIST, S3_LIST_REGION, UNRESERVED, Environment
from infra.sizing import (
    ANSWER,
    concurrency,
    disk_gib,
    gib_per_node,
    model_seconds,
    questions_per_second,
    seconds,
)
from infra.specs import PACKAGED
from infra.variables import chosen

# A function with SnapStart may have this much.
SNAPPED_STORAGE_MB = 512
# Largest volume of the small nodes (OpenSearch Service guide, EBS volume size quotas).
LARGEST_GIB = {
    **{f"t2.{size}.search": 35 for size in ("micro", "small", "medium")},
    "t3.small.search": 100,
    "t3.medium.search": 200,
}
# Example values of the delivered settings.
EXAMPLE = re.compile(r"example\.(com|org|net)|(vpc|subnet)-0123456789abcdef")


def obstacles(environment: Environment) -> list[str]:
    """Return the problems of the settings that prevent a deployment, one sentence each."""
    problems = []
    if not environment.account:
        problems.append("account is empty: name the twelve digits this environment belongs to")
    problems += [
        f"{path} is an example: {value}"
        for path, value in _texts(environment, "")
        if EXAMPLE.search(value)
    ]
    account_region, room = (
        (environment.account, environment.region),
        environment.function_quota - UNRESERVED,
    )
    others = (other for other in ENVIRONMENTS.values() if other.name != environment.name)
    beside = (other for other in others if (other.account, other.region) == account_region)
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
    misshapes = [line for path, text in _texts(environment, "") for line in misshapen(path, text)]
    if misshapes:
        return misshapes
    checks = (_callers, _places, _traffic, _index, _times, _product)
    return [problem for check in checks for problem in check(environment)]


def _callers(environment: Environment) -> Iterator[str]:
    if environment.auth == "jwt" and environment.tokens is None:
        yield "auth is jwt, and tokens names no issuer: add [tokens], or auth = iam"
    if environment.auth == "iam":
        yield from (
            f"auth is iam, and {field} needs callers with tokens: auth = jwt, or no {field}"
            for field in ("tokens", "metering", "page")
            if getattr(environment, field)
        )
    if environment.auth == "iam" and not environment.iam_namespaces:
        yield 'iam_namespaces is empty, so nobody may ask: name a namespace, or "*"'
    if environment.sign_in and not environment.page:
        yield "sign_in is of the page: page = true, or no [sign_in]"
    signed = bool(environment.settings.get("receipt_key"))
    if signed != bool(environment.receipt_keys):
        yield (
            "settings.receipt_key and receipt_keys belong together: set both, from "
            "`docstokg receipt-key`, or none"
        )
    if bool(environment.domain_name) != bool(environment.certificate_arn):
        yield "domain_name and certificate_arn belong together: set both or none"
    for key in environment.tags:
        if not re.fullmatch(r"(?!aws:)[\w .:/=+@-]{1,128}", key):
            yield f"tags {key!r} should be 1 to 128 letters, digits and _.:/=+@-, without aws:"


def _places(environment: Environment) -> Iterator[str]:
    region, account, network = environment.region, environment.account, environment.network
    for path, arn in (
        ("certificate_arn", environment.certificate_arn),
        ("index.arn", environment.index.arn),
    ):
        place = arn.split(":")[3:5]
        if arn and place != [region, account or place[1]]:
            yield f"{path} {arn} should be of {region} and account {account or 'ACCOUNT'}"
    if network is None:
        return
    if network.s3_prefix_list == S3_LIST and region != S3_LIST_REGION:
        yield f"network.s3_prefix_list {S3_LIST} is of {S3_LIST_REGION}, not of this region"
    if foreign := [zone for zone in network.zones if zone[:-1] != region]:
        yield f"network.zones {', '.join(foreign)} should be zones of region {region}"
    if not len(network.zones) == len(network.private_subnets) > 0:
        yield (
            f"network.private_subnets names {len(network.private_subnets)} subnets and "
            f"network.zones {len(network.zones)}: one subnet per zone, at least one"
        )
    for path, names in (("zones", network.zones), ("private_subnets", network.private_subnets)):
        if len(set(names)) < len(names):
            yield f"network.{path} names one twice: each once"
    if environment.index.kind == "managed" and environment.index.zones > len(network.zones):
        yield (
            f"index.zones {environment.index.zones} is over the {len(network.zones)} of "
            "network.zones: name more zones and subnets, or lower index.zones"
        )


def _product(environment: Environment) -> Iterator[str]:
    try:
        chosen(environment)
    except Misconfigured as exc:
        yield re.sub(r"DOCSTOKG_(\w+)", lambda name: f"settings.{name[1].lower()}", str(exc))


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
    rate, model_s = environment.rate, model_seconds(environment)
    for name in sorted(environment.concurrency.keys() & {*ANSWER, "authorize"}):
        if (reserved := environment.concurrency[name]) < (
            needed := concurrency(name, rate, model_s)
        ):
            yield (
                f"concurrency.{name} {reserved} is under {needed}, the calls at once of metering's "
                f"{rate} questions per second: raise it to at least {needed}, or lower the rate"
            )
    functions = sorted(spec.name for spec in PACKAGED)
    for field, names in (
        ("concurrency", environment.concurrency),
        ("snap_start", environment.snap_start),
    ):
        if unknown := sorted(set(names).difference(functions)):
            yield f"{field} names no function: {', '.join(unknown)}; one of {', '.join(functions)}"
    large = {spec.name for spec in PACKAGED if spec.storage_mb > SNAPPED_STORAGE_MB}
    if snapped := sorted(large.intersection(environment.snap_start)):
        yield (
            f"snap_start {', '.join(snapped)}: a snapshot allows {SNAPPED_STORAGE_MB} MB of "
            "storage, and these have more"
        )


def _index(environment: Environment) -> Iterator[str]:
    index, rate = environment.index, environment.rate
    if index.kind == "existing":  # the owner of the domain sizes it
        for path in ("endpoint", "arn"):
            if not getattr(index, path):
                yield f"index.{path} is empty: an existing domain has one"
        return
    if index.endpoint or index.arn:
        yield "index.endpoint and index.arn are of kind existing: leave them out, or change kind"
    largest = LARGEST_GIB.get(index.instance_type, index.volume_gib)
    if index.volume_gib > largest:
        yield f"index.volume_gib {index.volume_gib} is over {largest}, of {index.instance_type}"
    if index.zones == 2 and index.data_nodes % 2:
        yield f"index.data_nodes {index.data_nodes} should be even for two zones"
    if index.zones > index.data_nodes:
        yield f"index.zones {index.zones} needs as many data_nodes, not {index.data_nodes}"
    elif (able := questions_per_second(index)) < rate:
        yield (
            f"index: {index.data_nodes} x {index.instance_type} with {index.chunks} chunks answer "
            f"{able:.0f} questions per second, and metering grants {rate}: more data_nodes, a "
            "larger instance_type, or a lower rate"
        )
    if (least_gib := disk_gib(gib_per_node(index))) > index.volume_gib:
        yield (
            f"index.chunks {index.chunks} take {gib_per_node(index):.0f} GiB per node, and with "
            f"reserve and resize more than volume_gib {index.volume_gib}: raise volume_gib to at "
            f"least {least_gib}, or data_nodes"
        )


def _times(environment: Environment) -> Iterator[str]:
    timeout_s = environment.max_timeout_s
    default_s = environment.settings.get("default_timeout_s")
    if isinstance(default_s, int | float) and default_s > timeout_s:
        yield f"settings.default_timeout_s {default_s} is over max_timeout_s {timeout_s}: lower it"
    if timeout_s > LONGEST_DEADLINE_S:
        yield (
            f"max_timeout_s {timeout_s} does not end before the execution ({EXECUTION_S} s): at "
            f"most {LONGEST_DEADLINE_S:.0f}"
        )
    longest = max(net.state_s or 0 for net in NETS.values())
    if longest + environment.cold_start_s >= EXECUTION_S:
        yield (
            f"cold_start_s {environment.cold_start_s} with a state of {longest} s does not end "
            f"before the execution ({EXECUTION_S} s): at most {EXECUTION_S - longest - 1}"
        )


def cautions(environment: Environment) -> list[str]:
    """Return warnings about a working configuration, one sentence each."""
    warnings = []
    if not environment.alarm_email:
        warnings.append("alarm_email is empty: alarms change colour and nobody is told")
    rate, model_s = environment.rate, model_seconds(environment)
    for name in ("stream", "mcp"):
        reserved = environment.concurrency.get(name)
        if reserved is not None and reserved < concurrency(name, rate, model_s):
            warnings.append(
                f"concurrency.{name} {reserved} answers {reserved / seconds(name, model_s):.0f} "
                f"questions per second, and metering grants {rate}: others get 429"
            )
    if names := bedrock_models(environment):
        warnings.append(
            f"{', '.join(names)}: the account's first call of each is made by a person who has "
            "aws-marketplace:Subscribe and ViewSubscriptions; no function has these"
        )
    wanted = environment.settings.get("load_concurrency", environment.loads)
    if wanted != environment.loads:
        warnings.append(
            f"load_concurrency {wanted} becomes {environment.loads}: each load needs two of the "
            f"{environment.loading} tasks that load_tasks or function_quota leaves"
        )
    return warnings


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
