"""Settings of dev, staging and prod."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from docstokg.contracts.request import EmbedderName
from docstokg.settings import MODELS
from docstokg_functions.page.page import SignIn
from infra.specs import SPECS

type Auth = Literal["jwt", "iam"]
type IndexKind = Literal["existing", "managed"]
type Rollout = Literal["ALL_AT_ONCE", "CANARY", "LINEAR"]


S3_LIST = "pl-6ea54007"
"""Prefix list of S3 in eu-central-1."""


@dataclass(frozen=True, slots=True)
class Index:
    """The search domain: an existing one, possibly shared, or a new one.

    `endpoint` and `arn` belong to `existing`; the node fields belong to `managed`. Serverless
    collections are not supported.
    """

    kind: IndexKind
    endpoint: str = ""
    arn: str = ""
    instance_type: str = "t3.small.search"
    data_nodes: int = 1
    manager_type: str = "m7g.medium.search"
    managers: int = 0
    zones: int = 1
    volume_gib: int = 10


@dataclass(frozen=True, slots=True)
class Network:
    """An existing VPC; its private subnets need a route to the graph and the model.

    They also need a gateway endpoint for S3, with the region's `s3_prefix_list` (default:
    eu-central-1; see `aws ec2 describe-managed-prefix-lists`).
    """

    vpc_id: str
    zones: tuple[str, ...]
    private_subnets: tuple[str, ...]
    s3_prefix_list: str = S3_LIST


@dataclass(frozen=True, slots=True)
class Tokens:
    """Accepted JWTs: issuer, audience and the URL of the issuer's public keys.

    `claims`: claim names of audience, namespaces, groups, and namespaces to load into; see
    docs/deploy.md.
    """

    issuer: str
    audience: str
    jwks_url: str
    claims: str = "aud,namespaces,groups,load"


@dataclass(frozen=True, slots=True)
class Metering:
    """Usage plan of one caller: requests per second, burst, and requests per day."""

    rate: int
    burst: int
    daily_quota: int


@dataclass(frozen=True, slots=True)
class Gradual:
    """Traffic shift of the alias: first share in per cent, minutes between steps."""

    kind: Rollout
    percentage: int = 10
    interval_minutes: int = 10


@dataclass(frozen=True, slots=True)
class Canary:
    """A question asked every few minutes; an alarm fires if no passage is found."""

    question: str = "What is this about?"
    namespace: str = "default"
    minutes: int = 5


@dataclass(frozen=True, slots=True)
class Environment:
    """One deployment; it contains no secrets.

    `account`: the only account it may be deployed to; `tags`: for billing and ownership.
    `function_quota`: the account's concurrent executions in the region; `load_tasks`: maximum of
    them for loads, if set. `cold_start_s`: added to the time limit of each state, which includes
    INIT. `metering`: usage plans by caller name; without any, API keys are not required. `page`:
    also serve the page and the API reference; requires tokens, which a person pastes, or gets by
    signing in if `sign_in` configures a client. `cors_origin`: the foreign page whose scripts may
    call, as `https://HOST`. `settings`: product settings by name (docs/settings.md), such as
    `{"rerank_provider": "cohere"}`; see infra/variables.py. `receipt_keys`: the key set that
    `docstokg receipt-key` prints, to publish.
    """

    name: str
    account: str
    region: str
    index: Index
    auth: Auth
    tokens: Tokens | None
    metering: Mapping[str, Metering]
    gradual: Gradual
    graph_url: str
    iam_namespaces: tuple[str, ...] = ()
    iam_load: tuple[str, ...] = ()
    network: Network | None = None
    waf_requests_per_5_minutes: int | None = None
    alarm_email: str = ""
    canary: Canary | None = None
    monthly_budget_usd: int = 100
    max_timeout_s: int = 25
    log_days: int = 30
    retain_data: bool = False
    termination_protection: bool = False
    snap_start: tuple[str, ...] = ()
    cold_start_s: int = 0
    concurrency: Mapping[str, int] = field(default_factory=dict)
    function_quota: int = 1_000
    load_tasks: int | None = None
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
        """Return the alias of the chunk index; two environments may share a domain."""
        return f"docstokg-{self.name}"

    @property
    def loading(self) -> int:
        """Return the maximum concurrent tasks of a load."""
        free = self.function_quota - self.reserved
        return self.load_tasks or max(2, min(MOST_LOADING, free * 2 // 5))

    @property
    def reserved(self) -> int:
        """Return the concurrent executions reserved for single functions."""
        return sum(self.concurrency.values())


# More tasks are not faster: they share one graph.
MOST_LOADING = 100
# Minimum that AWS leaves unreserved.
UNRESERVED = 100
# INIT over half a second (docs/costs.md, cold starts): SnapStart helps.
_SLOW_TO_START = ("retrieve", "synthesize", "respond")
_STEADY: Mapping[str, int] = {spec.name: spec.concurrency for spec in SPECS}
_BUSY = {name: count * 2 if count >= 20 else count for name, count in _STEADY.items()}

_ZONES = ("eu-central-1a", "eu-central-1b", "eu-central-1c")
_SUBNET = "subnet-0123456789abcdef"
_LOGIN = {
    "issuer": "https://login.example.com/",
    "jwks_url": "https://login.example.com/.well-known/jwks.json",
}

# The cheapest working setup: IAM, one small node, nothing kept warm.
_DEV = Environment(
    name="dev",
    account="",
    region="eu-central-1",
    index=Index(kind="managed"),
    auth="iam",
    tokens=None,
    iam_namespaces=("*",),
    # Callers with the policy for load routes; the stack outputs one.
    iam_load=("*",),
    metering={},
    gradual=Gradual(kind="ALL_AT_ONCE"),
    graph_url="neo4j+s://dev.graph.example.com",
    # Without snapshots, warm time limits would stop cold starts.
    cold_start_s=8,
    detailed_metrics=False,
    # A new account has 10 concurrent executions: none can be reserved.
    concurrency={},
    function_quota=10,
)
# Like production, with fewer and smaller nodes.
_STAGING = Environment(
    name="staging",
    account="",
    region="eu-central-1",
    index=Index(kind="managed", data_nodes=3, zones=3),
    auth="jwt",
    tokens=Tokens(audience="docstokg-staging", **_LOGIN),
    metering={"first": Metering(rate=10, burst=20, daily_quota=10_000)},
    gradual=Gradual(kind="LINEAR", percentage=50, interval_minutes=15),
    graph_url="neo4j+s://staging.graph.example.com",
    network=Network(
        vpc_id="vpc-0123456789abcdef0",
        zones=_ZONES,
        private_subnets=(f"{_SUBNET}0", f"{_SUBNET}1", f"{_SUBNET}2"),
    ),
    waf_requests_per_5_minutes=2_000,
    alarm_email="docstokg-staging@example.com",
    canary=Canary(),
    monthly_budget_usd=600,
    snap_start=_SLOW_TO_START,
    cold_start_s=2,
    concurrency=_STEADY,
)

ENVIRONMENTS: Mapping[str, Environment] = {
    "dev": _DEV,
    "staging": _STAGING,
    "prod": replace(
        _STAGING,
        name="prod",
        index=Index(
            kind="managed",
            instance_type="r7g.large.search",
            data_nodes=3,
            managers=3,
            zones=3,
            volume_gib=100,
        ),
        tokens=Tokens(audience="docstokg", **_LOGIN),
        metering={"first": Metering(rate=50, burst=100, daily_quota=100_000)},
        gradual=Gradual(kind="CANARY", percentage=10, interval_minutes=20),
        graph_url="neo4j+s://prod.graph.example.com",
        network=Network(
            vpc_id="vpc-0123456789abcdef1",
            zones=_ZONES,
            private_subnets=(f"{_SUBNET}3", f"{_SUBNET}4", f"{_SUBNET}5"),
        ),
        waf_requests_per_5_minutes=10_000,
        alarm_email="docstokg@example.com",
        monthly_budget_usd=3_000,
        log_days=365,
        retain_data=True,
        termination_protection=True,
        concurrency=_BUSY,
    ),
}


def environment(name: str) -> Environment:
    """Return the environment with this name; ValueError lists the known names."""
    try:
        return ENVIRONMENTS[name]
    except KeyError:
        names = ", ".join(sorted(ENVIRONMENTS))
        raise ValueError(f"unknown environment {name!r}; known: {names}") from None
