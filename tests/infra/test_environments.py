"""The file of the environments: its schema, and settings that contradict each other."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.session import get_session

from benchmarks.cloud_costs import SIZES, cheapest
from docstokg.errors import Misconfigured
from infra.readiness import contradictions, obstacles
from infra.settings import ENVIRONMENTS, Index, read
from infra.sizing import (
    CPU_MS,
    FREE_SHARE,
    SHARD_CHUNKS,
    SLOWEST,
    Layout,
    cpu_ms,
    fits,
    gib_per_node,
    layout,
    limits,
    questions_per_second,
    slower,
)
from infra.specs import ROOT
from infra.variables import chosen
from tests.infra.conftest import infra_run

DELIVERED = (ROOT / "environments.toml").read_text("utf-8")


def changed(folder: Path, old: str, new: str) -> Path:
    head, prod = DELIVERED.split("[prod]")
    assert old in prod
    path = folder / "own.toml"
    path.write_text(f"{head}[prod]{prod.replace(old, new, 1)}", "utf-8")
    return path


def test_the_delivered_settings_do_not_contradict_each_other() -> None:
    for target in ENVIRONMENTS.values():
        assert contradictions(target) == []
        assert not [line for line in obstacles(target) if "quota" in line]


@pytest.mark.parametrize(
    ("old", "new", "reason", "change"),
    [
        ("5_minutes = 30_000", "5_minutes = 10_000", "is 15000 in 5 minutes", "at least 15000"),
        ("quota = 500_000", "quota = 100_000", "in less than an hour at rate 50", "least 180000"),
        ("synthesize = 160", "synthesize = 260", "concurrency reserves 960", "needs a quota of"),
        ("synthesize = 160", "synthesize = 100", "concurrency.synthesize 100", "at least 101"),
        ("retrieve = 80", "retrieve = 3", "concurrency.retrieve 3 is under 4", "at least 4"),
        ("chunks = 500_000", "chunks = 1_000_000", "32 questions per second", "more data_nodes"),
        (
            "chunks = 500_000",
            "chunks = 20_000_000",
            "take 240 GiB per node",
            "volume_gib to at least 780",
        ),
        ('like = "staging"', 'like = "staging"\nmax_timeout_s = 28', "the execution", "most 25"),
        ('like = "staging"', 'like = "staging"\ncold_start_s = 25', "the execution", "at most"),
        ("health = 5", "helth = 5", "concurrency names no function", "helth"),
    ],
)
def test_a_contradiction_is_refused_with_its_reason(
    tmp_path: Path, old: str, new: str, reason: str, change: str
) -> None:
    prod = read(changed(tmp_path, old, new))["prod"]
    assert any(reason in obstacle and change in obstacle for obstacle in obstacles(prod))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("log_days = 365", "log_dayz = 365", "prod.log_dayz: Unexpected keyword argument"),
        ("log_days = 365", 'log_days = "many"', "prod.log_days: Input should be 1, 7, 14"),
        ('"r7g.large.search"', '"r7g.search"', "prod.index.instance_type: String should match"),
        ('like = "staging"', 'like = "stagging"', "`like` names 'stagging'"),
        ("log_days = 365", "log_days = ", "Invalid value"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = changed(tmp_path, old, new)
    with pytest.raises(Misconfigured, match=r"own\.toml") as refusal:
        read(path)
    assert reason in str(refusal.value)


def test_a_custom_environment_file_needs_no_product_change(tmp_path: Path) -> None:
    """The context key of the CDK command line names it, which must not go on; `like` copies."""
    path = tmp_path / "own.toml"
    path.write_text(DELIVERED + '\n[anna]\nlike = "dev"\naccount = "1234"\n', "utf-8")
    context = {"env": "anna", "environments": str(path)}
    done = infra_run(
        "-m", "infra.app", CDK_OUTDIR=str(tmp_path), CDK_CONTEXT_JSON=json.dumps(context)
    )
    assert done.returncode == 1
    assert "anna cannot be deployed" in done.stderr
    assert "account '1234' should be twelve digits" in done.stderr
    assert not list(tmp_path.glob("*.template.json"))
    assert infra_run("-m", "infra.app", "anna", "--sources", ENVIRONMENTS=str(tmp_path)).returncode


@pytest.mark.parametrize(
    ("nodes", "zones", "chunks", "expected"),
    [
        (1, 1, 20_000, Layout(1, 0)),
        (2, 1, 20_000, Layout(1, 1)),
        (3, 3, 500_000, Layout(1, 2)),
        (4, 2, 500_000, Layout(1, 3)),
        (4, 3, 500_000, Layout(1, 2)),
        (6, 3, 10_000_000, Layout(20, 2)),
        (10, 2, 100_000_000, Layout(200, 1)),
    ],
)
def test_shards_and_replicas(nodes: int, zones: int, chunks: int, expected: Layout) -> None:
    assert layout(nodes, zones, chunks) == expected


def test_a_domain_fits_if_memory_holds_its_chunks() -> None:
    small = Index("managed", instance_type="t3.small.search", data_nodes=3, zones=3, chunks=300_000)
    assert fits(small, 10)
    assert not fits(replace(small, chunks=400_000), 1)
    assert not fits(small, 100)


def test_more_nodes_answer_more_questions() -> None:
    def rate(nodes: int) -> float:
        kind = "r7g.large.search"
        index = Index("managed", instance_type=kind, data_nodes=nodes, chunks=500_000)
        return questions_per_second(index)

    assert rate(2) == pytest.approx(2 * 2 * 0.8 * 1000 / cpu_ms(500_000))
    assert rate(10) == pytest.approx(5 * rate(2))
    assert cpu_ms(2_000_000) == pytest.approx(4 * cpu_ms(500_000))


def test_a_shard_has_the_largest_measured_bearable_size() -> None:
    """The next measured size takes over three times the CPU of 100,000 chunks."""
    at_100_000 = cpu_ms(100_000)
    bearable = [size for size, taken in CPU_MS if taken <= SLOWEST * at_100_000]
    assert SHARD_CHUNKS <= bearable[-1] < 1.1 * SHARD_CHUNKS
    assert CPU_MS[len(bearable)][1] > SLOWEST * at_100_000
    assert all(slower(chunks) <= SLOWEST for chunks, _ in SIZES)


@pytest.mark.parametrize(("chunks", "rate"), SIZES)
def test_disks_hold_a_resize_without_an_alarm(chunks: int, rate: int) -> None:
    """AWS's reserve: a fifth of the disk, at most 20 GiB, after 5 % for the file system."""
    index = cheapest(chunks, rate)
    data, volume = gib_per_node(index), index.volume_gib
    usable = volume * 0.95 - min(20, volume / 5)
    assert 3 * data <= usable
    assert usable - data >= volume * FREE_SHARE
    assert questions_per_second(index) >= rate
    prod = replace(ENVIRONMENTS["prod"], metering={}, concurrency={}, index=index)
    assert contradictions(prod) == []
    if volume > 10:
        smaller = replace(prod, index=replace(index, volume_gib=volume - 10))
        (obstacle,) = contradictions(smaller)
        assert f"volume_gib to at least {volume}" in obstacle


def test_the_limit_reached_first_is_the_lowest() -> None:
    prod = ENVIRONMENTS["prod"]
    assert limits(prod)[0] == (50, "metering")
    few = replace(prod, concurrency={**prod.concurrency, "synthesize": 20})
    (rate, name), *_ = limits(few)
    assert name == "concurrency.synthesize" and rate == pytest.approx(10, rel=0.01)
    unmetered = replace(prod, metering={}, concurrency={})
    assert [name for _, name in limits(unmetered)] == ["index", "function_quota"]


def test_every_node_type_is_accepted_and_sized() -> None:
    model = get_session().get_service_model("opensearch")
    types = model.shape_for("OpenSearchPartitionInstanceType").enum
    assert len(types) > 90
    for kind in types:
        assert questions_per_second(Index("managed", instance_type=kind, manager_type=kind)) > 0


def test_only_a_new_domain_has_a_chosen_layout() -> None:
    prod = ENVIRONMENTS["prod"]
    assert chosen(prod)["index_replicas"] == 2
    existing = Index("existing", endpoint="https://search", arn="arn:aws:es:::domain/x")
    assert "index_replicas" not in chosen(replace(prod, index=existing))
