"""What every register of documents must do."""

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from docstokg.adapters.opensearch.documents import OpenSearchRegister
from docstokg.adapters.sqlite.documents import SqliteRegister
from docstokg.contracts.records import DocumentRecord
from docstokg.ports import DocumentRegister
from tests.contract.real import remove_indices
from tests.jvm.servers import Engine
from tests.services import SERVICES, server


@pytest.fixture(params=["sqlite", pytest.param("opensearch", marks=SERVICES)])
def register(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DocumentRegister]:
    if request.param == "sqlite":
        yield SqliteRegister(tmp_path / "store.sqlite")
        return
    url, name = server(Engine.OPENSEARCH).url, f"t{secrets.token_hex(6)}"
    with closing(OpenSearchRegister(url=url, name=name)) as register:
        yield register
    remove_indices(url, name)


def record(doc_id: str, namespace: str = "ns", **fields: object) -> DocumentRecord:
    return DocumentRecord.model_validate({"namespace": namespace, "doc_id": doc_id, **fields})


def test_an_empty_register_holds_nothing(register: DocumentRegister) -> None:
    assert register.documents("ns") == ()
    assert register.text("ns", "a") is None
    assert register.namespaces() == ()
    assert register.find("ns", ["a"]) == ()
    register.forget("ns", ["a"])
    register.forget("ns", None)


def test_replaced_records_are_listed_by_id_without_texts(register: DocumentRegister) -> None:
    long = "ü/" * 256
    records = [record(f"d{n:04}") for n in range(1100)]
    register.put([*records, record(long, title="Two", acl=("hr",), text="words " * 20_000)])
    register.put([record("d0000", "other", chunks=3)])
    first = register.documents("ns")
    second_page = register.documents("ns", first[-1].doc_id)
    listed = [*first, *second_page]
    assert [row.doc_id for row in listed] == [*(row.doc_id for row in records), long]
    assert listed[-1].text is None
    assert (listed[-1].title, listed[-1].acl) == ("Two", ("hr",))
    assert register.documents("ns", long) == ()
    assert register.text("ns", long) == "words " * 20_000
    stored = register.find("ns", ["d0007", long, "never there"])
    assert {row.doc_id: row.text for row in stored} == {"d0007": None, long: None}
    assert register.find("other", ["d0007"]) == ()
    register.put([record(long, title="Three")])
    assert register.text("ns", long) is None
    assert register.namespaces() == ("ns", "other")
    register.forget("ns", ["d0000", long, "never there"])
    assert register.documents("ns")[0].doc_id == "d0001"
    assert register.documents("other")[0].chunks == 3
    register.forget("ns", None)
    assert register.namespaces() == ("other",)
