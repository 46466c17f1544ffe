"""The callers of the loader: one process, two processes, the state machine."""

from pathlib import Path

import pytest

from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_with_workers
from tests.builders import settings_at
from tests.unit.test_stages import Place, folder_of
from tests.workflow.ingest_process import run_machine


class RulePlace(Place):
    """A bucket and a store, with the models that each process can build from settings."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        settings = settings_at(
            folder / "store.sqlite",
            ingest_url=f"file://{folder / 'bucket'}",
            cache_dir=str(folder / "cache"),
            embed_provider="none",
            sparse="none",
            names="rule",
        )
        super().__init__(folder, settings)

    def wiring(self) -> Wiring:
        return Wiring(self.settings)

    def load_by(self, processes: int, folder: Path) -> None:
        wiring = self.wiring()
        with stores_with_workers(wiring, True, processes) as stores:
            load([folder], LoadOptions(self.ns), stores, RejectLog())
        wiring.close()


SLOW = (pytest.mark.slow, pytest.mark.timeout(1800))


@pytest.mark.parametrize("documents", [40, pytest.param(2000, marks=SLOW)])
def test_all_callers_store_the_same(tmp_path: Path, documents: int) -> None:
    folder = folder_of(tmp_path / "in", documents)
    single, double, cloud = (RulePlace(tmp_path / name) for name in ("1", "2", "cloud"))
    single.load_by(1, folder)
    double.load_by(2, folder)
    cloud.upload(folder)
    assert run_machine(cloud, "run").status == "SUCCEEDED"
    assert single.digest() == double.digest() == cloud.digest()
