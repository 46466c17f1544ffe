"""`docstokg why-not`: one passage's way through a question, a line a stage."""

from typing import TYPE_CHECKING

from docstokg_local.cli.asking import ask
from docstokg_local.cli.printing import say

if TYPE_CHECKING:
    from docstokg.wiring import Wiring


def why_not(wiring: "Wiring", doc: str, question: str, namespace: str, as_json: bool) -> bool:
    """Print the stages of a document, or of a passage's id; True when there is such a thing."""
    from docstokg_local.cli.display import print_json
    from docstokg_local.engine.workflow import LocalWorkflow

    workflow = LocalWorkflow(wiring)
    request = {"query": question, "namespace": namespace}
    outcome = ask(workflow, {**request, "expect": {"doc_id": doc}}, "explain")
    if outcome.status == 404:
        outcome = ask(workflow, {**request, "expect": {"chunk_id": doc}}, "explain")
    body = outcome.body
    if as_json:
        print_json(body)
    elif outcome.status != 200:
        say(f"{body['code']}: {body['detail']}", err=True)
    else:
        say(f"{body['chunk_id']} of {body['doc_id']}")
        for stage in body["stages"]:
            say(f"  {stage['stage']:<9} {stage['outcome']:<7} {stage['reason']}")
        say(f"cited as [{body['rank']}]" if body["rank"] else f"lost at: {body['lost_at']}")
        for advice in body["would_have_helped"]:
            say(f"would have helped: {advice}")
    return outcome.status == 200
