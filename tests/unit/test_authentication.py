"""Keys are those of the file as it is now, not as it was at the start."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.errors import Misconfigured
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg_local.server.authentication import Authentication
from docstokg_local.server.prometheus import PrometheusSink


@pytest.fixture
def keys(tmp_path: Path) -> Callable[..., Path]:
    file = tmp_path / "keys.json"

    def write_keys(**holders: Any) -> Path:
        file.write_text(json.dumps(holders), "utf-8")
        return file

    return write_keys


def opened(file: Path, lines: list[str]) -> Authentication:
    telemetry = Telemetry(PrometheusSink(), lines.append, level="INFO")
    return Authentication(Settings(auth="keys", keys_file=str(file)), telemetry)


def test_a_key_removed_from_the_file_fails_immediately(keys: Callable[..., Path]) -> None:
    authenticator = opened(keys(red={"sub": "r"}, blue={"sub": "b"}), [])
    assert authenticator.caller("red") is not None
    keys(blue={"sub": "b", "groups": ["staff"]})
    assert authenticator.caller("red") is None
    blue = authenticator.caller("blue")
    assert blue is not None
    assert blue.groups == ("staff",)


def test_a_broken_file_admits_nobody_until_mended(keys: Callable[..., Path]) -> None:
    lines: list[str] = []
    file = keys(scarlet={"sub": "r"})
    authenticator = opened(file, lines)
    file.write_text("{", "utf-8")
    assert authenticator.caller("scarlet") is None
    assert authenticator.caller("scarlet") is None
    assert [json.loads(line)["event"] for line in lines] == ["keys_file_not_read"]
    assert "scarlet" not in lines[0]
    keys(scarlet={"sub": "r"})
    assert authenticator.caller("scarlet") is not None
    file.unlink()
    assert authenticator.caller("scarlet") is None


def test_a_server_does_not_start_without_its_keys(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="KEYS_FILE"):
        opened(tmp_path / "absent.json", [])
