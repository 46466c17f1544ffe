"""Jobs on a real index: snapshot it, and bring a snapshot back.

`python -m docstokg_local.cli.index_jobs JOB`, where the index is named as for
`docstokg load` and the caller has the loader's rights. A restore never overwrites: it
makes indices of its own beside those in use and swaps the aliases in one step.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from docstokg.errors import DocsToKGError
from docstokg.settings import Settings
from docstokg_local.cli.printing import say

Json = dict[str, Any]


def bucket(name: str, role_arn: str, region: str) -> Json:
    """A repository in S3, as the search service wants it registered."""
    settings = {"bucket": name, "region": region, "role_arn": role_arn, "base_path": "snapshots"}
    return {"type": "s3", "settings": settings}


def main(arguments: Sequence[str] | None = None) -> None:
    """`index_jobs JOB`: register --bucket B --role R, snapshots, or one with a name."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    jobs = ("register", "snapshot", "snapshots", "restore", "drill")
    parser.add_argument("job", choices=jobs)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--bucket", default="")
    parser.add_argument("--role", default="")
    options = parser.parse_args(arguments)
    try:
        lines = _done(options, Settings.from_environment(os.environ))
    except DocsToKGError as exc:
        raise SystemExit(str(exc)) from exc
    say("\n".join(lines))


def _done(options: argparse.Namespace, settings: Settings) -> Sequence[str]:
    from docstokg.wiring import Wiring

    snapshots = Wiring(settings).snapshots()
    match options.job:
        case "register":
            region = os.environ.get("AWS_REGION", "")
            snapshots.register(bucket(options.bucket, options.role, region))
            return (f"{options.bucket} registered",)
        case "snapshot":
            snapshots.take(options.name)
            return (f"{options.name} is whole",)
        case "restore":
            return snapshots.restore(options.name)
        case "drill":
            here, there = snapshots.drill(options.name)
            told = "equal" if here == there else "not equal: more than deletions came since"
            return (f"in use {here}", f"{options.name} {there}", told)
    return snapshots.names()


if __name__ == "__main__":
    main()
