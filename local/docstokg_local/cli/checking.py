"""`docstokg check`: a file through the same function as `/v1/check`, shown for reading."""

import json
from pathlib import Path
from typing import Any

from docstokg.errors import LoadError
from docstokg.wiring import Wiring
from docstokg_functions.check import handler as check_step
from docstokg_local.cli.asking import envelope_of
from docstokg_local.cli.causes import VERDICTS, in_words
from docstokg_local.cli.display import show_problem
from docstokg_local.cli.options import text_file
from docstokg_local.cli.printing import say

Body = dict[str, Any]


def check_file(
    draft: Path, namespace: str, response: Body | None, wiring: Wiring
) -> tuple[str, int, Body]:
    """Check a draft against the citations of a response, or what is found; (text, status, body).

    A citation of the response narrows its source only when the response holds its own snippet's
    place; `LoadError` when a file is not what its name says.
    """
    text = text_file(draft)
    request: Body = {"text": text, "namespace": namespace}
    if response is not None:
        request["citations"] = _citations(response)
    event = envelope_of(request, "check").model_dump(mode="json")
    reply = check_step.build(wiring)(event, None)
    return text, reply["statusCode"], json.loads(reply["body"])


def _citations(response: Body) -> list[Body]:
    citations = response.get("citations")
    if not isinstance(citations, list) or not all(
        isinstance(row, dict)
        and isinstance(row.get("rank"), int)
        and isinstance(row.get("uuid"), str)
        for row in citations
    ):
        raise LoadError("the file of --citations holds no list of citations with rank and uuid")
    # The whole source: an answer may rest on more of a passage than its snippet shows.
    return [{"rank": row["rank"], "uuid": row["uuid"]} for row in citations]


def show_check(text: str, status: int, body: Body) -> None:
    """Print one line per sentence and per issue, then the verdict on the whole."""
    if status != 200:
        show_problem(body)
        return
    grounding, consistency = body["grounding"], body["consistency"]
    for sentence in grounding["sentences"]:
        sentence_text = " ".join(text[sentence["start"] : sentence["end"]].split())
        reasons = "; ".join(VERDICTS.get(reason, reason) for reason in sentence["reasons"])
        why = f" ({reasons})" if reasons else ""
        say(f"{sentence['verdict']:<12}{sentence['support']:.2f}  {sentence_text}{why}")
    for marker in grounding["invalid_citations"]:
        say(f"{'invalid':<12}      {marker} means no given citation")
    for issue in consistency["issues"]:
        say(f"{'issue':<12}      {issue['code']} at {issue['start']}: {issue['message']}")
    say(
        f"coverage {grounding['coverage']:.2f}, "
        f"{'grounded' if grounding['grounded'] else 'not grounded'}, "
        f"{'consistent' if consistency['ok'] else 'not consistent'}"
    )
    for reason in body["diagnostics"]["degraded_reasons"]:
        say(f"degraded: {in_words([reason])}")
