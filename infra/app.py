"""Synthesises one environment: no account, no network, no CLI needed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from infra.settings import environment
from infra.specs import ROOT
from infra.stack import DocsToKGStack

BUNDLES = ROOT / "build" / "aarch64"


def build(name: str, *, out: Path | None = None, bundles: Path | None = None) -> cdk.App:
    """The app of one environment with both rule packs; `bundles` None synthesises from sources.

    A template synthesised from sources says so in its metadata and cannot be deployed.
    """
    app = cdk.App(outdir=str(out) if out else None)
    stack = DocsToKGStack(
        app,
        f"docstokg-{name}",
        environment=environment(name),
        bundles=bundles,
    )
    if bundles is None:
        stack.add_metadata("docstokg:code", "sources, for inspection only: run `make package`")
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    return app


def main(arguments: list[str] | None = None) -> None:
    """`python -m infra.app [ENV...] [--out FOLDER] [--sources]`; the CLI passes `-c env=NAME`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("environments", nargs="*")
    parser.add_argument("--out", type=Path, help="a folder per environment goes below it")
    parser.add_argument("--sources", action="store_true", help="ignore built bundles")
    options = parser.parse_args(arguments)
    names = options.environments or [cdk.App().node.try_get_context("env") or "dev"]
    bundles = BUNDLES if BUNDLES.is_dir() and not options.sources else None
    for name in names:
        # The CLI gives no name on the command line, and a folder of its own.
        folder = options.out or (ROOT / "cdk.out" if options.environments else None)
        out = folder / name if folder else None
        build(name, out=out, bundles=bundles).synth()
        if out is not None:
            text = (out / f"docstokg-{name}.template.json").read_text(encoding="utf-8")
            count, size = len(json.loads(text)["Resources"]), len(text.encode()) // 1024
            sys.stdout.write(f"{name}: {count} resources, {size} KiB, no findings\n")


if __name__ == "__main__":
    main()
