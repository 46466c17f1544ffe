"""`docstokg demo`: from nothing to a cited answer about seizures, on one machine."""

from pathlib import Path

from rich.console import Console

from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.rejects import RejectLog
from docstokg.ports import Workflow
from docstokg.wiring import Wiring
from docstokg_local.asking import ask
from docstokg_local.demo_corpus import write_corpus
from docstokg_local.display import (
    TerminalProgress,
    notes,
    path_drawing,
    screen,
    show_answer,
    show_load,
    show_problem,
)
from docstokg_local.load_stores import stores_of

QUESTION = "What are the phenotypic abnormalities associated with HP:0001250?"
SECOND = "Which disease comes with loss of bladder control?"
"""No page of the corpus calls it that: a name in the graph leads to the pages that say it."""

SHOWN = 8
MODEL_READS = 5


def run_demo(wiring: Wiring, full: bool) -> bool:
    """Build the corpus, load it, ask the question; True when it was answered."""
    from docstokg_local.workflow import LocalWorkflow

    out, err = screen(), notes()
    err.print("reading the Human Phenotype Ontology", style="dim")
    corpus = write_corpus(wiring.cache_folder(), full)
    if full:
        err.print(
            "encoding all of it takes hours on a small machine; a run that is stopped goes on "
            "where it was",
            style="dim",
        )
    with RejectLog() as rejects:
        report = load(
            [corpus], LoadOptions("default"), stores_of(wiring), rejects, TerminalProgress()
        )
    show_load(report, rejects)
    out.print()
    request = {
        "query": QUESTION,
        "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {"max_tokens_gen": 512},
    }
    workflow = LocalWorkflow(wiring)
    # The first question pays for opening models and files; the second shows what one costs.
    ask(workflow, request)
    outcome = ask(workflow, request)
    if outcome.status != 200:
        show_problem(outcome.body)
        return False
    show_answer(outcome.body, SHOWN)
    _show_second(workflow, out)
    store = wiring.settings.index_url
    out.print(f"\nstore {store}, files {_short(corpus)}", style="dim")
    out.print(
        'next: docstokg ask "Which diseases show febrile seizures?" --synthesize extractive',
        style="dim",
    )
    return not rejects.count


def _show_second(workflow: Workflow, out: Console) -> None:
    """Ask what words alone find late, with the graph and without it, and draw what led there."""
    found = {}
    for graph in (True, False):
        request = {"query": SECOND, "kg_expansion": {"enabled": graph}}
        outcome = ask(workflow, request)
        if outcome.status != 200:
            show_problem(outcome.body)
            return
        found[graph] = outcome.body["citations"]
    out.print(f"\nsecond question: {SECOND}", style="bold")
    alone = {citation["uuid"]: citation["rank"] for citation in found[False]}
    for citation in found[True][:MODEL_READS]:
        if not citation["kg_evidence"] or alone.get(citation["uuid"], 99) <= MODEL_READS:
            continue
        for line in path_drawing(citation):
            out.print(line, highlight=False, markup=False)
        place = alone.get(citation["uuid"])
        was = f"has it at place {place}" if place else "does not find it"
        out.print(f"search alone {was}; a model reads the first {MODEL_READS}", style="dim")
        out.print(" ".join(citation["snippet"].split())[:300], highlight=False, markup=False)


def _short(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)
