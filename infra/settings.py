"""Settings of environments."""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from docstokg.contracts import Json
from docstokg.contracts.request import EmbedderName, Namespace
from docstokg.errors import Misconfigured
from docstokg.settings import MODELS, Settings
from docstokg_functions.page.page import SignIn
from infra.schedules import schedule
from infra.specs import ROOT

type When = Annotated[str, AfterValidator(schedule)]
type NodeType = Annotated[
    str, Field(pattern=r"^\w+\.(nano|micro|small|medium|large|\d*xlarge)\.search$")
]
type Positive = Annotated[int, Field(ge=1)]

# A misspelt setting is refused.
STRICT = ConfigDict(extra="forbid")
# Prefix list of S3 in that region.
S3_LIST, S3_LIST_REGION = "pl-6ea54007", "eu-central-1"


@dataclass(frozen=True, slots=True, config=STRICT)
class Index:
    """The search domain: an existing one, possibly shared, or a new one.

    `endpoint` and `arn` belong to `existing`; the node fields belong to `managed`. Serverless
    collections are not supported. `chunks`: expected number, for the number of shards.
    """

    kind: Literal["existing", "managed"]
    endpoint: str = ""
    arn: str = ""
    instance_type: NodeType = "t3.small.search"
    data_nodes: Annotated[int, Field(ge=1, le=200)] = 1
    manager_type: NodeType = "m7g.medium.search"
    managers: Literal[0, 3, 5] = 0
    zones: Literal[1, 2, 3] = 1
    volume_gib: Annotated[int, Field(ge=10, le=24_576)] = 10
    chunks: Positive = 20_000


@dataclass(frozen=True, slots=True, config=STRICT)
class Network:
    """An existing VPC; its private subnets need a route to the graph and the model.

    They also need a gateway endpoint for S3, with the region's `s3_prefix_list` (default:
    eu-central-1; see `aws ec2 describe-managed-prefix-lists`).
    """

    vpc_id: str
    zones: tuple[str, ...]
    private_subnets: tuple[str, ...]
    s3_prefix_list: str = S3_LIST


@dataclass(frozen=True, slots=True, config=STRICT)
class Tokens:
    """Accepted JWTs: issuer, audience and the URL of the issuer's public keys.

    `claims`: claim names of audience, namespaces, groups, and namespaces to load into; see
    docs/deploy.md.
    """

    issuer: str
    audience: str
    jwks_url: str
    claims: str = "aud,namespaces,groups,load"


@dataclass(frozen=True, slots=True, config=STRICT)
class Metering:
    """Usage plan of one caller: requests per second, burst, and requests per day."""

    rate: Annotated[int, Field(ge=1, le=10_000)]
    burst: Annotated[int, Field(ge=1, le=5_000)]
    daily_quota: Positive


@dataclass(frozen=True, slots=True, config=STRICT)
class Gradual:
    """Traffic shift of the alias: first share in per cent, minutes between steps."""

    kind: Literal["ALL_AT_ONCE", "CANARY", "LINEAR"]
    percentage: Annotated[int, Field(ge=1, le=99)] = 10
    interval_minutes: Annotated[int, Field(ge=1, le=2_100)] = 10


@dataclass(frozen=True, slots=True, config=STRICT)
class Canary:
    """A question asked every few minutes; an alarm fires if no passage is found."""

    question: str = "What is this about?"
    namespace: Namespace = "default"
    minutes: Annotated[int, Field(ge=1, le=1_440)] = 5


@dataclass(frozen=True, slots=True, config=STRICT)
class Environment:
    """One deployment; it contains no secrets.

    `account`: the only account it may be deployed to; `tags`: for billing and ownership.
    `function_quota`: the account's concurrent executions in the region; `load_tasks`: maximum of
    them for loads, if set. `load_on_change`: load `sources/NAMESPACE/` after its objects change.
    `sync`: schedules of such loads by namespace, `rate(1 day)` or `cron(...)`. `notice_email`: for
    alarms that can wait, by default `alarm_email`. `cold_start_s`: added to the time limit of each
    state, which includes INIT. `metering`: usage plans by name; without any, API keys are not
    required. `page`: also serve the page and the API reference; requires tokens, which a person
    pastes, or gets by signing in if `sign_in` configures a client. `cors_origin`: the foreign page
    whose scripts may call, as `https://HOST`. `settings`: product settings by name
    (docs/settings.md), such as `{"rerank_provider": "cohere"}`; see infra/variables.py.
    `receipt_keys`: the key set that `docstokg receipt-key` prints, to publish.
    """

    name: str
    account: str
    region: str
    index: Index
    auth: Literal["jwt", "iam"]
    gradual: Gradual
    graph_url: str
    tokens: Tokens | None = None
    metering: Mapping[str, Metering] = field(default_factory=dict)
    iam_namespaces: tuple[str, ...] = ()
    iam_load: tuple[str, ...] = ()
    network: Network | None = None
    waf_requests_per_5_minutes: Annotated[int, Field(ge=10, le=2_000_000_000)] | None = None
    alarm_email: str = ""
    notice_email: str = ""
    canary: Canary | None = None
    monthly_budget_usd: Positive = 100
    max_timeout_s: Positive = 25
    log_days: Literal[1, 7, 14, 30, 60, 90, 180, 365, 731, 1827] = 30
    retain_data: bool = False
    termination_protection: bool = False
    snap_start: tuple[str, ...] = ()
    cold_start_s: Annotated[int, Field(ge=0)] = 0
    concurrency: Mapping[str, Positive] = field(default_factory=dict)
    function_quota: Positive = 1_000
    load_tasks: Annotated[int, Field(ge=2)] | None = None
    load_on_change: bool = True
    sync: Mapping[Namespace, When] = field(default_factory=dict)
    detailed_metrics: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    stage: str = "live"
    page: bool = False
    sign_in: SignIn | None = None
    cors_origin: str = ""
    receipt_keys: Mapping[str, object] = field(default_factory=dict)
    domain_name: str = ""
    certificate_arn: str = ""
    embed_provider: EmbedderName = "local"
    models: tuple[str, ...] = MODELS
    settings: Mapping[str, str | int | float | bool | tuple[str, ...]] = field(default_factory=dict)

    @property
    def index_name(self) -> str:
        """Return the alias of the chunk index."""
        return f"docstokg-{self.name}"

    @property
    def loading(self) -> int:
        """Return the maximum concurrent tasks of all loads."""
        free = self.function_quota - self.reserved
        return self.load_tasks or max(2, min(MOST_LOADING, free * 2 // 5))

    @property
    def loads(self) -> int:
        """Return the number of loads that share these tasks."""
        chosen = self.settings.get("load_concurrency")
        wanted = chosen if isinstance(chosen, int) else Settings().load_concurrency
        # Each has two tasks at once.
        return min(wanted, max(1, self.loading // 2))

    @property
    def rate(self) -> int:
        """Return the questions per second that all usage plans grant together."""
        return sum(plan.rate for plan in self.metering.values())

    @property
    def reserved(self) -> int:
        """Return the concurrent executions reserved for single functions."""
        return sum(self.concurrency.values())


# More tasks are not faster: they share one graph.
MOST_LOADING = 100
# Minimum that AWS leaves unreserved.
UNRESERVED = 100


def settings_file() -> Path:
    """Return the file named by CDK's context or the variable `ENVIRONMENTS`, or the default."""
    context = json.loads(os.environ.get("CDK_CONTEXT_JSON") or "{}")
    named = context.get("environments") or os.environ.get("ENVIRONMENTS")
    return Path(named) if named else ROOT / "environments.toml"


def read(path: Path) -> dict[str, Environment]:
    """Return the environments of a TOML file.

    `like` copies another environment, whose tables are merged with the ones of the copy; an empty
    table replaces. Raise `Misconfigured`, with file and setting, if invalid.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        tables = {name: _like(tables, name) | {"name": name} for name in tables}
        return TypeAdapter(dict[str, Environment]).validate_python(tables)
    except ValidationError as exc:
        lines = [f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()]
        raise Misconfigured(f"{path}: {'; '.join(lines)}") from exc
    except KeyError as exc:
        raise Misconfigured(f"{path}: `like` names {exc}, which is not in the file") from exc
    except (OSError, ValueError) as exc:
        raise Misconfigured(f"{path}: {exc}") from exc


def _like(tables: Json, name: str, above: tuple[str, ...] = ()) -> Json:
    table = tables[name]
    if name in above:
        raise ValueError(f"`like` of {name} leads back to {name}")
    if not isinstance(table, dict):
        raise ValueError(f"{name} is no table [{name}]")
    base = _like(tables, table["like"], (*above, name)) if "like" in table else {}
    return {key: value for key, value in merged(base, table).items() if key != "like"}


def merged(base: Mapping[str, Any], table: Mapping[str, Any]) -> Json:
    """Return `base` overridden by `table`; their tables are merged, and an empty one replaces."""
    both = dict(base)
    for key, value in table.items():
        inner: Any = base.get(key)
        deep = isinstance(inner, dict) and isinstance(value, dict) and value
        both[key] = merged(inner, value) if deep else value
    return both


def _delivered() -> dict[str, Environment]:
    try:
        return read(settings_file())
    except Misconfigured as exc:
        raise SystemExit(str(exc)) from exc


ENVIRONMENTS: Mapping[str, Environment] = _delivered()


def environment(name: str) -> Environment:
    """Return the environment with this name; ValueError lists the known names."""
    try:
        return ENVIRONMENTS[name]
    except KeyError:
        names = ", ".join(sorted(ENVIRONMENTS))
        raise ValueError(f"unknown environment {name!r}; known: {names}") from None
