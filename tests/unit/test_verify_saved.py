"""Responses that were saved by commit 5dfbd9ba are still proven, and a changed source is found."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.verify import verify_response
from tests.embedded_store import PLAIN, settings_at

SAVED = Path(__file__).with_name("saved_5dfbd9ba")
NAMES = ("extractive", "search", "weak")
QUOTED = "The Orkel pump delivers 85 litres per minute"


def body_of(name: str) -> dict[str, Any]:
    return dict(json.loads((SAVED / f"{name}.json").read_text("utf-8")))


def verified(body: dict[str, Any], source: Path, folder: Path) -> tuple[list[str], int]:
    """Compare a response with files, without a store; findings as text."""
    settings = settings_at(folder / "none.sqlite", cache_dir=str(folder), **PLAIN, names="rule")
    ports = Wiring(settings, Telemetry(level="ERROR"))
    findings, proven = verify_response(body, source, lambda: ports, lambda _: None)
    ports.close()
    return [str(one) for one in findings], proven


def test_the_saved_responses_have_what_today_has_not() -> None:
    bodies = {name: body_of(name) for name in NAMES}
    assert all(body["conflicts"][0]["kind"] == "value" for body in bodies.values())
    assert bodies["search"]["grounding"] is None
    sentences = bodies["weak"]["grounding"]["sentences"]
    assert [one["verdict"] for one in sentences] == ["weak", "supported", "supported"]
    assert not any("decided_by" in one or "quote" in one for one in sentences)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_response_is_proven(name: str, tmp_path: Path) -> None:
    body = body_of(name)
    findings, proven = verified(body, SAVED / "source", tmp_path)
    assert findings == []
    assert proven == len(body["citations"]) == 3


@pytest.mark.parametrize(("name", "place"), [("extractive", 1), ("weak", 0)])
def test_a_supported_sentence_whose_span_has_changed_is_found(
    name: str, place: int, tmp_path: Path
) -> None:
    changed = tmp_path / "source"
    shutil.copytree(SAVED / "source", changed)
    file = changed / "pump.md"
    file.write_text(file.read_text("utf-8").replace("85", "58"), encoding="utf-8")
    findings, proven = verified(body_of(name), changed, tmp_path)
    assert proven == 2
    where = f"$.grounding.sentences[{place}].span: is not the text"
    is_supported = body_of(name)["grounding"]["sentences"][place]["verdict"] == "supported"
    assert any(one.startswith(where) for one in findings) is is_supported
    assert any("text_sha256" in one for one in findings)


def test_a_supported_sentence_of_today_whose_quote_is_gone_is_found(tmp_path: Path) -> None:
    body = body_of("extractive")
    sentence = body["grounding"]["sentences"][1]
    sentence |= {"decided_by": "rules", "quote": f"{QUOTED} against a head of 12 metres."}
    assert verified(body, SAVED / "source", tmp_path) == ([], 3)
    changed = tmp_path / "source"
    shutil.copytree(SAVED / "source", changed)
    file = changed / "pump.md"
    file.write_text(file.read_text("utf-8").replace("85", "8"), encoding="utf-8")
    findings, _ = verified(body, changed, tmp_path)
    assert any(one.startswith("$.grounding.sentences[1].quote") for one in findings)


def test_a_sentence_that_was_never_a_quotation_is_found(tmp_path: Path) -> None:
    body = body_of("weak")
    body["grounding"]["sentences"][1]["decided_by"] = "rules"
    findings, _ = verified(body, SAVED / "source", tmp_path)
    assert [one for one in findings if "is not a quotation" in one]
