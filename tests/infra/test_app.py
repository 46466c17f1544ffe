"""What may be deployed from a checkout: no example value, no stale code, no other context."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infra import package, templates
from infra.app import missing
from infra.readiness import cautions, obstacles
from infra.settings import ENVIRONMENTS, Index, Network, Tokens
from infra.specs import FUNCTIONS
from tests.infra.conftest import Template, infra_run, synthesised

FILLED_IN = replace(
    ENVIRONMENTS["prod"],
    account="111122223333",
    graph_url="neo4j+s://abc.databases.neo4j.io",
    tokens=Tokens("https://id.acme.dev/", "docstokg", "https://id.acme.dev/jwks"),
    network=Network(
        "vpc-0a1b2c3d4e5f60718",
        ("eu-central-1a", "eu-central-1b", "eu-central-1c"),
        ("subnet-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60719", "subnet-0a1b2c3d4e5f6071a"),
    ),
    alarm_email="oncall@acme.dev",
)


def test_filled_in_settings_have_nothing_against_them() -> None:
    assert obstacles(FILLED_IN) == []
    assert cautions(FILLED_IN) == []
    assert cautions(replace(FILLED_IN, alarm_email="")) != []
    models = ("bedrock/eu.anthropic.claude-3-haiku-20240307-v1:0",)
    (caution,) = cautions(replace(FILLED_IN, models=models))
    assert "aws-marketplace:Subscribe" in caution
    small = replace(FILLED_IN, load_tasks=6, settings={"load_concurrency": 5})
    assert cautions(small)[0].startswith("load_concurrency 5 becomes 3: ")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"account": ""}, "account is empty"),
        ({"account": "12345"}, "should be twelve digits"),
        ({"graph_url": "neo4j+s://dev.graph.example.com"}, "graph_url is an example"),
        ({"alarm_email": "docstokg@example.com"}, "alarm_email is an example"),
        ({"tokens": ENVIRONMENTS["prod"].tokens}, "tokens.issuer is an example"),
        ({"network": ENVIRONMENTS["prod"].network}, "network.private_subnets[2] is an example"),
        ({"tokens": None}, "tokens names no issuer"),
        ({"index": Index("existing", endpoint="https://x.example.com")}, "index.endpoint"),
        ({"index": Index("existing", endpoint="https://x.acme.dev")}, "index.arn is empty"),
        ({"function_quota": 500}, "needs a quota of 960 concurrent"),
        ({"region": "us-east-1"}, "s3_prefix_list pl-6ea54007 is of eu-central-1"),
    ],
)
def test_missing_settings_are_named(changed: dict[str, object], reason: str) -> None:
    assert any(reason in obstacle for obstacle in obstacles(replace(FILLED_IN, **changed)))  # type: ignore[arg-type]


def test_environments_that_share_an_account_share_its_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """450 and 860 are each under 900, and together they are not."""
    beside = replace(ENVIRONMENTS["staging"], account=FILLED_IN.account)
    monkeypatch.setattr("infra.readiness.ENVIRONMENTS", {"staging": beside, "prod": FILLED_IN})
    (obstacle,) = obstacles(FILLED_IN)
    assert "reserve 1310 together" in obstacle
    elsewhere = replace(beside, account="999988887777")
    monkeypatch.setattr("infra.readiness.ENVIRONMENTS", {"staging": elsewhere})
    assert obstacles(FILLED_IN) == []


def test_bootstrap_needs_neither_an_environment_nor_bundles(tmp_path: Path) -> None:
    """The guide's second command: the CLI runs the app before it has a reason to."""
    unnamed = infra_run("-m", "infra.app", CDK_OUTDIR=str(tmp_path))
    assert unnamed.returncode == 0, unnamed.stderr
    metadata = json.loads((tmp_path / "no-environment.metadata.json").read_text("utf-8"))
    lines = [line for part in metadata.values() for line in part]
    (message,) = (line for line in lines if line["type"] == "aws:cdk:error")  # stops `cdk deploy`
    assert "-c env=dev" in message["data"]
    (empty,) = tmp_path.glob("*.template.json")
    assert "Resources" not in json.loads(empty.read_text("utf-8"))


def test_code_that_is_missing_or_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stamps as `make package` writes them, then an edit in the sources."""
    sources = tmp_path / "sources"
    for part in ("functions/validate/handler.py", "functions/__init__.py", "own/wiring.py"):
        (sources / part).parent.mkdir(parents=True, exist_ok=True)
        (sources / part).write_text("A = 1\n")
    (sources / "requirements").mkdir()
    (sources / "requirements" / "validate.lock").write_text("")
    monkeypatch.setattr(package, "ROOT", sources)
    monkeypatch.setattr(package, "OWN", sources / "own")
    monkeypatch.setattr(package, "BUILD", tmp_path / "build")
    specs = [spec for spec in FUNCTIONS if spec.name == "validate"]
    monkeypatch.setattr(package, "PACKAGED", specs)
    assert package.unbuilt("aarch64") == ["layer", "validate"]
    folder = tmp_path / "build" / "aarch64"
    folder.mkdir(parents=True)
    layer, packages, code = package._steps("aarch64")
    layer.run()
    packages.folder.mkdir()
    packages.stamp.write_text(packages.digest)
    code.run()
    assert package.unbuilt("aarch64") == []
    (sources / "functions" / "validate" / "handler.py").write_text("A = 2\n")
    assert package.unbuilt("aarch64") == ["validate"]
    (sources / "own" / "wiring.py").write_text("A = 2\n")
    assert package.unbuilt("aarch64") == ["layer", "validate"]


def test_bundles_are_named_by_content_not_by_packer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A patch release of the interpreter between build and approval refuses no artefact."""

    def digests() -> list[str]:
        return [step.digest for step in package._steps("aarch64")]

    monkeypatch.setattr(package, "PACKAGED", FUNCTIONS[:1])
    before = digests()
    monkeypatch.setattr(package.sys, "version", "3.13.99 (main, Jan 1 2027) [GCC 15]")
    assert digests() == before
    monkeypatch.setattr(package, "PYTHON", "3.14")
    assert not {*digests()} & {*before}


def test_a_second_developer_and_a_foreign_page(dev: Template, tmp_path: Path) -> None:
    """Another name is another environment beside dev; a named origin may call from a browser."""
    changes = "name='anna', cors_origin='https://app.acme.dev', tags={'owner': 'search'}"
    anna = synthesised(tmp_path, "dev", changes)
    assert not named(anna) & named(dev)
    for kind in ("AWS::S3::Bucket", "AWS::Lambda::Function", "AWS::DynamoDB::Table"):
        for resource in anna.all(kind).values():
            assert {"Key": "owner", "Value": "search"} in resource["Tags"], kind
    methods = anna.all("AWS::ApiGateway::Method").values()
    post_resources = {m["ResourceId"]["Ref"] for m in methods if m["HttpMethod"] == "POST"}
    allowed = {
        m["ResourceId"]["Ref"]: m["Integration"]["IntegrationResponses"][0]["ResponseParameters"]
        for m in methods
        if m["HttpMethod"] == "OPTIONS" and "Ref" in m["ResourceId"]
    }
    assert post_resources <= allowed.keys()
    header = "method.response.header.Access-Control-Allow-Origin"
    for path in post_resources:
        assert allowed[path][header] == "'https://app.acme.dev'"
    for method in methods:
        if method["HttpMethod"] == "POST":
            for answer in method["Integration"].get("IntegrationResponses", ()):
                assert answer["ResponseParameters"][header] == "'https://app.acme.dev'"
            assert all(header in m["ResponseParameters"] for m in method["MethodResponses"])
    edge = templates.edge(("*",), "https://app.acme.dev")  # to the function that answers itself
    assert anna.only("AWS::ApiGateway::Stage")["Variables"] == {"edge": edge}
    for problem in anna.all("AWS::ApiGateway::GatewayResponse").values():
        parameters = problem["ResponseParameters"]
        assert (
            parameters["gatewayresponse.header.Access-Control-Allow-Origin"]
            == "'https://app.acme.dev'"
        )
    assert not any(
        m["HttpMethod"] == "OPTIONS" for m in dev.all("AWS::ApiGateway::Method").values()
    )


def named(template: Template) -> set[str]:
    """Every name that an account may hold once."""
    return {
        value
        for resource in template.resources.values()
        for key, value in resource.get("Properties", {}).items()
        if key.endswith("Name") and isinstance(value, str) and "docstokg" in value
    }


def test_unbuilt_bundles_keep_an_environment_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "BUILD", tmp_path)
    assert any("make package" in obstacle for obstacle in missing(FILLED_IN))
