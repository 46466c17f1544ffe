"""`docstokg demo`: from nothing to a cited answer about seizures, on one machine."""

from pathlib import Path

from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.rejects import RejectLog
from docstokg.wiring import Wiring
from docstokg_local.asking import ask
from docstokg_local.demo_corpus import write_corpus
from docstokg_local.display import (
    TerminalProgress,
    notes,
    screen,
    show_answer,
    show_load,
    show_problem,
)
from docstokg_local.load_stores import stores_of

QUESTION = "What are the phenotypic abnormalities associated with HP:0001250?"
SHOWN = 8


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
    store = wiring.settings.index_url
    out.print(f"\nstore {store}, files {_short(corpus)}", style="dim")
    out.print(
        'next: docstokg ask "Which diseases show febrile seizures?" --synthesize extractive',
        style="dim",
    )
    return not rejects.count


def _short(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)
