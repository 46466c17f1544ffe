"""Every byte deployed was pinned by hash, and no release known to be poisoned is among it."""

import importlib.util
import re
from pathlib import Path

import pytest

from infra.specs import SPECS
from tests.infra.conftest import ROOT

LOCKS = sorted([ROOT / "requirements.lock", *(ROOT / "requirements").glob("*.lock")])
# Releases that carried a credential stealer (2026-03-24 and 2026-10-21), and names that fake ours.
DENIED = {
    ("litellm", "1.82.7"), ("litellm", "1.82.8"), ("litellm", "1.107.0"),
    ("litellm-core", "1.82.7"), ("litellm-core", "1.82.8"), ("litellm-core", "1.107.0"),
}  # fmt: skip
DENIED_NAMES = {"litellm", "torch", "python-jwt", "jwt", "opensearchpy", "awslambda-ric"}
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)")


def entries(lock: Path) -> list[str]:
    text = lock.read_text("utf-8")
    return [entry for entry in re.split(r"\n(?=[A-Za-z0-9])", text) if entry.strip()]


def pins(lock: Path) -> dict[str, str]:
    matches = [PIN.match(entry) for entry in entries(lock)]
    assert all(matches), lock
    return {pin[1]: pin[2] for pin in matches if pin}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_entry_pins_version_and_hashes_without_host(lock: Path) -> None:
    assert "://" not in lock.read_text("utf-8")
    assert "--index" not in lock.read_text("utf-8")
    for entry in entries(lock):
        assert PIN.match(entry), entry
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:60]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_nothing_denied_is_pinned(lock: Path) -> None:
    pinned = pins(lock)
    assert not set(pinned.items()) & DENIED
    # litellm-core has the same module as litellm without its proxy: only one may be installed.
    assert not set(pinned) & DENIED_NAMES


@pytest.mark.parametrize("name", sorted({spec.packages for spec in SPECS}))
def test_a_function_lock_is_part_of_the_whole(name: str) -> None:
    whole = pins(ROOT / "requirements.lock")
    for package, version in pins(ROOT / "requirements" / f"{name}.lock").items():
        assert whole[package] == version


def test_what_neo4j_sends_is_read_by_compiled_code() -> None:
    for lock in LOCKS:
        pinned = pins(lock)
        if "neo4j" in pinned:  # the driver's own reader takes 7 ms for a slice of 60 kB, this 0.6
            assert pinned["neo4j-rust-ext"].startswith(f"{pinned['neo4j']}."), lock.name
    assert importlib.util.find_spec("neo4j._rust") is not None
