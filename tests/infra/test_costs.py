"""The bill is list price times measured time, and the guide shows what the command prints."""

import json
from pathlib import Path

import pytest

from benchmarks.cloud_costs import Counts, counted, idle_table, idle_usd
from infra.settings import environment
from tests.infra.conftest import ENVIRONMENTS, ROOT


@pytest.fixture(scope="session")
def counts(assembly: Path) -> dict[str, Counts]:
    return {name: counted_in(assembly, name) for name in ENVIRONMENTS}


def counted_in(assembly: Path, name: str) -> Counts:
    paths = sorted((assembly / name).glob("*.template.json"))
    return counted([json.loads(path.read_text("utf-8")) for path in paths])


@pytest.mark.xdist_group("synth")
@pytest.mark.timeout(900)
def test_idle_environments_keep_to_their_price(counts: dict[str, Counts]) -> None:
    """Without graph and NAT; after ten deploys as after the third, because old versions go."""
    bills = {name: sum(idle_usd(environment(name), counts[name]).values()) for name in counts}
    assert bills["dev"] <= 60
    assert bills["staging"] <= 200
    guide = (ROOT / "docs" / "costs.md").read_text("utf-8")
    assert idle_table(counts) in guide, "see benchmarks.cloud_costs"
