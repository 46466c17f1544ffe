"""`docstokg check`."""

import json
from collections.abc import Sequence
from pathlib import Path

from docstokg.contracts import Json
from docstokg.contracts.check import VERDICT_REASONS
from docstokg.domain.answer.grounding import proof
from docstokg.errors import LoadError
from docstokg.wiring import Wiring
from docstokg_functions.check import handler as check_step
from docstokg_local.cli.display import show_problem
from docstokg_local.cli.options import text_file
from docstokg_local.cli.printing import echo
from docstokg_local.cli.question import envelope_of
from docstokg_local.cli.reasons import in_words


def check_file(
    draft: Path,
    namespace: str | None,
    response: Json | None,
    sources: Sequence[Path],
    wiring: Wiring,
) -> tuple[str, int, Json]:
    """Check a draft against the citations of a response, files, or the passages found for it.

    Returns the draft, the status and the body of the reply. `LoadError`: a file cannot be read, or
    `response` has no citations.
    """
    text = text_file(draft)
    request: Json = {"text": text, "namespace": namespace}
    if response is not None:
        request["citations"] = _citations(response)
    if sources:
        request["sources"] = [
            {"id": path.name, "title": path.stem, "text": text_file(path)} for path in sources
        ]
    event = envelope_of(request, "check").model_dump(mode="json")
    reply = check_step.build(wiring)(event, None)
    return text, reply["statusCode"], json.loads(reply["body"])


def _citations(response: Json) -> list[Json]:
    citations = response.get("citations")
    if not isinstance(citations, list) or not all(
        isinstance(row, dict)
        and isinstance(row.get("rank"), int)
        and isinstance(row.get("uuid"), str)
        for row in citations
    ):
        raise LoadError("the --citations file has no list of citations with rank and uuid")
    # Without the snippet: an answer may use more of the passage than the snippet contains.
    return [{"rank": row["rank"], "uuid": row["uuid"]} for row in citations]


def show_check(text: str, status: int, body: Json) -> None:
    """Print a problem, or a line per sentence and per issue, then the verdict on the whole."""
    if status != 200:
        show_problem(body)
        return
    grounding, consistency = body["grounding"], body["consistency"]
    for sentence in grounding["sentences"]:
        sentence_text = " ".join(text[sentence["start"] : sentence["end"]].split())
        reasons = "; ".join(VERDICT_REASONS.get(reason, reason) for reason in sentence["reasons"])
        why = f" ({reasons})" if reasons else ""
        echo(f"{sentence['verdict']:<12}  {sentence_text}{why}")
    for marker in grounding["invalid_citations"]:
        echo(f"{'invalid':<12}  {marker} refers to no given citation")
    for issue in consistency["issues"] if consistency is not None else ():
        echo(f"{'issue':<12}  {issue['code']} at {issue['start']}: {issue['message']}")
    line = f"coverage {grounding['coverage']:.2f}, {proof(grounding)}"
    if consistency is not None:
        line += ", consistent" if consistency["ok"] else ", not consistent"
    echo(line)
    if grounding["grounded"] is None:
        echo("Without a verifier, only quotations can be verified; see DOCSTOKG_VERIFIER.")
    for warning in body["warnings"]:
        echo(warning)
    for reason in body["diagnostics"]["degraded_reasons"]:
        echo(f"degraded: {in_words([reason])}")
