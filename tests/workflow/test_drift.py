"""Forty changes to a folder: each saved response is reported with its kind of change, no other."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import written
from tests.workflow.conftest import Cli

PUMPS = [first + second for first in ("Or", "Ka", "Zu", "Bri", "Mel", "Tov", "Wex", "Nad")
         for second in ("kel", "lim", "fan", "dro", "vist", "pord")]  # fmt: skip
TEXT = """# {name}

The {name} delivers {litres} litres per minute against a head of 12 metres. It needs oil every 40 days.

## Storage

Spare parts of the {name} are kept in hall seven.
"""  # noqa: E501
FACT = re.compile(r"The \w+ delivers \d+ litres per minute against a head of 12 metres\.")


def edit(old: str, new: str) -> Callable[[Path, str], None]:
    def change(folder: Path, name: str) -> None:
        file = folder / f"{name}.md"
        text = file.read_text("utf-8")
        changed = re.sub(old.replace("NAME", name), new.replace("NAME", name), text, count=1)
        assert changed != text, (name, old)
        file.write_text(changed, encoding="utf-8")

    return change


def newer(declared: str, as_list: bool = False) -> Callable[[Path, str], None]:
    def change(folder: Path, name: str) -> None:
        value = declared.replace("NAME", name)
        value = f"[{value}]" if as_list else value
        text = f"---\nsupersedes: {value}\n---\n" + TEXT.format(name=name, litres=9)
        (folder / f"{name}-new.md").write_text(text, encoding="utf-8")

    return change


def delete(folder: Path, name: str) -> None:
    (folder / f"{name}.md").unlink()


def rename(to: str) -> Callable[[Path, str], None]:
    def change(folder: Path, name: str) -> None:
        target = folder / to.replace("NAME", name)
        target.parent.mkdir(exist_ok=True)
        (folder / f"{name}.md").rename(target)

    return change


def both(*changes: Callable[[Path, str], None]) -> Callable[[Path, str], None]:
    def change(folder: Path, name: str) -> None:
        for one in changes:
            one(folder, name)

    return change


MORE = "It was painted green in spring and has been in use ever since.\n\n"
INSIDE = [
    edit(r"delivers \d+", "delivers 7"), edit("delivers", "never delivers"),
    edit("per minute", "per hour"), edit("12 metres", "13 metres"), edit("litres", "gallons"),
    edit(FACT.pattern, "Nothing is known of its output."), edit(FACT.pattern + " ", ""),
    edit("The NAME delivers", "NAME delivers"), edit("a head of", "ahead of"),
    edit(r"metres\.", "metres?"),
]  # fmt: skip
ELSEWHERE = [
    edit("40 days", "50 days"), edit(r" It needs oil every 40 days\.", ""),
    edit("hall seven", "hall eight"), edit("## Storage", "## Stock"),
    edit("# NAME\n\n", f"# NAME\n\n{MORE}"), edit("# NAME\n\n", f"# NAME\n\n{MORE * 60}"),
    edit(r"hall seven\.", f"hall seven. {MORE}"), edit("litres per minute", "litres\nper minute"),
    edit("^", "---\nsite: north\n---\n"), edit("## Storage", f"## Other\n\n{MORE * 40}## Storage"),
]  # fmt: skip
RENAMED = [rename("NAME-1.md"), rename("sub/NAME.md"), rename("sub/other-NAME.md"),
           rename("NAME.txt.md"), rename("a-NAME.md")]  # fmt: skip
SUPERSEDED = [
    newer("NAME.md"), newer("NAME"), newer("NAME.md", as_list=True), newer("NAME", as_list=True),
    both(newer("NAME.md"), edit("40 days", "41 days")), both(newer("NAME.md"), rename("b-NAME.md")),
    newer('"NAME.md"'),
]  # fmt: skip
CHANGES: list[tuple[str, Callable[[Path, str], None]]] = [
    *(("deleted", delete) for _ in range(6)),
    ("deleted", both(delete, newer("other"))),
    ("changed", both(edit("12 metres", "14 metres"), newer("NAME.md"))),
    *(("changed", one) for one in INSIDE),
    *(("unchanged", one) for one in (*ELSEWHERE, *RENAMED)),
    *(("superseded", one) for one in SUPERSEDED),
    ("unchanged", lambda folder, name: None),
]
CHANGES = [one for one in CHANGES if one[1] is not SUPERSEDED[5]] + [("unchanged", SUPERSEDED[5])]
"""A declared name that is no longer a document's supersedes nothing."""


def question(name: str) -> dict[str, Any]:
    query = f"How many litres per minute does the {name} deliver?"
    return dict(written(query, filter={"doc_id": f"{name}.md"}))


Saved = Callable[[int], tuple[Path, Path, Path]]


@pytest.fixture
def saved(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saved:
    """Make documents, a store of them, and a folder with a saved response per document."""
    for name, value in {"EMBED_PROVIDER": "none", "SPARSE": "none", "NAMES": "rule"}.items():
        monkeypatch.setenv(f"DOCSTOKG_{name}", value)
    docs, responses, store = tmp_path / "docs", tmp_path / "responses", tmp_path / "s.sqlite"
    docs.mkdir()
    responses.mkdir()

    def made(count: int) -> tuple[Path, Path, Path]:
        for number, name in enumerate(PUMPS[:count], 20):
            text = TEXT.format(name=name, litres=number)
            (docs / f"{name}.md").write_text(text, encoding="utf-8")
        assert cli("load", docs, store=store)[0] == 0
        for name in PUMPS[:count]:
            request = tmp_path / "request.json"
            request.write_text(json.dumps(question(name)))
            code, out, _ = cli("ask", "--request", request, "--json", store=store)
            assert code == 0
            body = json.loads(out)
            assert f"The {name} delivers" in body["answer"] and " 12 metres [" in body["answer"]
            (responses / f"{name}.json").write_text(out)
        return docs, responses, store

    return made


def test_each_change_is_reported_with_its_kind_and_no_other(
    cli: Cli, saved: Saved, tmp_path: Path
) -> None:
    docs, responses, store = saved(len(CHANGES))
    assert 40 <= len(CHANGES) <= len(PUMPS)
    code, out, _ = cli("drift", responses, store=store)
    assert (code, out) == (0, f"0 responses of {len(CHANGES)} drifted\n")
    for name, (_, change) in zip(PUMPS, CHANGES, strict=False):
        change(docs, name)
    assert cli("load", docs, "--sync", "--yes", "--namespace", "default", store=store)[0] == 0
    code, out, _ = cli("drift", responses, "--json", store=store)
    assert code == 1
    report = {row["file"].removesuffix(".json"): row for row in json.loads(out)["responses"]}
    found = {name: {one["kind"] for one in report[name]["evidence"]} for name in report}
    wanted = {name: {kind} for name, (kind, _) in zip(PUMPS, CHANGES, strict=False)}
    assert found == wanted
    for name, (kind, change) in zip(PUMPS, CHANGES, strict=False):
        now = {one["now"] for one in report[name]["evidence"]}
        if kind == "superseded":
            assert now == {f"{name}-new.md"}
        if change in RENAMED:
            assert len(now) == 1 and now != {f"{name}.md"}
    text = cli("drift", responses, store=store)[1]
    drifted = [kind for kind, _ in CHANGES if kind != "unchanged"]
    assert f"{len(drifted)} responses of {len(CHANGES)} drifted" in text
    assert all(text.count(f": {kind}") == drifted.count(kind) for kind in set(drifted))
    assert re.search(rf"^  \[\d\] {PUMPS[0]}\.md: deleted$", text, re.MULTILINE)


def test_files_that_are_no_responses_and_other_namespaces(
    cli: Cli, saved: Saved, tmp_path: Path
) -> None:
    docs, responses, store = saved(3)
    edit("12 metres", "13 metres")(docs, PUMPS[0])
    assert cli("load", docs, "--namespace", "next", store=store)[0] == 0
    assert cli("drift", responses, store=store)[0] == 0
    code, out, _ = cli("drift", responses, "--namespace", "next", store=store)
    assert code == 1
    assert out.endswith(f"] {PUMPS[0]}.md: changed\n1 response of 3 drifted\n")
    code, out, err = cli("drift", responses, "--namespace", "nowhere", store=store)
    assert (code, out.count(": deleted")) == (1, 3)
    assert "namespace nowhere is empty" in err
    (responses / "broken.json").write_text('{"query": ')
    (responses / "problem.json").write_text('{"status": 400, "code": "invalid"}')
    (responses / "list.json").write_text("[]")
    code, out, err = cli("drift", responses, store=store)
    assert code == 2
    assert "0 responses of 3 drifted" in out
    assert "broken.json is not a saved response: is not JSON" in err
    assert "problem.json is not a saved response: not a RAGResponse: " in err
    assert "list.json is not a saved response: is not a JSON object" in err
    (tmp_path / "empty").mkdir()
    code, _, err = cli("drift", tmp_path / "empty", store=store)
    assert code == 2 and "contains no saved responses" in err
