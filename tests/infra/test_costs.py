"""The bill is list price times measured time, and the guide shows what the command prints."""

import json
from pathlib import Path

import pytest

from benchmarks.cloud_costs import (
    MEASURED,
    MEMORY,
    PROFILES,
    Assumed,
    Counts,
    compute_usd,
    counted,
    express_usd,
    idle_table,
    idle_usd,
    lines_of,
    prices,
    table,
)
from infra.settings import environment
from infra.specs import SPECS
from tests.infra.conftest import ENVIRONMENTS, ROOT

REPORT = json.loads(MEASURED.read_text("utf-8"))
NOTHING = Assumed(
    cold_share=0,
    hop_ms=0,
    store_ms=0,
    model_s=0,
    tokens_in=0,
    tokens_out=0,
    new_tokens=0,
    traced=0,
    lambda_log_bytes=0,
    event_bytes=0,
    kept_answers=0,
)


def test_a_million_events_worked_by_hand() -> None:
    # 1,769 MB for 100.4 ms, billed as 101: 1.7275390625 GB x 0.101 s x 13.3334 USD.
    assert compute_usd("retrieve", 100.4, 2000, 0) == pytest.approx(2.326430, abs=1e-6)
    # One in a hundred pays 2 s more: 0.02 s on average.
    assert compute_usd("retrieve", 100.4, 2000, 0.01) == pytest.approx(2.787110, abs=1e-6)
    # 1 USD, and 0.0625 GB x 0.3 s x 0.06/3600 USD x a million.
    assert express_usd(201) == pytest.approx(1.3125)


def test_every_function_was_measured_with_the_memory_it_is_given() -> None:
    assert {spec.name for spec in SPECS} == set(REPORT["functions"])
    for name, row in REPORT["functions"].items():
        assert row["memory_mb"] == MEMORY[name], f"{name}: run benchmarks.bundles again"
        assert row["peak_mb"] < MEMORY[name], name
        assert row["warm_mean_ms"] > 0


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.title)
def test_nothing_is_cheaper_than_what_was_measured(profile) -> None:
    bare, real = (lines_of(profile, REPORT, assumed) for assumed in (NOTHING, Assumed()))
    assert bare.keys() == real.keys()
    for line, usd in bare.items():
        assert real[line] >= usd >= 0, line
    assert bare["REST API"] == 3.5
    assert ("state machine, Express" in bare) == profile.workflow


def test_the_guide_shows_this_bill() -> None:
    guide = (ROOT / "docs" / "costs.md").read_text("utf-8")
    assert table(REPORT, Assumed()) in guide, "see benchmarks.cloud_costs"
    assert prices() in guide
    measured = (ROOT / "benchmarks" / "bundles.md").read_text("utf-8")
    for name, row in REPORT["functions"].items():
        assert f"| {name} | {row['mb']:.1f} | {row['import_cpu_ms']} |" in measured


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


def test_a_snapshot_worked_by_hand() -> None:
    # Three functions of 1,769 MB: 5.18262 GB x 2,628,000 s x 0.0000015046 USD.
    bill = idle_usd(environment("prod"), Counts(0, 0, 0), machines=1)
    assert bill["snapshots of functions"] == pytest.approx(20.4928, abs=1e-3)
    assert bill["index, nodes"] == pytest.approx(730 * 3 * (0.178 + 0.068))


def test_the_note_on_ingestion_shows_what_the_estimate_says() -> None:
    from benchmarks.ingestion_estimate import Load, report, resolve_limit, stages

    note = (ROOT / "docs" / "decisions" / "cloud-ingestion.md").read_text("utf-8")
    assert report(Load()) in note
    usual, wider = stages(Load()), stages(Load(parallel=100))
    assert [stage.name for stage in usual] == ["read", "encode", "names", "resolve", "write"]
    assert wider[1].wall_s == usual[1].wall_s / 2
    assert wider[1].usd == usual[1].usd
    assert stages(Load(writers=4))[4].wall_s == usual[4].wall_s / 4
    assert resolve_limit(Load(resolve=1000.0, get=0.0)) == 720_000
