"""What a wheel holds beside `docstokg`: the functions, the command line, and the files they read.

In the repository, and for Lambda, the functions are the package `functions`. Nobody else's
environment may get a package of so common a name: in a wheel it is `docstokg_functions`, and every
import of it, there and in the command line, says so.
"""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IMPORT = re.compile(r"^(\s*)(from|import) functions(?=[.\s])", re.MULTILINE)
CODE = {"functions": "docstokg_functions", "local/docstokg_local": "docstokg_local"}
FILES = {
    "statemachine": "docstokg_local/statemachine",
    "docs/openapi.json": "docstokg_local/openapi.json",
}


class WheelHook(BuildHookInterface[Any]):
    """Puts renamed copies into a wheel; an editable install keeps the folders as they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name everything beside the package that hatchling finds itself."""
        if version == "editable":
            return
        root, self._copies = Path(self.root), Path(tempfile.mkdtemp(prefix="docstokg-wheel-"))
        for source, name in CODE.items():
            copy = self._copies / name
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(root / source, copy, ignore=ignored)
            for path in copy.rglob("*.py"):
                text = path.read_text(encoding="utf-8")
                renamed = IMPORT.sub(r"\1\2 docstokg_functions", text)
                if renamed != text:
                    path.write_text(renamed, encoding="utf-8")
            build_data["force_include"][str(copy)] = name
        for source, name in FILES.items():
            build_data["force_include"][str(root / source)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        if version != "editable":
            shutil.rmtree(self._copies)
