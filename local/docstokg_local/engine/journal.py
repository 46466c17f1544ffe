"""What the children of a run gave, so that running it again begins only the others.

AWS keeps this for a redrive of an execution; here it is an object for each child that succeeded.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from docstokg.ports import ObjectStore
from docstokg_local.engine.endings import compact

UNKNOWN = object()


@dataclass(frozen=True)
class Journal:
    """Children's outputs by Map and input, below `prefix`, which belongs to one run alone."""

    store: ObjectStore
    prefix: str

    def output(self, label: str, child_input: Any) -> Any:
        """Give what a child gave, or UNKNOWN when it did not succeed before."""
        try:
            return json.loads(self.store.get(self._key(label, child_input)))
        except KeyError:
            return UNKNOWN

    def note(self, label: str, child_input: Any, output: Any) -> None:
        """Note that a child succeeded."""
        body = compact(output).encode("utf-8", "surrogatepass")
        self.store.put(self._key(label, child_input), body)

    def _key(self, label: str, child_input: Any) -> str:
        text = compact(child_input).encode("utf-8", "surrogatepass")
        return f"{self.prefix}{label}/{hashlib.sha256(text).hexdigest()}.json"
