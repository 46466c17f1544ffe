"""Every way the state machine can go, under two engines that share no code, side by side.

usage: python -m benchmarks.scenarios [--out FILE.md]

The scenarios are those of tests/infra/test_engines.py, which fails when the engines differ; the
last column is what the client gets for the first engine's outcome through the gateway's template.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from infra import templates
from tests.infra.gateway import render_response
from tests.infra.test_engines import SCENARIOS, TOO_MUCH, Outcome, ours, second_engine


def shown(outcome: Outcome) -> str:
    """Status of the execution, of the reply, and the reasons it carries."""
    if outcome.output is None:
        return f"{outcome.status} {outcome.error or ''}".strip()
    body = json.loads(outcome.output["body"])
    reasons = ", ".join(body.get("degraded", ()))
    return f"{outcome.status} {outcome.output['statusCode']}{f': {reasons}' if reasons else ''}"


def client(outcome: Outcome) -> str:
    """HTTP status, and the problem's code where the template writes it."""
    said = {"status": outcome.status}
    if outcome.output is not None:
        said["output"] = json.dumps(outcome.output)
    elif outcome.error:
        said["error"] = outcome.error
    answer = render_response(templates.response_workflow(), said)
    return f"{answer.status} {answer.json.get('code', '')}".strip()


def main() -> None:
    """Run every scenario on both engines and print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    # moto and the parser it carries warn about their own future.
    warnings.simplefilter("ignore")
    lines = [
        "| scenario | ours, over sfnx | moto's parser | same | client gets |",
        "|---|---|---|---|---|",
    ]
    differ = 0
    started = time.perf_counter()
    with second_engine() as moto:
        for number, scenario in enumerate([*SCENARIOS, TOO_MUCH], 1):
            print(f"{number} {scenario.name}", file=sys.stderr, flush=True)
            first, second = ours(scenario), moto.run(scenario)
            same = first == second
            differ += not same
            lines.append(
                f"| {scenario.name} | {shown(first)} | {shown(second)} |"
                f" {'yes' if same else 'no'} | {client(first)} |"
            )
    lines += [
        "",
        f"{len(SCENARIOS) + 1} scenarios, {differ} with different outcomes or data;"
        f" {time.perf_counter() - started:.0f} s.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
