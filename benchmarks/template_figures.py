"""How large each environment's template is, how long synthesis takes, and what the linters say."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cfnlint.api import ManualArgs, lint  # type: ignore[import-untyped] # it ships no types

from infra.app import build
from infra.settings import ENVIRONMENTS, environment
from infra.specs import ROOT

TEMPLATE_LIMIT_KIB, RESOURCE_LIMIT = 1_000_000 // 1024, 500


@dataclass(frozen=True, slots=True)
class Figures:
    """One environment; `rules` = findings of both rule packs, `lint` = of cfn-lint.

    Resources and size are those of its larger stack, the one CloudFormation's limits meet first.
    """

    name: str
    resources: int
    kib: int
    seconds: float
    rules: int
    lint: int
    acknowledged: int


def figures(name: str, out: Path, bundles: Path | None) -> Figures:
    """Synthesise one environment below `out` and count."""
    started = time.perf_counter()
    try:
        build(environment(name), out=out, bundles=bundles).synth()
    except RuntimeError as error:
        # Findings end the synthesis; the report says which.
        if not (out / "validation-report.json").is_file():
            raise error
    seconds = time.perf_counter() - started
    texts = [path.read_text(encoding="utf-8") for path in sorted(out.glob("*.template.json"))]
    said = json.loads((out / "validation-report.json").read_text(encoding="utf-8"))
    notes = [json.loads(path.read_text(encoding="utf-8")) for path in out.glob("*.metadata.json")]
    config = ManualArgs(regions=[environment(name).region])
    return Figures(
        name,
        max(len(json.loads(text)["Resources"]) for text in texts),
        max(len(text.encode()) // 1024 for text in texts),
        seconds,
        sum(len(plugin["violations"]) for plugin in said["pluginReports"]),
        sum(len(lint(text, config=config)) for text in texts),
        sum(
            len(entry["data"])
            for note in notes
            for group in note.values()
            for entry in group
            if entry["type"] == "aws:cdk:acknowledged-rules"
        ),
    )


def table(rows: Sequence[Figures]) -> str:
    """As Markdown."""
    lines = [
        f"| environment | resources (of {RESOURCE_LIMIT}) | template KiB (of {TEMPLATE_LIMIT_KIB})"
        " | synthesis s | rule packs' findings | cfn-lint's findings | acknowledged, with reason |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.resources} | {row.kib} | {row.seconds:.1f} | {row.rules} | {row.lint}"
        f" | {row.acknowledged} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table; exit 1 when a linter says something: `... template_figures [ENV...]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("environments", nargs="*")
    names = parser.parse_args(arguments).environments or list(ENVIRONMENTS)
    bundles = ROOT / "build" / "aarch64"
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            figures(name, Path(folder) / name, bundles if bundles.is_dir() else None)
            for name in names
        ]
    sys.stdout.write(table(rows))
    if any(row.rules or row.lint for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
