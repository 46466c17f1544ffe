"""Unusual files: none ends a load, and deviations are noted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from docstokg.errors import Unavailable
from docstokg.loading.context import LoadOptions, LoadReport
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.sources import Posted, SourceFile
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of

INVISIBLE = {
    "zero-width-space": "\u200b", "soft-hyphen": "\u00ad", "order-mark": "\ufeff\ufeff",
    "variation": "\ufe0f", "accent": "\u0301", "direction": "\u200f", "control": "\x01\x02",
    "private": "\ue000", "joiner": "\u2060", "filler": "\u3164", "blank-braille": "\u2800",
}  # fmt: skip
GOOD = "The gate opens at dawn."


class Loaded:
    """A folder loaded into a store of its own."""

    def __init__(self, folder: Path, pieces: object = None, posted: tuple[SourceFile, ...] = ()):
        url = f"sqlite:///{folder.parent / folder.name}.sqlite"
        options = {"embed_provider": "none", "sparse": "none", "index_url": url, "graph_url": url}
        self._wiring = Wiring(Settings.model_validate(options))
        stores = stores_of(self._wiring, embed=False)
        if pieces is not None:
            stores = replace(stores, readers=replace(stores.readers, pieces=pieces))
        self.rejects = RejectLog()
        sources = posted or (folder,)
        self.report: LoadReport = load(sources, LoadOptions(embed=False), stores, self.rejects)
        stored = stores.index_writer.stored_chunks("default")
        self.texts = {chunk.chunk_id: chunk.text for chunk, _ in stored}

    def notes(self, name: str) -> list[str]:
        return [note for note in self.rejects.notes if f"/{name}: " in note or f"{name}: " in note]


class FaultyPieces:
    """A piece counter with a fault that one text shows; `Unavailable` stands for a lost encoder."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def starts(self, text: str) -> list[int]:
        if "poison" in text:
            raise self._error
        return [at for at, char in enumerate(text) if not char.isspace()]


def test_invisible_characters_become_neither_text_nor_failure(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, mark in INVISIBLE.items():
        (folder / f"{name}.txt").write_text(mark * 3, "utf-8")
        (folder / f"{name}.md").write_text(f"{mark}\n\n# {mark}\n\n{mark}\n", "utf-8")
        (folder / f"{name}.html").write_text(f"<p>{mark}</p><h1>{mark}</h1><p>{GOOD}</p>", "utf-8")
        (folder / f"{name}.json").write_text(json.dumps({"text": mark}), "utf-8")
        (folder / f"{name}.py").write_text(mark, "utf-8")
    (folder / "good.md").write_text(f"\u200b# Gate\n\n\u200b{GOOD}\n", "utf-8")
    loaded = Loaded(folder)
    loaded_ids = {name for name, text in loaded.texts.items() if GOOD in text}
    assert loaded_ids == {"good.md#0", *(f"{name}.html#0" for name in INVISIBLE)}
    assert not [text for text in loaded.texts.values() if GOOD not in text]
    messages = [*map(str, loaded.rejects.first), *loaded.rejects.notes]
    for name in INVISIBLE:
        for suffix in (".txt", ".md"):
            assert any(f"/{name}{suffix}" in message for message in messages), name + suffix


@pytest.mark.parametrize("error", [ZeroDivisionError("division"), RecursionError(), MemoryError()])
def test_a_fault_in_one_document_is_its_reject(tmp_path: Path, error: Exception) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.md").write_text(GOOD)
    (folder / "b.md").write_text("A poison text.")
    (folder / "c.json").write_text(json.dumps([{"text": GOOD}, {"text": "More poison."}]))
    loaded = Loaded(folder, FaultyPieces(error))
    assert sorted(loaded.texts) == ["a.md#0", "c.json/0#0"]
    reasons = {Path(reject.file).name: reject.reason for reject in loaded.rejects.first}
    assert reasons.keys() == {"b.md", "c.json"}
    named = "more memory" if isinstance(error, MemoryError) else f"({type(error).__name__} at "
    assert all(named in reason for reason in reasons.values())


def test_a_fault_in_an_upload_names_the_document(tmp_path: Path) -> None:
    posted = tuple(
        SourceFile(
            Path(f"{name}.md"),
            "document",
            name,
            Path(),
            posted=Posted(text.encode(), {"document_name": name}, {}, None),
        )
        for name, text in (("one", GOOD), ("two", "A poison text."))
    )
    loaded = Loaded(tmp_path / "none", FaultyPieces(ValueError("odd")), posted)
    assert list(loaded.texts.values()) == [GOOD]
    ((place, reason),) = [(reject.file, reject.reason) for reject in loaded.rejects.first]
    assert place.startswith("two") and "ValueError" in reason


def test_lost_encoders_end_the_load_without_rejecting_documents(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.md").write_text("A poison text.")
    with pytest.raises(Unavailable):
        Loaded(folder, FaultyPieces(Unavailable("the encoder is gone")))


FRONTS = {
    "colon.md": ("title: Guide: the boiler", "Guide: the boiler"),
    "reply.md": ("title: Re: order\ndate: 2024-13-45", "Re: order"),
    "bracket.md": ("aliases: [x, y", "aliases"),
    "at.md": ("tags: @home", "@home"),
    "template.md": ("title: {{ page.title }}", "page.title"),
    "tab.md": ("created: 2024-01-05\n\ttabbed: yes", "tabbed"),
    "alias.md": ("a: &a [*a]", "a: &a"),
    "number.md": ("a: .nan", ".nan"),
    "quote.md": ('title: "Half a quote', "Half a quote"),
    "list.md": ("- one\n- two", "one"),
}


def test_front_matter_not_in_yaml_becomes_noted_text(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, (front, _) in FRONTS.items():
        (folder / name).write_text(f"---\n{front}\n---\n\n{GOOD} It is in {name}.\n")
    loaded = Loaded(folder)
    assert not loaded.rejects.count
    for name, (_, word) in FRONTS.items():
        texts = " ".join(text for id_, text in loaded.texts.items() if id_.startswith(name))
        assert f"It is in {name}." in texts, name
        assert word in texts, name
        (note,) = loaded.notes(name)
        assert "it was read as text" in note, name
    assert "(line 2)" in loaded.notes("colon.md")[0]


def test_broken_acl_blocks_are_rejected_and_rules_kept(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "closed.md").write_text("---\ntitle: A: b\nacl: [staff]\n---\nSecret.\n")
    (folder / "flow.md").write_text("---\n{title: A: b, 'acl': [staff]}\n---\nSecret, too.\n")
    (folder / "rule.md").write_text(f"---\n\nThis begins with a rule. {GOOD}\n\n---\n\nEnd.\n")
    loaded = Loaded(folder)
    rejects = {Path(reject.file).name: reject.reason for reject in loaded.rejects.first}
    assert rejects.keys() == {"closed.md", "flow.md"}
    assert all("has an acl: correct it" in reason for reason in rejects.values())
    assert any("begins with a rule" in text and GOOD in text for text in loaded.texts.values())
    assert not any("Secret" in text for text in loaded.texts.values())


def test_terminal_colours_are_dropped_and_citations_stay_exact(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    coloured = "\x1b[1;32mok\x1b[0m The \x1b]8;;http://a.b\x07gate\x1b]8;;\x07 opens at dawn.\n"
    for name in ("a.txt", "b.md"):
        (folder / name).write_text(coloured)
    loaded = Loaded(folder)
    assert set(loaded.texts.values()) == {"ok The gate opens at dawn."}
    assert len(loaded.texts) == 2
