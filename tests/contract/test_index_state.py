"""State of an index as users are told it: running loads, and encoders by namespace."""

from docstokg_local.cli.documents import stored_encoder
from tests.contract.test_search_index import Store, begin, fill, seizure, store
from tests.plans import soon

__all__ = ["store"]


def test_running_load_is_not_reported_as_unfinished(store: Store) -> None:
    def warnings() -> list[str]:
        return store.index.info(soon(), refresh=True).warnings_of(["one", "two"])

    with store.writer.hold(5, namespace="one"):
        begin(store, "running", "one")
        assert store.index.info(soon(), refresh=True).open_run("one") == "running"
        assert warnings() == []
    (warning,) = warnings()
    assert warning.startswith("A load into namespace 'one' is unfinished")
    with store.writer.hold(5, namespace="one"):
        begin(store, "again", "one")
        store.writer.close_load("one")
    assert warnings() == []


def test_namespace_without_vectors_has_no_encoder(store: Store) -> None:
    chunks = [seizure("a"), seizure("b", namespace="bare", vector=None)]
    fill(store, *chunks)
    info = store.index.info(soon(), refresh=True)
    encoders = [stored_encoder(name, info, store.index) for name in ("ns", "bare", "absent")]
    assert encoders == ["model-a", None, None]
