"""Writes docs/resources.md, see `make resources-page`."""

import sys
from collections import Counter
from pathlib import Path

from tests.infra.conftest import ENVIRONMENTS, Template

HEAD = """# What the stacks hold

Made by `make resources-page`. Of two numbers the first is of the data stack.

"""


def page(templates: list[Template]) -> str:
    """The whole page, from the templates of every environment."""
    kinds = [
        {
            part: Counter(one["Type"] for one in resources.values())
            for part, resources in (("data", one.data), ("run", one.run))
        }
        for one in templates
    ]
    lines = ["| | " + " | ".join(one.name for one in templates) + " |"]
    lines.append("|---" * (len(templates) + 1) + "|")
    totals = [f"{len(one.data)} + {len(one.run)}" for one in templates]
    lines.append("| **resources** (at most 500 a stack) | " + " | ".join(totals) + " |")
    for kind in sorted({name for one in kinds for part in one.values() for name in part}):
        cells = [f"{one['data'][kind]} + {one['run'][kind]}" for one in kinds]
        lines.append(f"| {kind.removeprefix('AWS::')} | " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sys.stdout.write(page([Template(folder, name) for name in ENVIRONMENTS]))
