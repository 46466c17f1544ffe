"""Unusual files: none ends a load, and deviations are noted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from docstokg.errors import Unavailable
from docstokg.loading.read.sources import Posted, SourceFile
from tests.builders import write_files
from tests.embedded_store import NS, EmbeddedStore

INVISIBLE = {
    "zero-width-space": "\u200b", "soft-hyphen": "\u00ad", "order-mark": "\ufeff\ufeff",
    "variation": "\ufe0f", "accent": "\u0301", "direction": "\u200f", "control": "\x01\x02",
    "private": "\ue000", "joiner": "\u2060", "filler": "\u3164", "blank-braille": "\u2800",
}  # fmt: skip
GOOD = "The gate opens at dawn."


class Loaded:
    """Files, or posted documents, loaded into a store of their own."""

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, str],
        pieces: object = None,
        posted: Sequence[SourceFile] = (),
    ) -> None:
        store = EmbeddedStore(folder / "store.sqlite")
        if pieces is not None:
            readers = replace(store.stores.readers, pieces=pieces)
            store.stores = replace(store.stores, readers=readers)
        store.load(*(posted or (write_files(folder / "in", files),)))
        self.rejects = store.rejects
        stored = store.stores.index_writer.stored_chunks(NS)
        self.texts = {chunk.chunk_id: chunk.text for chunk, _ in stored}

    def reasons(self) -> dict[str, str]:
        return {Path(reject.file).name: reject.reason for reject in self.rejects.first}


class FaultyPieces:
    """A piece counter with a fault that one text shows; `Unavailable` stands for a lost encoder."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def starts(self, text: str) -> list[int]:
        if "poison" in text:
            raise self._error
        return [at for at, char in enumerate(text) if not char.isspace()]


def test_invisible_characters_become_neither_text_nor_failure(tmp_path: Path) -> None:
    files = {"good.md": f"\u200b# Gate\n\n\u200b{GOOD}\n"}
    for name, mark in INVISIBLE.items():
        files |= {
            f"{name}.txt": mark * 3,
            f"{name}.md": f"{mark}\n\n# {mark}\n\n{mark}\n",
            f"{name}.html": f"<p>{mark}</p><h1>{mark}</h1><p>{GOOD}</p>",
            f"{name}.json": json.dumps({"text": mark}),
            f"{name}.py": mark,
        }
    loaded = Loaded(tmp_path, files)
    loaded_ids = {name for name, text in loaded.texts.items() if GOOD in text}
    assert loaded_ids == {"good.md#0", *(f"{name}.html#0" for name in INVISIBLE)}
    assert not [text for text in loaded.texts.values() if GOOD not in text]
    messages = [*map(str, loaded.rejects.first), *loaded.rejects.notes]
    for name in INVISIBLE:
        for suffix in (".txt", ".md"):
            assert any(f"/{name}{suffix}" in message for message in messages), name + suffix


@pytest.mark.parametrize("error", [ZeroDivisionError("division"), RecursionError(), MemoryError()])
def test_a_fault_in_one_document_is_its_reject(tmp_path: Path, error: Exception) -> None:
    documents = json.dumps([{"text": GOOD}, {"text": "More poison."}])
    files = {"a.md": GOOD, "b.md": "A poison text.", "c.json": documents}
    loaded = Loaded(tmp_path, files, FaultyPieces(error))
    assert sorted(loaded.texts) == ["a.md#0", "c.json/0#0"]
    reasons = loaded.reasons()
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
    loaded = Loaded(tmp_path, {}, FaultyPieces(ValueError("odd")), posted)
    assert list(loaded.texts.values()) == [GOOD]
    ((place, reason),) = loaded.reasons().items()
    assert place.startswith("two") and "ValueError" in reason


def test_lost_encoders_end_the_load_without_rejecting_documents(tmp_path: Path) -> None:
    pieces = FaultyPieces(Unavailable("the encoder is gone"))
    with pytest.raises(Unavailable):
        Loaded(tmp_path, {"b.md": "A poison text."}, pieces)


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
    files = {
        name: f"---\n{front}\n---\n\n{GOOD} It is in {name}.\n"
        for name, (front, _) in FRONTS.items()
    }
    loaded = Loaded(tmp_path, files)
    assert not loaded.rejects.count
    for name, (_, word) in FRONTS.items():
        texts = " ".join(text for id_, text in loaded.texts.items() if id_.startswith(name))
        assert f"It is in {name}." in texts, name
        assert word in texts, name
        (note,) = (note for note in loaded.rejects.notes if f"/{name}: " in note)
        assert "it was read as text" in note, name
        assert name != "colon.md" or "(line 2)" in note


def test_broken_acl_blocks_are_rejected_and_rules_kept(tmp_path: Path) -> None:
    files = {
        "closed.md": "---\ntitle: A: b\nacl: [staff]\n---\nSecret.\n",
        "flow.md": "---\n{title: A: b, 'acl': [staff]}\n---\nSecret, too.\n",
        "rule.md": f"---\n\nThis begins with a rule. {GOOD}\n\n---\n\nEnd.\n",
    }
    loaded = Loaded(tmp_path, files)
    rejects = loaded.reasons()
    assert rejects.keys() == {"closed.md", "flow.md"}
    assert all("has an acl: correct it" in reason for reason in rejects.values())
    assert any("begins with a rule" in text and GOOD in text for text in loaded.texts.values())
    assert not any("Secret" in text for text in loaded.texts.values())


def test_terminal_colours_are_dropped_and_citations_stay_exact(tmp_path: Path) -> None:
    coloured = "\x1b[1;32mok\x1b[0m The \x1b]8;;http://a.b\x07gate\x1b]8;;\x07 opens at dawn.\n"
    loaded = Loaded(tmp_path, {"a.txt": coloured, "b.md": coloured})
    assert set(loaded.texts.values()) == {"ok The gate opens at dawn."}
    assert len(loaded.texts) == 2
