"""Only an explicit `supersedes` changes order and answer; parallel texts are no conflict."""

import json
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.supersedes import Document, links, pairs, placed
from docstokg.loading.read.rejects import RejectLog
from tests.builders import answer_request, write_files
from tests.conftest import load_folder

PARALLEL = json.loads(Path(__file__).with_name("parallel_texts.json").read_text("utf-8"))
LEAST_RIGHT = 22
"""Of the 25 questions; the issue asks for 30 of 36."""

LEAVE = "Employees of Zorwick accrue {} days of annual leave.\n"
FILES = {
    "policy-2021.md": f"---\ntitle: Leave policy\n---\n{LEAVE.format(22)}",
    "policy-2024.md": f"---\ntitle: Leave policy 2024\nsupersedes: [policy-2021.md]\n---\n"
    f"{LEAVE.format(25)}",
    "rules.md": "---\ntitle: Canteen rules\n---\nThe Zorwick canteen opens at seven.\n",
    "rules-new.md": "---\ntitle: Canteen\nsupersedes: Canteen rules\n---\n"
    "The canteen of Zorwick is run by the staff council and sells soup.\n",
    "dam-a.md": "---\ntitle: Krell dam\ndate: 2001-01-01\n---\nKrell dam is 81 metres high.\n",
    "dam-b.md": "---\ntitle: Krell dam\ndate: 2020-01-01\n---\nKrell dam is 96 metres high.\n",
    "loop-a.md": "---\ntitle: Gate code\nsupersedes: loop-b.md\n---\nThe gate code is 1234.\n",
    "loop-b.md": "---\ntitle: Gate code\nsupersedes: loop-a\n---\nThe gate code is 9876.\n",
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("conflicts")
    store = folder / "store.sqlite"
    return store, load_folder(write_files(folder / "corpus", FILES), store, cache_dir)


def answer_of(client: Any, question: str, **fields: Any) -> dict[str, Any]:
    return client.post("/v1/answer", json=answer_request(question, **fields)).json()


def superseded(reply: dict[str, Any]) -> dict[str, str]:
    """Return the documents of `conflicts`, older to newer; spans and ranks name the citations."""
    cited = {citation["rank"]: citation for citation in reply["citations"]}
    for conflict in reply["conflicts"]:
        newer, older = conflict["ranks"]
        assert conflict["kind"] == "superseded"
        assert older == newer + 1
        for rank, span in zip(conflict["ranks"], conflict["spans"], strict=True):
            assert span["uuid"] == cited[rank]["uuid"]
            assert span["char_start"] <= cited[rank]["char_start"]
            assert span["char_end"] >= cited[rank]["char_end"]
    return {cited[b]["doc_id"]: cited[a]["doc_id"] for a, b in
            (conflict["ranks"] for conflict in reply["conflicts"])}  # fmt: skip


def test_a_superseded_document_follows_and_is_not_quoted(
    loaded: tuple[Path, Any], client_for: Any
) -> None:
    client = client_for(loaded[0])
    leave = answer_of(client, "How many days of annual leave do employees of Zorwick accrue?")
    assert superseded(leave)["policy-2021.md"] == "policy-2024.md"
    assert "25 days" in leave["answer"]
    assert "22 days" not in leave["answer"]
    canteen = answer_of(client, "When does the Zorwick canteen open?")
    assert superseded(canteen)["rules.md"] == "rules-new.md"
    assert "seven" not in canteen["answer"]
    search = client.post("/v1/search", json={"query": "Zorwick leave policy of 2021"}).json()
    assert superseded(search)["policy-2021.md"] == "policy-2024.md"
    assert [warning for warning in leave["warnings"] if "[" in warning] == ["[1] supersedes [2]."]
    only = {"query": "Zorwick leave policy of 2021", "filter": {"doc_id": ["policy-2021.md"]}}
    alone = client.post("/v1/search", json=only).json()
    assert [citation["doc_id"] for citation in alone["citations"]] == ["policy-2021.md"]
    assert alone["conflicts"] == []


def test_titles_and_dates_alone_supersede_nothing(
    loaded: tuple[Path, Any], client_for: Any
) -> None:
    reply = answer_of(client_for(loaded[0]), "How high is Krell dam?")
    assert not {"dam-a.md", "dam-b.md"} & {*superseded(reply), *superseded(reply).values()}
    assert reply["warnings"] == []


def test_a_cycle_is_noted_when_loading_and_ignored(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    rejects = RejectLog(None)
    files = write_files(tmp_path / "in", FILES)
    load_folder(files, tmp_path / "store.sqlite", cache_dir, rejects=rejects)
    (note,) = [note for note in rejects.notes if "supersede" in note]
    assert "loop-a.md, loop-b.md supersede each other" in note
    assert "policy" not in note
    reply = answer_of(client_for(tmp_path / "store.sqlite"), "What is the gate code?")
    assert "loop-a.md" not in superseded(reply)
    assert "loop-b.md" not in superseded(reply)


@pytest.mark.parametrize("value", ["old.md", ["x", "OLD"], "docs/old.md", "The Old One", 7])
def test_names_are_ids_file_names_or_titles(value: Any) -> None:
    from docstokg.domain.supersedes import declared

    old = Document("o", "docs/old.md", "old.md", "The old one", ())
    seven = Document("o", "7", "", "", ())
    new = Document("n", "new.md", "new.md", "The new one", declared({"supersedes": value}))
    resolved = links([seven if value == 7 else old, new])
    assert resolved.newer == {"o": {"n"}}


def test_ids_win_over_titles_and_nothing_supersedes_itself() -> None:
    document = Document("a", "leave", "", "x", ())
    other = Document("b", "b", "", "leave", ())
    newer = Document("c", "c", "", "leave", ("leave",))
    assert links([document, other, newer]).newer == {"a": {"c"}}
    assert links([other, newer]).newer == {"b": {"c"}}
    assert links([newer]).newer == {}


def test_links_of_a_cycle_alone_are_left_out() -> None:
    resolved = links(
        Document(key, key, "", "", names)
        for key, names in (("a", ("b",)), ("b", ("c",)), ("c", ("a", "d")), ("d", ()))
    )
    assert resolved.newer == {"d": {"c"}}
    assert resolved.in_cycles == {"a", "b", "c"}


def test_older_passages_directly_follow_newer_of_their_section() -> None:
    passages = [("old", "pay"), ("x", ""), ("old", "leave"), ("new", "leave"), ("new", "pay")]
    replaced = pairs(passages, {"old": {"new"}})
    assert replaced == {0: 4, 2: 3}
    assert placed(range(5), replaced) == [4, 0, 1, 3, 2]


def test_a_chain_stays_in_order_and_loses_nothing() -> None:
    passages = [("c", ""), ("c", "2"), ("x", ""), ("b", ""), ("a", ""), ("b", "2"), ("c", "3")]
    replaced = pairs(passages, {"c": {"b"}, "b": {"a"}})
    order = placed(range(7), replaced)
    assert sorted(order) == list(range(7))
    for older, newer in replaced.items():
        assert order.index(newer) < order.index(older)
    assert order[:3] == [4, 5, 1] or order[:3] == [4, 3, 0]


def test_parallel_texts_give_the_asked_value_without_warning(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    wrong = []
    count = 0
    for number, case in enumerate(PARALLEL):
        folder = tmp_path / str(number)
        store = folder / "store.sqlite"
        load_folder(write_files(folder / "in", case["files"]), store, cache_dir)
        client = client_for(store)
        for question, right, others in case["questions"]:
            count += 1
            reply = answer_of(client, question)
            assert reply["conflicts"] == []
            assert reply["warnings"] == [], question
            answer = reply["answer"]
            if right not in answer or any(other in answer for other in others):
                wrong.append((question, answer))
    assert count == 25
    assert count - len(wrong) >= LEAST_RIGHT, wrong


def test_a_name_of_all_sections_lists_them_all(
    tmp_path: Path, cache_dir: Path, client_for: Any
) -> None:
    (case,) = (case for case in PARALLEL if case["kind"] == "trail sheets")
    load_folder(write_files(tmp_path / "in", case["files"]), tmp_path / "store.sqlite", cache_dir)
    question = "How many metres do the trails of the Orrin valley climb?"
    answer = answer_of(client_for(tmp_path / "store.sqlite"), question)["answer"]
    assert all(height in answer for height in ("210", "640", "35 ", "1150"))
