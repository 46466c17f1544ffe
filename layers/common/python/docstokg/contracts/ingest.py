"""Messages of the load state machine."""

from typing import Literal

from pydantic import ConfigDict, Field

from docstokg.contracts import Json
from docstokg.contracts.model import Contract

Stage = Literal["read", "compute", "encode", "names", "resolve", "write", "close", "store"]


class IngestMessage(Contract):
    """A message of the state machine; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class IngestRun(IngestMessage):
    """A run that loads the objects below `prefix` into `namespace`.

    `sync`: also remove documents deleted from the prefix; at most `max_removed`. `remove`: further
    documents to remove. `replace`: replace whole documents, even if another source loaded them.
    `groups`: groups of the sender, None for all.
    """

    run_id: str = Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9_-]+$")
    namespace: str = "default"
    bucket: str = ""
    prefix: str = ""
    sync: bool = False
    max_removed: int = Field(0, ge=0)
    remove: tuple[str, ...] = ()
    replace: bool = False
    groups: tuple[str, ...] | None = None

    @property
    def inbox(self) -> str:
        """Prefix of uploaded documents."""
        return f"inbox/{self.namespace}/{self.run_id}/"

    @property
    def sources(self) -> str:
        """Prefix of the operators' documents of the namespace."""
        return f"sources/{self.namespace}/"

    @property
    def posted(self) -> bool:
        """Whether the run loads uploaded documents."""
        return self.prefix == self.inbox

    def key(self, kind: str, name: str = "") -> str:
        """Return the key of an object of the run, `runs/RUN_ID/KIND/NAME`."""
        return f"runs/{self.run_id}/{kind}/{name}"


class IngestObject(IngestMessage):
    """An object of the bucket, with the field names of S3."""

    key: str = Field(alias="Key")
    size: int = Field(0, alias="Size")
    etag: str = Field("", alias="ETag")


class IngestCursor(IngestMessage):
    """Position at which `close` stopped (see `closing.close_load`), and its counts."""

    step: str
    after: str
    relations: int = 0
    relinked: int = 0


class IngestTask(IngestMessage):
    """A task. `crashed`: error of reading its only object, which is not retried.

    `failed` with `error`: the run is aborted. `cursor`: position at which the previous task ended.
    """

    run: IngestRun
    stage: Stage = "read"
    items: tuple[IngestObject, ...] = ()
    crashed: Json | None = None
    failed: bool = False
    error: Json | None = None
    cursor: IngestCursor | None = None
