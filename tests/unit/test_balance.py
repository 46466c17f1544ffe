"""Workers behind one port know of each other how many connections are open."""

import time
from pathlib import Path

from docstokg_local.server.balance import GIVES_WAY_S, Shares


def test_who_has_more_gives_way_and_who_has_fewer_does_not(tmp_path: Path, monkeypatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    alone = Shares(tmp_path)
    alone.take(40)
    assert waited == []  # there is nobody to give way to
    # A lock belongs to a process: the second place is written as another worker would.
    alone._counts[1] = 3 + 1
    alone.take(3)
    assert waited == []
    alone.take(4)
    assert waited == [GIVES_WAY_S]
    alone.hold(2)
    alone.take(3)
    assert waited == [GIVES_WAY_S]
