"""A credential that is rotated while a function runs: real secrets, a model that checks its key."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from docstokg.entry import Entry
from docstokg.errors import DocsToKGError, Refused
from docstokg.settings import Settings
from docstokg.wiring import Handler, Wiring
from docstokg_functions.synthesize.handler import build
from tests.faults.test_language_model import BLOCKS, plan_for
from tests.model_server import ModelServer, serving

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

EVENT = {
    "plan": plan_for(60).model_dump(mode="json"),
    "blocks": [block.model_dump(mode="json") for block in BLOCKS],
    "relevant": True,
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer to read a secret than a request would wait for one."""
    monkeypatch.setattr("docstokg.entry.READ_AGAIN_S", 60.0)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serving(ModelServer(key="today")) as server:
        yield server


@pytest.fixture
def secret(aws: Any) -> Callable[[str], None]:
    """Put a key of the model where the function reads it."""
    client = aws.client("secretsmanager")
    client.create_secret(Name="model", SecretString='{"llm_api_key": "yesterday"}')
    return lambda key: client.put_secret_value(
        SecretId="model", SecretString=f'{{"llm_api_key": "{key}"}}'
    )


def entry(model: ModelServer, build: Callable[[Wiring], Handler] = build) -> Entry:
    return Entry(build, Settings(secrets="model", llm_base_url=model.url))


def answer_of(entry: Entry) -> dict[str, Any]:
    now = int(time.time() * 1000)
    plan = EVENT["plan"] | {"started_ms": now, "deadline_ms": now + 60_000}
    return entry(EVENT | {"plan": plan}, None)


def test_a_refused_key_is_read_again_at_once(
    model: ModelServer, secret: Callable[[str], None]
) -> None:
    function = entry(model)
    secret("today")  # five minutes before anybody would look
    answer = answer_of(function)
    assert (answer["outcome"], answer["degraded"]) == ("answered", [])
    keys = [headers["Authorization"] for headers in model.headers]
    assert keys == ["Bearer yesterday", "Bearer today"]


def test_a_wrong_key_is_not_read_every_time(
    model: ModelServer, secret: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    function = entry(model)
    assert answer_of(function)["degraded"] == ["llm_unavailable"]
    secret("today")
    assert answer_of(function)["degraded"] == ["llm_unavailable"], "asked again before its time"
    monkeypatch.setattr("docstokg.entry.REFUSED_TIME_S", 0.0)
    assert answer_of(function)["outcome"] == "answered"


def test_a_refused_credential_is_read_again_and_retried(
    model: ModelServer, secret: Callable[[str], None]
) -> None:
    """A function without a step around its calls, as the writer of traces."""

    def build(wiring: Wiring) -> Handler:
        def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
            if wiring.settings.llm_api_key != "today":
                raise Refused("the store refused the credentials")
            return event

        return handler

    function = entry(model, build)
    with pytest.raises(DocsToKGError):
        function({"n": 1}, None)
    function = entry(model, build)
    secret("today")
    assert function({"n": 2}, None) == {"n": 2}
