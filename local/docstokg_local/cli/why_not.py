"""`docstokg why-not`."""

from typing import Annotated, Any

from docstokg_local.cli.exit_codes import finish
from docstokg_local.cli.options import Graph, Index, NamespaceOrNone, argument, flag, wiring_of
from docstokg_local.cli.printing import echo, print_json


def why_not(
    doc: Annotated[str, argument("DOC", "Id of a document or passage.")],
    question: Annotated[str, argument("QUESTION")],
    namespace: NamespaceOrNone = None,
    json_output: bool = flag("--json", "Print the ExplainResponse."),
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Show at which stage an expected document was lost, and by how much."""
    from docstokg_local.cli.question import submit
    from docstokg_local.engine.workflow import LocalWorkflow

    workflow = LocalWorkflow(wiring_of(index, graph, verbose=not json_output))
    request = {"query": question, "namespace": namespace}
    outcome = submit(workflow, {**request, "expect": {"doc_id": doc}}, "explain")
    if outcome.status == 404:
        outcome = submit(workflow, {**request, "expect": {"chunk_id": doc}}, "explain")
    if json_output:
        print_json(outcome.body)
    else:
        _print_stages(outcome.status, outcome.body)
    finish(outcome.status == 200)


def _print_stages(status: int, body: dict[str, Any]) -> None:
    from docstokg_local.cli.display import show_problem

    if status != 200:
        show_problem(body)
        return
    echo(f"{body['chunk_id']} of {body['doc_id']}")
    for stage in body["stages"]:
        echo(f"  {stage['stage']:<9} {stage['outcome']:<7} {stage['reason']}")
    echo(f"cited as [{body['rank']}]" if body["rank"] else f"lost at: {body['lost_at']}")
    for advice in body["would_have_helped"]:
        echo(f"would have helped: {advice}")
