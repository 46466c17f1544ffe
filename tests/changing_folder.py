"""A folder of small documents that name each other, in which somebody works."""

import random
from dataclasses import dataclass
from pathlib import Path

NAMES = (
    "Zebra 1", "Zebra 2", "Zebra 3", "Quagga", "Okapi", "Marie Dupont", "Dupont", "Duponts",
    "Northwind Vault", "NORTHWIND VAULT", "Northwind vault", "Harbour Office", "Harbour Office Two",
)  # fmt: skip
TITLES = (*NAMES, "The Chase (1946 film)", "The Chase (2011 film)", "Chase", "gzip(1)", "tar(1)")
SECTIONS = ("Quagga", "Okapi", "Harbour Office", "Plan of 1946", "Marie Dupont")


def document(chance: random.Random) -> str:
    """Give a small document that names others, and is named by others."""
    parts = [f"# {chance.choice(TITLES)}"] if chance.random() < 0.9 else []
    for _ in range(chance.randint(1, 3)):
        if chance.random() < 0.5:
            parts.append(f"## {chance.choice(SECTIONS)}")
        first, other = chance.sample(NAMES, 2)
        parts.append(
            chance.choice(
                (
                    f"In the north {first} says that {other} is there.",
                    f"It was {first}, and near it {other}.",
                    f"Here {first} (HOX) is a word; then HOX again, after {other}.",
                    f"By the Harbour Office Register (HOR) it is {first}.",
                    f"The HOR of {first} tells more, see tar(1) and gzip(1).",
                    f"gzip, zcat - a tool of {first}\n\nNobody knew the chase.",
                )
            )
        )
    return "\n\n".join(parts) + "\n"


@dataclass
class ChangingFolder:
    """Files in two folders of a folder; each name is used once, also by others of its kind."""

    root: Path
    chance: random.Random
    file_count: int = 0

    def add(self) -> None:
        """Write one more file."""
        path = self.root / self.chance.choice(("", "inner")) / self._name()
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(document(self.chance))

    def work(self) -> None:
        """Add, change, rename and remove a few files."""
        for _ in range(self.chance.randint(1, 4)):
            deed = self.chance.choice(("add", "change", "rename", "remove"))
            files = sorted(self.root.rglob("*.md"))
            if deed == "add" or len(files) < 3:
                self.add()
                continue
            path = self.chance.choice(files)
            if deed == "change":
                path.write_text(document(self.chance))
            elif deed == "remove":
                path.unlink()
            else:
                path.rename(path.with_name(self._name()))

    def _name(self) -> str:
        self.file_count += 1
        return f"{self.root.name}{self.file_count}.md"
