"""A changing folder: each sync gives the stores of one load of the current folder."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.records import FoundName
from docstokg.domain.text.names import capitalised_names
from docstokg.loading.context import LoadReport
from docstokg.loading.pipeline import delete_document
from tests.changing_folder import ChangingFolder
from tests.embedded_store import NS, EmbeddedStore
from tests.run_stages import WRITES, Fuse, Fused, Killed
from tests.unit.test_loading_pipeline import write


class Kinds:
    """A recogniser whose kinds hang on the sentence: who speaks is a person."""

    model = "kinds==1"

    def __init__(self) -> None:
        self.read = 0

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        self.read += len(texts)
        return tuple(tuple(self._of(text)) for text in texts)

    def _of(self, text: str) -> Iterator[FoundName]:
        for name in dict.fromkeys(capitalised_names(text)):
            yield FoundName(name, "Person" if f"{name} says" in text else "Place")


class Store(EmbeddedStore):
    def load(self, *folders: Path, writes: int | None = None, **options: Any) -> LoadReport:
        """Load; `writes`: it ends after so many."""
        whole, fuse = self.stores, Fuse()
        fuse.left = writes
        kinds = ("index_writer", "graph_writer", "register")
        fused: Any = {kind: Fused(getattr(whole, kind), fuse, WRITES[kind]) for kind in kinds}
        self.stores = replace(whole, **fused)
        try:
            return super().load(*folders, **{"agree": lambda doc_ids: True, **options})
        finally:
            self.stores = whole


def same(store: Store, fresh: Store, when: str) -> None:
    mine, wanted = set(store.rows()), set(fresh.rows())
    assert (sorted(mine - wanted), sorted(wanted - mine)) == ([], []), when


Made = Callable[[str], Store]


@pytest.fixture(params=["rule", "kinds"])
def store_of(tmp_path: Path, request: pytest.FixtureRequest) -> Made:
    names = Kinds() if request.param == "kinds" else None
    return lambda name: Store(tmp_path / f"{name}.sqlite", names)


class Loaded:
    """A folder to work in, another that stays, and a store into which both are loaded."""

    def __init__(self, path: Path, store_of: Made, seed: int) -> None:
        self.chance = random.Random(seed)
        self.home, self.beside = (ChangingFolder(path / n, self.chance) for n in ("home", "beside"))
        for folder in [self.home, self.beside] * 8:
            folder.add()
        self._store_of, self._numbers = store_of, count()
        self.store = self.fresh()

    def fresh(self) -> Store:
        """Load both folders into another store."""
        store = self._store_of(f"store{next(self._numbers)}")
        store.load(self.home.root, self.beside.root)
        return store

    def sync(self, writes: int | None = None) -> None:
        self.store.load(self.home.root, sync=True, writes=writes)

    def check(self, when: str) -> None:
        same(self.store, self.fresh(), when)

    def check_names(self, fresh: Store) -> None:
        names = [dict(store.stores.graph_writer.names(NS)) for store in (self.store, fresh)]
        assert names[0] == names[1]


Loads = Callable[[int], Loaded]


@pytest.fixture
def loaded(tmp_path: Path, store_of: Made) -> Loads:
    return partial(Loaded, tmp_path, store_of)


@pytest.mark.parametrize("seed", [0, 3, 115])
def test_each_sync_ends_in_one_load(loaded: Loads, seed: int) -> None:
    folders = loaded(seed)
    for turn in range(3):
        folders.home.work()
        folders.sync()
        folders.check(f"turn {turn}")


@pytest.mark.parametrize("seed", [1, 3])
def test_killed_sync_is_completed_by_the_next(loaded: Loads, seed: int) -> None:
    folders = loaded(seed)
    folders.home.work()
    for _ in range(3):
        with suppress(Killed):
            folders.sync(writes=folders.chance.randrange(12))
    folders.sync()
    folders.check("after three ends")


def test_deleted_document_leaves_no_trace(loaded: Loads) -> None:
    folders = loaded(0)
    root = folders.home.root
    for path in folders.chance.sample(sorted(root.rglob("*.md")), 3):
        assert delete_document(folders.store.stores, NS, path.relative_to(root).as_posix()) > 0
        path.unlink()
    folders.check("three are deleted")


@pytest.mark.parametrize("seed", [2, 5])
def test_next_load_adds_names_to_an_old_store(loaded: Loads, seed: int) -> None:
    folders = loaded(seed)
    graph = folders.store.stores.graph_writer
    graph.put_names(NS, {uuid: "" for uuid, _ in graph.names(NS)})
    folders.home.work()
    folders.sync()
    fresh = folders.fresh()
    same(folders.store, fresh, "the next load")
    folders.check_names(fresh)


def test_rebuild_recomputes_the_graph_of_all_chunks(loaded: Loads, tmp_path: Path) -> None:
    folders = loaded(4)
    store, fresh = folders.store, folders.fresh()
    graph = store.stores.graph_writer
    uuids = [uuid for uuid, _ in graph.names(NS)]
    graph.put_mentions(NS, dict.fromkeys(uuids[:9], ()))
    graph.put_entities(
        [
            entity.model_copy(update={"name": entity.name.upper(), "synonyms": ("Wrong",)})
            for entity in list(graph.stored_entities(NS))[:5]
        ]
    )
    graph.put_names(NS, dict.fromkeys(uuids[5:], '["0",[["Wrong","","",""]]]'))
    assert {*store.rows()} != {*fresh.rows()}
    store.load(write(tmp_path / "new", new="# Kept\n"), rebuild=True)
    fresh.load(tmp_path / "new")
    same(store, fresh, "rebuilt")
    folders.check_names(fresh)


def names_of(store: Store) -> set[str]:
    return {entity.name for entity in store.stores.graph_writer.stored_entities(NS)}


def test_names_of_statements_and_given_mentions_stay(store_of: Made, tmp_path: Path) -> None:
    home = write(
        tmp_path / "home",
        one="# northwind vault\n\nIt is cold.\n",
        two="# Long lake\n\nIt is deep.\n",
        three="# Small mill\n\nIt turns.\n",
        four="# Kept\n\nThe end.\n",
    )
    beside = write(
        tmp_path / "beside",
        chunks=[
            {"id": "c1", "doc_id": "d", "text": "A northwind vault by the long lake, small mill."},
            {
                "id": "c2",
                "doc_id": "d",
                "text": "It was.",
                "mentions": [{"entity": "Long lake", "about": True}],
            },
        ],
        triples=[
            {"chunk_id": "c1", "subject": "Small mill", "relation": "is by", "object": "Long lake"}
        ],
    )
    store, fresh = store_of("store"), store_of("fresh")
    store.load(home, beside)
    assert names_of(store) == {"northwind vault", "Long lake", "Small mill", "Kept"}
    for name in ("one", "two", "three"):
        (home / f"{name}.md").unlink()
    store.load(home, sync=True)
    fresh.load(home, beside)
    assert names_of(store) == names_of(fresh) == {"Long lake", "Small mill", "Kept"}
    # How a statement's ends were written stands in no text: that they were titles is remembered.
    differing = {*store.rows()} ^ {*fresh.rows()}
    assert all(row.startswith("entity ") for row in differing) and len(differing) == 4


def test_stored_texts_are_not_read_again(
    tmp_path: Path,
) -> None:
    names = Kinds()
    store, fresh = Store(tmp_path / "a.sqlite", names), Store(tmp_path / "b.sqlite", Kinds())
    beside = tmp_path / "beside"
    for n in range(40):
        write(beside, **{f"b{n}": f"It is near Town{n % 10}, and Anytown is far.\n"})
    home = write(tmp_path / "home", one="Here Anytown says that Town3 is far.\n")
    store.load(beside, home)
    names.read = 0
    new = write(tmp_path / "new", two="It was in Town5, near Anytown.\n")
    store.load(new)
    assert names.read == 1
    names.read = 0
    write(home, one="Here Town3 is far.\n")
    store.load(home)
    fresh.load(beside, new, home)
    same(store, fresh, "nobody says that Anytown is a person")
    assert names.read == 1
    names.read = 0
    write(home, one="It was far.\n")
    store.load(home)
    assert names.read == 1
