"""Hostile files in a load: each is rejected with its line, and the others load."""

import json
import time
from pathlib import Path

from docstokg.loading.read import reading
from tests.embedded_store import NS, EmbeddedStore

GOOD = {"id": "good", "doc_id": "good", "text": "A plain sentence about valves."}
BOMB = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
FRONTS = {
    "bomb.md": "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + BOMB, "cycle.md": "a: &a [*a]\n",
    "cycle-key.md": "a: &a {b: *a}\n", "deep.md": "a: " + "[" * 2_000 + "]" * 2_000 + "\n",
    "deep-enough.md": "a: " + "[" * 100 + "]" * 100 + "\n", "long.md": "a: " + "x" * 70_000 + "\n",
}  # fmt: skip


def nested(depth: int) -> str:
    inside = '{"a":' * depth + "1" + "}" * depth
    return f'{{"id": "d{depth}", "doc_id": "d", "text": "Deep.", "metadata": {inside}}}'


def test_bombs_and_depths_reject_only_their_lines(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(reading, "MOST_PASSAGES", 50)
    (tmp_path / "many.tsv").write_text("a\tb\n" + "1\t2\n" * 50)
    for name, front in FRONTS.items():
        (tmp_path / name).write_text(f"---\n{front}---\nRead as text.\n")
    lines = [json.dumps(GOOD), nested(900), nested(5_000), nested(100_000), nested(20)]
    lines += [json.dumps({**GOOD, "id": "big", "text": "word " * 2_000_000})]
    (tmp_path / "chunks.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "fine.md").write_text("---\ntitle: Fine\n---\nThis one is fine.\n")
    began = time.process_time()
    store = EmbeddedStore(tmp_path.with_suffix(".sqlite"))
    store.load(tmp_path)
    assert time.process_time() - began < 10
    places = {(Path(rejection.file).name, rejection.line) for rejection in store.rejects.first}
    lines = {("chunks.jsonl", n) for n in (2, 3, 4, 6)}
    assert places == {("many.tsv", 0)} | lines
    assert {Path(note.partition(": ")[0]).name for note in store.rejects.notes} == FRONTS.keys()
    assert all("it was read as text" in note for note in store.rejects.notes)
    chunks = store.stores.index_writer.stored_chunks(NS)
    texts = {chunk.chunk_id: chunk.text for chunk, _ in chunks}
    expected = {"good": GOOD["text"], "d20": "Deep.", "fine.md#0": "This one is fine."}
    assert expected.items() <= texts.items()
