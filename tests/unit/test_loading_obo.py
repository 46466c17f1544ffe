"""An ontology's text becomes entities and edges; broken stanzas are refused by line."""

from docstokg.loading.read.raw_input import RawEntity, RawRelation
from docstokg.loading.read.rejects import Rejected
from docstokg.loading.readers.obo import read_obo

OBO = """format-version: 1.2
default-namespace: human_phenotype

[Term]
id: HP:0001250
name: Seizure
alt_id: HP:0002279
def: "A \\"fit\\", an event." [PMID:1]
synonym: "Epileptic seizure" EXACT []
synonym: "Seizures" EXACT plural_form []
is_a: HP:0012638 {source="x"} ! Abnormal nervous system physiology
relationship: part_of HP:0000707 ! Abnormality of the nervous system

[Term]
id: HP:0000057
name: obsolete Clitoromegaly
is_obsolete: true
replaced_by: HP:0008665

[Term]
name: nameless

[Term]
id: HP:0000001
name: All
synonym: unquoted
this is no tag

[Typedef]
id: part_of
name: part of
"""


def read_text(tmp_path, text: str):
    path = tmp_path / "hp.obo"
    path.write_text(text, encoding="utf-8")
    return list(read_obo(path))


def test_terms_synonyms_definitions_and_edges(tmp_path):
    records = [item for _, item in read_text(tmp_path, OBO)]
    entities = {item.id: item for item in records if isinstance(item, RawEntity)}
    seizure = entities["HP:0001250"]
    assert seizure.name == "Seizure"
    assert seizure.type == "human_phenotype"
    assert seizure.definition == 'A "fit", an event.'
    assert seizure.synonyms == ("Epileptic seizure", "Seizures")
    replaced = {entity.id: entity.replaced_by for entity in entities.values() if entity.obsolete}
    assert replaced == {"HP:0002279": "HP:0001250", "HP:0000057": "HP:0008665"}
    edges = [item for item in records if isinstance(item, RawRelation)]
    assert [(edge.source, edge.type, edge.target) for edge in edges] == [
        ("HP:0001250", "is_a", "HP:0012638"),
        ("HP:0001250", "part_of", "HP:0000707"),
    ]
    assert "part_of" not in entities


def test_broken_stanzas_are_refused_by_line(tmp_path):
    refused = {
        line: str(item) for line, item in read_text(tmp_path, OBO) if isinstance(item, Rejected)
    }
    assert sorted(refused) == [20, 26, 27]
    assert "one id" in refused[20]
    assert "quoted" in refused[26]
