"""Messages of the machine that loads a bucket: the run, and what each of its tasks is told."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from docstokg.contracts.model import Contract

Stage = Literal["read", "compute", "encode", "names", "resolve", "write", "close"]


class IngestMessage(Contract):
    """A message of the machine, which may say more than a stage needs to know."""

    model_config = ConfigDict(extra="ignore")


class IngestRun(IngestMessage):
    """What a run loads: the objects below `prefix`, into `namespace`.

    `sync` also removes documents that are gone from the prefix; where a person would be asked,
    at most `max_removed` of them. `remove`: documents to remove beside. `replace`: documents are
    replaced whole, whoever loaded them. `groups`: those of the sender, None for all.
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
        """Where documents that were sent lie."""
        return f"inbox/{self.namespace}/{self.run_id}/"

    @property
    def sources(self) -> str:
        """Where the operators' documents of the namespace lie."""
        return f"sources/{self.namespace}/"

    @property
    def posted(self) -> bool:
        """Tell whether the run loads documents that were sent."""
        return self.prefix == self.inbox

    def key(self, kind: str, name: str = "") -> str:
        """Name an object of the run."""
        return f"runs/{self.run_id}/{kind}/{name}"


class IngestObject(IngestMessage):
    """An object of the bucket as the machine's list names it."""

    key: str = Field(alias="Key")
    size: int = Field(0, alias="Size")
    etag: str = Field("", alias="ETag")


class IngestCursor(IngestMessage):
    """Where `close` stopped: a mark of `pipeline.finishing`, and what was counted until then."""

    step: str
    after: str
    relations: int = 0
    relinked: int = 0


class IngestTask(IngestMessage):
    """One task. `crashed`: how the reading of its only object ended, which is not tried again.

    `failed` with `error`: the run is given up. `cursor`: where the task before it stopped, which
    could not do all in its time.
    """

    run: IngestRun
    stage: Stage = "read"
    items: tuple[IngestObject, ...] = ()
    crashed: dict[str, Any] | None = None
    failed: bool = False
    error: dict[str, Any] | None = None
    cursor: IngestCursor | None = None
