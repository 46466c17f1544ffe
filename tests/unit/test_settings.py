"""Each setting has one variable, one part, one sentence, and is read from the environment."""

from pathlib import Path

import pytest

from docstokg.errors import Misconfigured
from docstokg.settings import NAMES, Settings, variable
from docstokg_local.cli.settings_page import page
from infra.variables import check_settings

FIELDS = {name: Settings.model_fields[name] for name in NAMES}


def test_every_setting_belongs_to_one_part_and_says_what_it_is_for() -> None:
    assert len(NAMES) == len(set(NAMES)) <= 65
    assert [name for name in NAMES if not FIELDS[name].description] == []


@pytest.mark.parametrize("field", FIELDS)
def test_a_setting_is_read_from_its_variable(field: str) -> None:
    default = FIELDS[field].default
    texts = {bool: str(not default), int: "17", float: "1.0", tuple: "bm25"}
    special = {"embed_dimension": "768", "model_table": "mine=4096/0.5/1", "jwt_claims": "a b c d"}
    text = special.get(field, texts.get(type(default), "x"))
    try:
        value = getattr(Settings.from_environment({variable(field): text}), field)
    except Misconfigured as wrong:  # one of a few words: the message names the variable
        assert variable(field) in str(wrong)
        assert "must be '" in str(wrong) or "greater" in str(wrong)
    else:
        assert value != default
    assert getattr(Settings.from_environment({field.upper() + "_X": text}), field) == default


def test_a_deployment_knows_what_to_do_with_every_setting() -> None:
    check_settings()


def test_the_page_of_settings_is_the_one_published() -> None:
    published = Path(__file__).parents[2].joinpath("docs/settings.md").read_text("utf-8")
    assert published == page(), "run `make settings-page`"
