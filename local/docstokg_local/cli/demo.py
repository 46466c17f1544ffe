"""`docstokg demo`."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.ports import Workflow
from docstokg.wiring import Wiring
from docstokg_local.cli.demo_corpus import write_corpus
from docstokg_local.cli.display import (
    TerminalProgress,
    notes,
    path_line,
    screen,
    show_answer,
    show_load,
    show_problem,
    snippet_line,
)
from docstokg_local.cli.question import submit, with_answer
from docstokg_local.cli.stores import short
from docstokg_local.loading.stores import stores_of

QUESTION = "What are the phenotypic abnormalities associated with HP:0001250?"
# No page of the corpus contains this phrase; it is a synonym in the graph.
SECOND = "What is associated with loss of bladder control?"

# Question that is suggested next.
THIRD = "Which abnormalities does Angelman syndrome show?"

SHOWN = 5
MODEL_READS = 5


def run_demo(wiring: Wiring, full: bool, options: Sequence[str] = ()) -> bool:
    """Build and load the corpus, then ask; return False for a problem or a rejected line.

    `options`: store options, repeated in the suggested commands.
    """
    from docstokg_local.engine.workflow import LocalWorkflow

    out, err = screen(), notes()
    err.print("reading the Human Phenotype Ontology", style="dim")
    corpus = write_corpus(wiring.cache_folder(), full)
    if full:
        err.print(
            "encoding the whole ontology takes hours on a small machine; repeat an interrupted run "
            "to continue it",
            style="dim",
        )
    with RejectLog() as rejects:
        report = load(
            [corpus], LoadOptions("default"), stores_of(wiring), rejects, TerminalProgress()
        )
    show_load(report, rejects)
    out.print()
    request = with_answer({"query": QUESTION}, EXTRACTIVE)
    workflow = LocalWorkflow(wiring)
    # The first question opens models and files; the second one shows typical times.
    submit(workflow, request)
    outcome = submit(workflow, request)
    if outcome.status != 200:
        show_problem(outcome.body)
        return False
    show_answer(outcome.body, SHOWN)
    _show_second(workflow, out)
    store = wiring.settings.index_url
    out.print(f"\nstore {store}, files {short(corpus)}", style="dim")
    words = "".join(f" {word}" for word in map(shlex.quote, options))
    out.print("next:", style="dim")
    for line in (f'ask "{THIRD}"{words}', f"serve{words}", f"list{words}"):
        out.print(f"  {program()} {line}", style="dim", markup=False)
    out.print(
        "`serve` offers a page for questions at http://127.0.0.1:8080/", style="dim", markup=False
    )
    return not rejects.count


def _show_second(workflow: Workflow, out: Console) -> None:
    citations = {}
    for graph in (True, False):
        request = {"query": SECOND, "kg_expansion": {"enabled": graph}}
        outcome = submit(workflow, request)
        if outcome.status != 200:
            show_problem(outcome.body)
            return
        citations[graph] = outcome.body["citations"]
    out.print(f"\nsecond question: {SECOND}", style="bold")
    alone = {citation["uuid"]: citation["rank"] for citation in citations[False]}
    for citation in citations[True][:MODEL_READS]:
        evidence, place = citation["kg_evidence"], alone.get(citation["uuid"])
        # A passage that is only related to an entity of the question is a poor example.
        if not evidence or evidence["match_type"] != "direct_mention":
            continue
        if place is not None and place <= MODEL_READS:
            continue
        out.print(f"graph: {path_line(citation)}", highlight=False, markup=False)
        was = f"has it at place {place}" if place else "does not find it"
        out.print(f"search alone {was}; a model reads the first {MODEL_READS}", style="dim")
        out.print(snippet_line(citation), highlight=False, markup=False)


def program() -> str:
    """Return this program's name if the shell finds it by name, else its path."""
    place = Path(sys.argv[0])
    program = shutil.which(place.name)
    if program is not None and Path(program).resolve() == place.resolve():
        return place.name
    return shlex.quote(sys.argv[0])
