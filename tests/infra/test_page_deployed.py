"""The page where it is deployed: its paths, its function's zip, and both in a browser."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_kms as kms

from docstokg_functions.page.page import SIGN_IN, VIEWER, SignIn, reply, static_file
from infra.base import Stack
from infra.page import PATHS, page_function
from infra.settings import ENVIRONMENTS
from infra.specs import PAGE
from tests.infra.conftest import Template, synthesised
from tests.infra.deployed import Deployed
from tests.infra.iam import Call, Policies
from tests.infra.service_calls import API
from tests.infra.test_template import paths
from tests.runtime_api import Folders, Sandbox

pytestmark = [pytest.mark.xdist_group("bundles"), pytest.mark.timeout(900)]


def event(resource: str, path: str) -> dict[str, Any]:
    """Return the fields of a gateway event that the function reads."""
    return {"resource": resource, "requestContext": {"path": path}, "httpMethod": "GET"}


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Staging with the page; both rule packs hold."""
    return synthesised(tmp_path_factory.mktemp("paged"), "staging", "page=True")


@pytest.fixture
def started(bundles: Path, tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Sandbox]]:
    """The real runtime client, the zip alone: no layer, no setting, no virtual environment."""
    alone, sandboxes = tmp_path / "build", list[Sandbox]()
    alone.mkdir()
    for part in ("page", "runtime"):
        (alone / part).symlink_to(bundles / "host" / part)

    def start(variables: dict[str, str]) -> Sandbox:
        log, limit = tmp_path / "log", PAGE.timeout_s
        sandboxes.append(Sandbox("page", Folders(alone), log, variables=variables, timeout_s=limit))
        return sandboxes[-1]

    yield start
    for sandbox in sandboxes:
        sandbox.close()


def test_every_path_is_open_and_answers_get_alone(paged: Template) -> None:
    methods = paths(paged)
    for path in PATHS:
        got = methods[path, "GET"]
        assert got["AuthorizationType"] == "NONE"
        assert got["Integration"]["Type"] == "AWS_PROXY"
        assert not got.get("ApiKeyRequired", False)
        assert methods[path, "ANY"]["Integration"]["Type"] == "MOCK"
    for (path, method), got in methods.items():
        if method not in ("ANY", "OPTIONS") and path.startswith("/v1/") and "health" not in path:
            assert got["AuthorizationType"] == "CUSTOM", path


def test_only_get_reaches_the_isolated_page_function(paged: Template) -> None:
    function = paged.function("page")
    assert "Layers" not in function and "VpcConfig" not in function
    assert not function.get("Environment", {}).get("Variables")
    deployed = Deployed(paged)
    granted = [
        action
        for name, statement in paged.statements()
        if name.startswith("Page")
        for action in [*statement["Action"]]
    ]
    assert {action.partition(":")[0] for action in granted} == {"logs", "xray"}
    policies = Policies(deployed)
    alias = f"{deployed.arn(deployed.function('page'))}:live"

    def may(verb: str, path: str) -> bool:
        source = {"aws:SourceArn": f"{API}/live/{verb}{path}"}
        return policies.allows(
            Call("apigateway.amazonaws.com", "lambda:InvokeFunction", alias, source)
        )

    for path in PATHS:
        assert may("GET", path), path
        assert not may("POST", path)


CLIENT = SignIn("c", "https://id.acme.dev/authorize?audience=docstokg", "https://id.acme.dev/token")


@pytest.mark.parametrize(
    "changed",
    [
        {"token_url": "http://id.acme.dev/token"},
        {"token_url": "https://id.acme.dev/token; script-src *"},
        {"token_url": "https://id.acme.dev"},
        {"authorize_url": "javascript:alert(1)"},
    ],
)
def test_an_address_unfit_for_the_policy_ends_synthesis(changed: dict[str, str]) -> None:
    ours = replace(ENVIRONMENTS["staging"], page=True, sign_in=replace(CLIENT, **changed))
    stack = Stack(cdk.App(), ours, "x")
    with pytest.raises(ValueError, match="sign_in"):
        page_function(stack)


@pytest.mark.parametrize("target", ["aarch64", "host"])
def test_the_zip_contains_little_but_served_files(bundles: Path, target: str) -> None:
    folder = bundles / target / "page"
    vendored = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in ("docstokg_functions",)
    ]
    files = [name for name in vendored if ".dist-info/" not in name and "__pycache__" not in name]
    assert sorted(name.rpartition("/")[2] for name in files) == [
        "__init__.py",
        *sorted(VIEWER.values()),
    ]
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 2_000_000


def test_the_function_sends_every_file_from_its_zip(started: Any) -> None:
    sandbox = started({})
    for path in PATHS:
        stage_path = "/live/" if path == "/" else f"/live{path}"
        got = sandbox.invoke(event(path, stage_path))
        file = static_file(path)
        assert got["statusCode"] == 200, path
        assert got["body"].encode() == file.body
        assert got["headers"] == file.headers
        assert "default-src 'none'" in got["headers"]["Content-Security-Policy"]
    assert sandbox.invoke(event("/other", "/live/other"))["statusCode"] == 404


def test_how_to_sign_in_comes_from_the_settings(started: Any) -> None:
    """The function sends the values of the stack, including the policy."""
    ours = replace(ENVIRONMENTS["staging"], page=True, sign_in=CLIENT)
    stack = Stack(cdk.App(), ours, "x")
    stack.key = kms.Key(stack, "Key")
    page_construct = page_function(stack)
    (function,) = (
        resource["Properties"]
        for resource in assertions.Template.from_stack(stack).to_json()["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    )
    assert page_construct.live is not None
    sandbox = started(function["Environment"]["Variables"])
    reply = sandbox.invoke(event(SIGN_IN, f"/live{SIGN_IN}"))
    assert json.loads(reply["body"])["token_url"] == CLIENT.token_url
    policy = sandbox.invoke(event("/", "/live/"))["headers"]["Content-Security-Policy"]
    assert "connect-src 'self' https://id.acme.dev/token;" in policy


@pytest.mark.parametrize(
    ("resource", "requested", "to"),
    [
        ("/", "/live", "/live/"), ("/", "", "/"), ("/docs", "/live/docs/", "/live/docs"),
        ("/", "//elsewhere.example", "/elsewhere.example/"),
    ],
)  # fmt: skip
def test_an_address_in_the_other_form_is_redirected(resource: str, requested: str, to: str) -> None:
    got = reply(resource, requested)
    assert (got["statusCode"], got["headers"]["Location"]) == (308, to)
    assert reply(resource, to)["statusCode"] == 200
