"""The demo states only facts of its source files, and its evidence spans are exact."""

import json
from pathlib import Path
from typing import Any

import pytest

from docstokg_local.cli.demo_corpus import CENTRE, read_ontology, write_corpus

OBO = """format-version: 1.2

[Term]
id: HP:0000118
name: Phenotypic abnormality

[Term]
id: HP:0012638
name: Abnormal nervous system physiology
is_a: HP:0000118

[Term]
id: HP:0001250
name: Seizure
def: "A seizure is an event." [X:1]
synonym: "Epileptic seizure" EXACT []
is_a: HP:0012638

[Term]
id: HP:0002373
name: Febrile seizure
is_a: HP:0001250

[Term]
id: HP:0001263
name: Global developmental delay
is_a: HP:0012638

[Term]
id: HP:0000006
name: Autosomal dominant inheritance
"""
HEADER = (
    "database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex"
    "\tmodifier\taspect\tbiocuration"
)
ROWS = [
    "OMIM:1\tDravet syndrome\t\tHP:0001250\tPMID:11;OMIM:1\tPCS\t\t9/10\t\t\tP\tx",
    "OMIM:1\tDravet syndrome\t\tHP:0001263\tPMID:12\tPCS\t\tHP:0040281\t\t\tP\tx",
    "OMIM:1\tDravet syndrome\t\tHP:0000006\tPMID:12\tPCS\t\t\t\t\tI\tx",
    "OMIM:2\tOther syndrome\t\tHP:0001250\tPMID:13\tPCS\t\t3/4\t\t\tP\tx",
    "OMIM:2\tOther syndrome\t\tHP:0001263\tPMID:13\tPCS\t\t\t\t\tP\tx",
    "OMIM:2\tOther syndrome\tNOT\tHP:0002373\tPMID:13\tPCS\t\t\t\t\tP\tx",
    "OMIM:3\tThird syndrome\t\tHP:0001250\tPMID:14\tPCS\t\t0/7\t\t\tP\tx",
    "OMIM:3\tThird syndrome\t\tHP:0001263\tPMID:14\tPCS\t\tHP:0040285\t\t\tP\tx",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "hp.obo").write_text(OBO)
    (folder / "phenotype.hpoa").write_text("\n".join(["#version: 1", HEADER, *ROWS, ""]))
    return folder


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_denied_and_excluded_annotations_are_omitted(data: Path):
    ontology = read_ontology(data)
    assert ontology.having[CENTRE] == {"OMIM:1", "OMIM:2"}
    assert "HP:0002373" not in ontology.having
    assert set(ontology.diseases) == {"OMIM:1", "OMIM:2"}


@pytest.mark.parametrize("full", [False, True])
def test_the_evidence_of_every_disease_edge_states_it(data: Path, tmp_path: Path, full: bool):
    folder = write_corpus(tmp_path / "out", full, data)
    passages = {row["id"]: row for row in rows(folder, "passages.jsonl")}
    names = {row["id"]: row["name"] for row in rows(folder, "entities.jsonl")}
    edges = [row for row in rows(folder, "relations.jsonl") if row["type"] == "has_phenotype"]
    assert len(edges) == 4
    for edge in edges:
        place = edge["evidence"]
        passage = passages[place["chunk_id"]]
        sentence = passage["text"][place["start"] : place["end"]]
        assert sentence.startswith(f"{names[edge['target']]} ({edge['target']})")
        assert passage["doc_id"] == edge["source"]
        assert edge["pmid"][0] in sentence
    frequencies = {(row["source"], row["target"]): row.get("frequency") for row in edges}
    assert frequencies["OMIM:1", "HP:0001250"] == "9/10"
    assert frequencies["OMIM:1", "HP:0001263"] == "80-99% of patients"
    assert frequencies["OMIM:2", "HP:0001263"] is None
