"""Settings that CloudFormation would refuse, or accept in silence, are refused with their key."""

from pathlib import Path

import pytest

from docstokg.errors import Misconfigured
from infra.readiness import contradictions
from infra.settings import Environment, read
from infra.specs import ROOT
from tests.infra.conftest import infra_run

DELIVERED = (ROOT / "environments.toml").read_text("utf-8")
CERTIFICATE = "certificate/12345678-1234-1234-1234-123456789012"
ARN = "arn:aws:acm:eu-central-1:111122223333:" + CERTIFICATE
RECEIPT = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:receipts-AbCdEf"
OWN_DOMAIN = "arn:aws:es:eu-central-1:111122223333:domain/shared"
SUBNETS = '"subnet-0123456789abcdef3", "subnet-0123456789abcdef4"'

# Settings of an environment like prod -> the key and the allowed values that the refusal names.
REFUSED: dict[str, tuple[str, str]] = {
    # The review's.
    "[own.index]\nmanagers = 2": ("own.index.managers", "0, 3 or 5"),
    "[own.index]\nzones = 4": ("own.index.zones", "1, 2 or 3"),
    f"[own.network]\nprivate_subnets = [{SUBNETS}]": ("network.private_subnets", "one subnet per"),
    '[own.network]\nzones = ["us-east-1a", "us-east-1b", "us-east-1c"]': (
        "network.zones",
        "region eu-central-1",
    ),
    '[own.index]\ninstance_type = "t3.small.search"\nvolume_gib = 500': (
        "index.volume_gib 500",
        "over 100",
    ),
    "[own.index]\nvolume_gib = 5": ("own.index.volume_gib", "greater than or equal to 10"),
    '#dev\nauth = "iam"\niam_namespaces = []': ("iam_namespaces", '"*"'),
    "[own.metering]\nfirst = {rate = 0, burst = 1, daily_quota = 1}": (
        "own.metering.first.rate",
        "greater than or equal to 1",
    ),
    "#dev\npage = true": ("page needs callers with tokens", "auth = jwt"),
    "cold_start_s = -3": ("own.cold_start_s", "greater than or equal to 0"),
    'domain_name = "api.acme.dev"': ("certificate_arn", "both or none"),
    f'certificate_arn = "{ARN}"': ("domain_name", "both or none"),
    f'account = "999988887777"\ndomain_name = "api.acme.dev"\ncertificate_arn = "{ARN}"': (
        "certificate_arn",
        "account 999988887777",
    ),
    '[own.sync]\nDefault = "rate(1 day)"': ("own.sync.Default", "match pattern"),
    '[own.sync]\ndefault = "cron(every night)"': ("own.sync.default", "cron(MINUTES HOURS"),
    '[own.sync]\ndefault = "cron(0 25 * * ? *)"': ("own.sync.default", "hours '25' should be"),
    '[own.sync]\ndefault = "cron(0 3 1 * MON *)"': ("own.sync.default", "exactly one of day of"),
    '[own.sync]\ndefault = "cron(0 3 ? * 8 *)"': ("own.sync.default", "day of week '8' should"),
    '[own.sync]\ndefault = "cron(0 3 ? MAY-JAN MON *)"': ("own.sync.default", "month 'MAY-JAN'"),
    '[own.sync]\ndefault = "cron(*/0 3 ? * MON *)"': ("own.sync.default", "minutes '*/0'"),
    '[own.sync]\ndefault = "rate(5 min)"': ("own.sync.default", "should be rate"),
    'stage = "v1/live"': ("stage", "A-Z, a-z, 0-9, _ and -"),
    'graph_url = ""': ("graph_url", "neo4j+s://HOST"),
    "[own.concurrency]\nsynthesize = 0": ("own.concurrency.synthesize", "or equal to 1"),
    '[own.index]\nkind = "existing"\nendpoint = "https://search.acme.dev"': (
        "index.arn",
        "an existing domain has one",
    ),
    f'[own.settings]\nreceipt_key = "{RECEIPT}"': ("receipt_keys", "both"),
    "[own.gradual]\npercentage = 0": ("own.gradual.percentage", "greater than or equal to 1"),
    "[own.gradual]\npercentage = 150": ("own.gradual.percentage", "less than or equal to 99"),
    "[own.gradual]\ninterval_minutes = 5_000": ("own.gradual.interval_minutes", "equal to 2100"),
    '[own.index]\ninstance_type = "x9.large.search"': ("index.instance_type", "families c4, c5"),
    "[own.index]\ndata_nodes = 0": ("own.index.data_nodes", "greater than or equal to 1"),
    # More.
    'account = "1234"': ("account '1234'", "twelve digits"),
    'region = "eu-central-9"': ("region 'eu-central-9'", "eu-central-1"),
    "log_days = 200": ("own.log_days", "90, 180, 365"),
    'snap_start = ["ingest_write"]': ("snap_start ingest_write", "512 MB"),
    'snap_start = ["retriever"]': ("snap_start", "one of authorize, check"),
    'alarm_email = "nobody"': ("alarm_email", "NAME@HOST"),
    'cors_origin = "https://acme.dev/page"': ("cors_origin", "https://HOST"),
    "[own.index]\nzones = 2\ndata_nodes = 3": ("index.data_nodes 3", "even"),
    '[own.index]\nendpoint = "https://search.acme.dev"': ("index.endpoint", "kind existing"),
    '[own.tokens]\nclaims = "aud,namespaces"': ("tokens.claims", "four claims"),
    '[own.tokens]\njwks_url = "http://id.acme.dev/jwks"': ("tokens.jwks_url", "https://"),
    "[own.metering]\nsecond = {rate = 20, burst = 9_000, daily_quota = 80_000}": (
        "own.metering.second.burst",
        "less than or equal to 5000",
    ),
    '[own.network]\nvpc_id = "vpc-1"': ("network.vpc_id", "8 or 17 hex digits"),
    "[own.canary]\nminutes = 0": ("own.canary.minutes", "greater than or equal to 1"),
    '[own.canary]\nnamespace = "Default"': ("own.canary.namespace", "a-z0-9"),
    "[own.concurrency]\nrespond = 1": ("concurrency.respond 1", "at least 2"),
    '[own.settings]\nlog_level = "LOUD"': ("settings.log_level", "WARNING"),
    '[own.settings]\nindex_name = "x"': ("index_name", "field of its own"),
    '[own.sync]\ndefault = "rate(0 days)"': ("own.sync.default", "rate(NUMBER"),
    '[own.tags]\n"aws:owner" = "me"': ("tags 'aws:owner'", "without aws:"),
    '[own.tags]\nowner = "a;b"': ("tags[owner]", "letters, digits"),
    '[own.sign_in]\nclient_id = "c"\nauthorize_url = "https://a.dev/a"\n'
    'token_url = "https://a.dev/t"': ("sign_in", "page = true"),
}
CHAINS = 5
LEGAL = (
    'account = "111122223333"\nstage = "v1"',
    'region = "us-east-1"\n[own.network]\ns3_prefix_list = "pl-63a5400a"\n'
    'zones = ["us-east-1a", "us-east-1b", "us-east-1c"]',
    "log_days = 731\nmonthly_budget_usd = 1",
    'snap_start = ["validate", "expand"]\ncold_start_s = 0',
    'notice_email = "quiet@acme.dev"\ncors_origin = "https://acme.dev:8443"',
    f'domain_name = "api.acme.dev"\ncertificate_arn = "{ARN}"\naccount = "111122223333"',
    "[own.index]\nmanagers = 5\nzones = 2\ndata_nodes = 4",
    '[own.index]\ninstance_type = "m6g.xlarge.search"\nvolume_gib = 200',
    f'[own.index]\nkind = "existing"\nendpoint = "https://search.acme.dev"\narn = "{OWN_DOMAIN}"',
    "[own.gradual]\npercentage = 99\ninterval_minutes = 2_100",
    '[own.gradual]\nkind = "ALL_AT_ONCE"',
    "[own.canary]\nminutes = 1_440",
    '[own.canary]\nquestion = "Was ist das?"\nnamespace = "docs-de_1"',
    '[own.tokens]\nclaims = "client_id,namespaces,cognito:groups,load"',
    '[own.tokens]\nissuer = "https://id.acme.dev"\naudience = "all of us"',
    "[own.metering]\nsecond = {rate = 1, burst = 1, daily_quota = 3_600}",
    "[own.metering]\nfirst = {rate = 40, burst = 5_000, daily_quota = 200_000}",
    f'[own.network]\nzones = ["eu-central-1a", "eu-central-1b"]\nprivate_subnets = [{SUBNETS}]\n'
    "[own.index]\nzones = 2\ndata_nodes = 4",
    "[own.concurrency]\nstream = 120",
    "[own.concurrency]\nsynthesize = 101",
    '[own.settings]\nlog_level = "WARNING"\ndomains = ["medicine"]',
    '[own.settings]\nllm_base_url = "https://models.acme.dev/v1"',
    '[own.sync]\ndefault = "cron(0/30 6-22 ? * MON-FRI *)"\nnotes = "rate(1 day)"\n'
    'a = "cron(0 3 L * ? *)"\nb = "cron(15,45 8-18/2 ? JAN-MAR 2#1 2027-2030)"',
    '[own.tags]\nowner = "team search"\n"cost:centre" = "42"',
    'page = true\n[own.sign_in]\nclient_id = "c"\nauthorize_url = "https://id.acme.dev/a"\n'
    'token_url = "https://id.acme.dev/t"',
)


def environments_file(folder: Path, *snippets: str, links: int = 0) -> Path:
    """Write the delivered environments and `own`, `own1`, ... like prod, or like dev (#dev).

    `links`: copy from the environment that many before instead.
    """
    path, texts = folder / "own.toml", [DELIVERED]
    for number, snippet in enumerate(snippets):
        name = f"own{number or ''}"
        base = "dev" if snippet.startswith("#dev") else "prod"
        if links and number >= links:
            base = f"own{(number - links) or ''}"
        texts.append(f'[{name}]\nlike = "{base}"\n{snippet}'.replace("[own.", f"[{name}."))
    path.write_text("\n\n".join(texts), "utf-8")
    return path


def environment_with(folder: Path, snippet: str) -> Environment:
    return read(environments_file(folder, snippet))["own"]


@pytest.mark.parametrize("snippet", REFUSED)
def test_a_wrong_setting_is_refused_with_its_key(tmp_path: Path, snippet: str) -> None:
    key, allowed = REFUSED[snippet]
    try:
        sentences = contradictions(environment_with(tmp_path, snippet))
    except Misconfigured as exc:
        sentences = str(exc).split("; ")
    assert any(key in sentence and allowed in sentence for sentence in sentences), sentences


@pytest.mark.parametrize("snippet", LEGAL)
def test_a_legal_setting_is_not_refused(tmp_path: Path, snippet: str) -> None:
    assert contradictions(environment_with(tmp_path, snippet)) == []


def test_tables_of_a_like_environment_are_merged(tmp_path: Path) -> None:
    """An empty table replaces, and a chain of copies may be in any order."""
    prod = read(environments_file(tmp_path))["prod"]
    copied = environment_with(tmp_path, "[own.concurrency]\nstream = 120")
    assert copied.concurrency == {**prod.concurrency, "stream": 120}
    assert environment_with(tmp_path, "[own.concurrency]").concurrency == {}
    assert (
        environment_with(tmp_path, "[own.index]\nchunks = 7").index.instance_type
        == "r7g.large.search"
    )
    chain = '[first]\nlike = "second"\n[second]\nlike = "dev"\nstage = "two"\n'
    path = tmp_path / "chain.toml"
    path.write_text(chain + DELIVERED, "utf-8")
    assert read(path)["first"].stage == "two"
    path.write_text('[first]\nlike = "second"\n[second]\nlike = "first"\n', "utf-8")
    with pytest.raises(Misconfigured, match="leads back to first"):
        read(path)
    path.write_text("first = 1\n", "utf-8")
    with pytest.raises(Misconfigured, match="first is no table"):
        read(path)


@pytest.mark.xdist_group("synth")
@pytest.mark.timeout(3000)
def test_legal_settings_synthesise_without_findings(tmp_path: Path) -> None:
    """Each rule pack ends the command with an error for a finding; five chains of copies."""
    path = environments_file(tmp_path, *LEGAL, links=CHAINS)
    names = [f"own{number}" for number in range(len(LEGAL) - CHAINS, len(LEGAL))]
    command = ("-m", "infra.app", *names, "--sources", "--out", str(tmp_path / "cdk"))
    done = infra_run(*command, ENVIRONMENTS=str(path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("no findings") == 2 * CHAINS
    assert "rror" not in done.stderr


def test_a_refused_setting_ends_the_synthesis(tmp_path: Path) -> None:
    path = environments_file(tmp_path, 'stage = "v1/live"')
    done = infra_run("-m", "infra.app", "own", "--sources", ENVIRONMENTS=str(path))
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "own: stage 'v1/live' should be 1 to 128 of A-Z, a-z, 0-9, _ and -"
    )
    path.write_text("own = 1\n", "utf-8")
    done = infra_run("-m", "infra.app", "own", "--sources", ENVIRONMENTS=str(path))
    assert done.returncode == 1 and "Traceback" not in done.stderr
