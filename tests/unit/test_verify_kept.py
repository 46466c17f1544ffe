"""Files whose converter makes another text today are held against the text kept when loaded."""

from dataclasses import replace
from pathlib import Path

import pytest

from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.contracts.outline import Outline
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import ask
from docstokg_local.cli.verify import verify_response
from docstokg_local.engine.workflow import LocalWorkflow
from tests.conftest import load_folder
from tests.embedded_store import PLAIN, settings_at

PAGE = "<html><body><h1>Valves</h1><p>Valve seven closes at 12 bar.</p></body></html>"


class Later(ChildConverter):
    """Another version of the converters, which writes a line above every text."""

    @property
    def versions(self):
        return {suffix: f"{made}.later" for suffix, made in super().versions.items()}

    def convert(self, suffix: str, raw: bytes) -> tuple[Outline, ...]:
        found = []
        for outline in super().convert(suffix, raw):
            blocks = tuple(replace(b, start=b.start + 6, end=b.end + 6) for b in outline.blocks)
            found.append(replace(outline, text="Later\n" + outline.text, blocks=blocks))
        return tuple(found)


@pytest.fixture
def folder(tmp_path: Path, cache_dir: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "valves.html").write_text(PAGE)
    load_folder(tmp_path / "in", tmp_path / "store.sqlite", cache_dir, embed=False, names="rule")
    return tmp_path


def wiring(folder: Path, cache_dir: Path, **made: object) -> Wiring:
    store = folder / "store.sqlite"
    settings = settings_at(store, cache_dir=str(cache_dir), **PLAIN, names="rule")
    return Wiring(settings, Telemetry(level="ERROR"), made)


def test_another_converter_is_said_and_the_kept_text_counts(folder: Path, cache_dir: Path) -> None:
    ports = wiring(folder, cache_dir)
    body = ask(LocalWorkflow(ports), {"query": "At how many bar does valve seven close?"}).body
    ports.close()
    for converter, said in ((ChildConverter(), 0), (Later(), 1)):
        notes: list[str] = []
        again = wiring(folder, cache_dir, converter=converter)
        findings, proven = verify_response(body, folder / "in", lambda a=again: a, notes.append)
        again.close()
        assert not findings
        assert proven == len(body["citations"]) > 0
        assert len(notes) == said, notes
    assert "later produces a different text than selectolax" in notes[0]
    (folder / "in" / "valves.html").write_text(PAGE.replace("12", "13"))
    again = wiring(folder, cache_dir)
    findings, _ = verify_response(body, folder / "in", lambda a=again: a, notes.append)
    again.close()
    assert findings  # the same converter: the file is another one
