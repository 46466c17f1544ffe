"""The pages for operators agree with the templates."""

import re

from benchmarks.cloud_costs import limits_table, sizing_table
from tests.infra.conftest import ROOT, Template
from tests.infra.resources_page import page

OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")


def test_the_resource_table_matches_the_templates(
    dev: Template, staging: Template, prod: Template
) -> None:
    published = (ROOT / "docs" / "resources.md").read_text("utf-8")
    assert published == page([dev, staging, prod]), "run `make resources-page`"


def test_index_sizes_are_those_the_program_prints() -> None:
    costs = (ROOT / "docs" / "costs.md").read_text("utf-8")
    for table in (sizing_table(), limits_table()):
        assert table in costs, "run `python -m benchmarks.cloud_costs --sizes`"


def test_every_alarm_has_a_row_with_its_remedy(template: Template) -> None:
    rows = re.findall(r"^\| (`.+?`) \|", OPERATIONS, re.M)
    patterns = [re.compile(_pattern(name)) for row in rows for name in re.findall(r"`(\S+)`", row)]
    for name in template.alarms:
        assert any(pattern.fullmatch(name) for pattern in patterns), name


def _pattern(name: str) -> str:
    return name.replace("STEP", "[a-z0-9_]+").replace("*", "[a-z0-9-]+")
