"""Each setting has one variable, one part, one sentence, and is read from the environment."""

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from docstokg.contracts.response import REASONS, DegradedReason
from docstokg.errors import Misconfigured
from docstokg.settings import NAMES, SECRETS, Settings, variable
from docstokg_local.cli import page_words
from docstokg_local.cli.settings_page import descriptions, page
from infra.variables import DEPLOYED

FIELDS = {name: Settings.model_fields[name] for name in NAMES}


def test_every_setting_has_a_section_and_description() -> None:
    assert len(NAMES) == len(set(NAMES)) <= 78
    assert [name for name, text in descriptions().items() if not text] == []


@pytest.mark.parametrize("field", FIELDS)
def test_a_setting_is_read_from_its_variable(field: str) -> None:
    default = FIELDS[field].default
    texts = {bool: str(not default), int: "17", float: "1.0", tuple: "bm25"}
    special = {
        "embed_dimension": "768",
        "cors_origins": "*",
        "index_replicas": "2",
        "model_table": "mine=4096/0.5/1",
        "jwt_claims": "a b c d",
    }
    text = special.get(field, texts.get(type(default), "x"))
    try:
        value = getattr(Settings.from_environment({variable(field): text}), field)
    except Misconfigured as wrong:  # one of a few words: the message names the variable
        assert variable(field) in str(wrong)
        assert re.search("must be ('|onnx:)|greater", str(wrong))
    else:
        assert value != default
    assert getattr(Settings.from_environment({field.upper() + "_X": text}), field) == default


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("DOCSTOKG_MODLES", "did you mean DOCSTOKG_MODELS"),
        ("DOCSTOKG_INDEX_URl", "did you mean DOCSTOKG_INDEX_URL"),
        ("DOCSTOKG_CACHE_TABLE", "was removed; set DOCSTOKG_TABLES"),
        ("DOCSTOKG_CURSOR_KEY", "was removed; unset it"),
        ("DOCSTOKG_QQQ", "is unknown; unset it"),
        ("DOCSTOKG_STORE", "is unknown; unset it"),
    ],
)
def test_an_unknown_variable_is_refused_with_advice(name: str, advice: str) -> None:
    with pytest.raises(Misconfigured, match=f"{name} .*{advice}"):
        Settings.from_environment({name: "x"})
    assert Settings.from_environment({name: "x"}, strict=False) == Settings()


def test_variables_of_kubernetes_are_ignored() -> None:
    ports = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP_ADDR")
    names = {f"DOCSTOKG_{port}" for port in ports} | {"DOCSTOKG_API_PORT", "DOCSTOKG_REQUIRE"}
    assert Settings.from_environment(dict.fromkeys(names, "tcp://10.0.0.1:80")) == Settings()


def test_a_deployment_handles_every_setting() -> None:
    given_by_stacks = {
        "index_url", "index_auth", "graph_url", "cache_dir", "tables", "traces", "appconfig",
        "secrets", "environment", "workflow_arn", "route_functions", "jwt_issuer", "jwt_audience",
        "jwt_jwks_url", "jwt_claims", "ingest_url", "ingest_machine_arn", "index_shards",
        "index_replicas", "load_schedule_role",
    }  # fmt: skip
    in_secrets = {*SECRETS, "index_user", "graph_user"}
    local = {
        "auth", "keys_file", "reader", "rerank_model_path", "hosts", "open_metrics", "cors_origins",
    }  # fmt: skip
    assert Counter(NAMES) == Counter([*DEPLOYED, *given_by_stacks, *in_secrets, *local])


def test_the_page_of_settings_is_the_one_published() -> None:
    published = Path(__file__).parents[2].joinpath("docs/settings.md").read_text("utf-8")
    assert published == page(), "run `make settings-page`"


def test_the_page_has_the_words_of_the_contract() -> None:
    words = Path(__file__).parents[2].joinpath("functions/page/static/words.js").read_text("utf-8")
    assert words == page_words.module() + "\n", "run `make page-words`"


def test_each_degraded_reason_has_a_text() -> None:
    assert tuple(REASONS) == get_args(DegradedReason)
