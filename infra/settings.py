"""What differs between dev, staging and prod, typed in one file so that a diff shows a change."""

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
"""The addresses of S3 in eu-central-1."""


@dataclass(frozen=True, slots=True)
class Index:
    """Where chunks are searched: a domain that exists, which environments may share, or its own.

    `endpoint` and `arn` belong to `existing`; the node fields belong to `managed`. A serverless
    collection is no choice: its vector kind takes no ids of ours and no refresh.
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
    """An existing VPC; its private subnets need a way out to the graph and the model.

    They also need a gateway endpoint for S3, whose addresses `s3_prefix_list` stands for: the
    region's own (the default is eu-central-1's; `aws ec2 describe-managed-prefix-lists`).
    """

    vpc_id: str
    zones: tuple[str, ...]
    private_subnets: tuple[str, ...]
    s3_prefix_list: str = S3_LIST


@dataclass(frozen=True, slots=True)
class Tokens:
    """Whose JWTs are believed: issuer, audience and the URL of its public keys.

    The claims say what a token calls its audience (Cognito's access tokens: `client_id`), the
    namespaces and the groups of a caller, and the namespaces they may load into; docs/deploy.md
    lists what an issuer has to send.
    """

    issuer: str
    audience: str
    jwks_url: str
    claims: str = "aud,namespaces,groups,load"


@dataclass(frozen=True, slots=True)
class Metering:
    """Usage plan of one caller: steady requests a second, burst, and requests a day."""

    rate: int
    burst: int
    daily_quota: int


@dataclass(frozen=True, slots=True)
class Gradual:
    """How the state machine's alias moves: first share in per cent, minutes between steps."""

    kind: Rollout
    percentage: int = 10
    interval_minutes: int = 10


@dataclass(frozen=True, slots=True)
class Canary:
    """A question asked every few minutes of one namespace; an alarm hears when nothing is found.

    Any question finds something in a namespace that holds a passage everybody may see.
    """

    question: str = "What is this about?"
    namespace: str = "default"
    minutes: int = 5


@dataclass(frozen=True, slots=True)
class Environment:
    """One deployment; nothing here is a secret, secrets are filled in after the first deploy.

    `account` is where it may go and nowhere else; `tags` are for the bill and the owner.
    `function_quota` is the account's limit of concurrent executions in the region; `load_tasks` of
    them may a load take, where named. A state's time counts its function's INIT: `cold_start_s` is
    what each state may wait longer for it.
    `metering`: each caller's plan by a name for it; with none, no key is asked for.
    `page`: serve the page and the API reference (`/`, `/docs`) too; only with tokens, which a
    person pastes, or gets by signing in where `sign_in` names a client. `cors_origin` is
    the one foreign page whose scripts may call, as `https://HOST`.
    `settings` are those of the product by name (docs/settings.md), for the functions that read
    them: `{"rerank_provider": "cohere", "repair": "attribute"}`; infra/variables.py says which.
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
    domain_name: str = ""
    certificate_arn: str = ""
    embed_provider: EmbedderName = "local"
    models: tuple[str, ...] = MODELS
    settings: Mapping[str, str | int | float | bool | tuple[str, ...]] = field(default_factory=dict)

    @property
    def index_name(self) -> str:
        """Alias of the chunk index; two environments may share a domain."""
        return f"docstokg-{self.name}"

    @property
    def loading(self) -> int:
        """Tasks of a load that may run at once; questions keep most of what nobody reserves."""
        free = self.function_quota - self.reserved
        return self.load_tasks or max(2, min(MOST_LOADING, free * 2 // 5))

    @property
    def reserved(self) -> int:
        """Concurrent executions set aside for single functions."""
        return sum(self.concurrency.values())


# One run's tasks wait for one graph in the end: more of them gain nothing.
MOST_LOADING = 100
# What AWS never lets be reserved: functions without a reservation share it.
UNRESERVED = 100
# Whose INIT takes longer than half a second (docs/costs.md, cold starts): a snapshot pays there.
_SLOW_TO_START = ("retrieve", "synthesize", "respond")
_STEADY: Mapping[str, int] = {spec.name: spec.concurrency for spec in SPECS}
_BUSY = {name: count * 2 if count >= 20 else count for name, count in _STEADY.items()}

_ZONES = ("eu-central-1a", "eu-central-1b", "eu-central-1c")
_SUBNET = "subnet-0123456789abcdef"
_LOGIN = {
    "issuer": "https://login.example.com/",
    "jwks_url": "https://login.example.com/.well-known/jwks.json",
}

# The cheapest thing that works: callers sign with IAM, one small node, nothing kept warm.
_DEV = Environment(
    name="dev",
    account="",
    region="eu-central-1",
    index=Index(kind="managed"),
    auth="iam",
    tokens=None,
    iam_namespaces=("*",),
    # Whose policy has the routes that load may: the stack's outputs name one of its own.
    iam_load=("*",),
    metering={},
    gradual=Gradual(kind="ALL_AT_ONCE"),
    graph_url="neo4j+s://dev.graph.example.com",
    # No snapshots here: what starts slowly must not be cut off by the net of a warm step.
    cold_start_s=8,
    detailed_metrics=False,
    # A new account has 10 concurrent executions in all: nothing can be reserved there.
    concurrency={},
    function_quota=10,
)
# Production in kind: same engine, callers, network, firewall and snapshots; fewer, smaller.
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
    """The named environment; ValueError names the known ones."""
    try:
        return ENVIRONMENTS[name]
    except KeyError:
        names = ", ".join(sorted(ENVIRONMENTS))
        raise ValueError(f"unknown environment {name!r}; known: {names}") from None
