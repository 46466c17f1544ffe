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
    stacks = [{"data": kinds(template.data), "run": kinds(template.run)} for template in templates]
    lines = ["| | " + " | ".join(template.name for template in templates) + " |"]
    lines.append("|---" * (len(templates) + 1) + "|")
    for kind in sorted(
        {kind for stack in stacks for kind_set in stack.values() for kind in kind_set}
    ):
        cells = [
            ", ".join(name for name, kind_set in stack.items() if kind in kind_set)
            for stack in stacks
        ]
        lines.append(f"| {kind.removeprefix('AWS::')} | " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def kinds(resources: dict[str, Any]) -> set[str]:
    """The types of a stack's resources."""
    return {resource["Type"] for resource in resources.values()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sys.stdout.write(page([Template(folder, name) for name in ENVIRONMENTS]))
