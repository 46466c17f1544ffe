"""A crash of a step is logged with its place and without the question."""

import json

import pytest

from docstokg.observability import Telemetry
from docstokg_local.engine.workflow import logging_crashes


def test_a_crash_is_logged_by_place_without_message(capsys) -> None:
    def broken(event, context):
        raise ValueError(f"cannot read {event['query']}")

    with pytest.raises(ValueError):
        logging_crashes("GroundFunction", broken, Telemetry())({"query": "private"}, None)
    printed = capsys.readouterr()
    (line,) = (printed.out + printed.err).splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["function"]) == ("crash", "GroundFunction")
    assert entry["error"] == "ValueError"
    assert entry["where"][-1].startswith("test_crashes.py:")
    assert "private" not in line
