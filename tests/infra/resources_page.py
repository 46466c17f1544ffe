"""Writes docs/resources.md, see `make resources-page`."""

import sys
from pathlib import Path
from typing import Any

from tests.infra.conftest import ENVIRONMENTS, Template

HEAD = """# Resource types of the stacks

Made by `make resources-page`. A cell names the stacks that hold the type: data, run or both.

"""


def page(templates: list[Template]) -> str:
    """The whole page, from the templates of every environment."""
    stacks = [{"data": kinds(one.data), "run": kinds(one.run)} for one in templates]
    lines = ["| | " + " | ".join(one.name for one in templates) + " |"]
    lines.append("|---" * (len(templates) + 1) + "|")
    for kind in sorted({kind for one in stacks for held in one.values() for kind in held}):
        cells = [", ".join(name for name, held in one.items() if kind in held) for one in stacks]
        lines.append(f"| {kind.removeprefix('AWS::')} | " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def kinds(resources: dict[str, Any]) -> set[str]:
    """The types of a stack's resources."""
    return {one["Type"] for one in resources.values()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sys.stdout.write(page([Template(folder, name) for name in ENVIRONMENTS]))
