"""How the servers on this machine are started."""

import shutil
from pathlib import Path

from docstokg_local.services.launches import Setup, neo4j_launch

HOMES = 250


def test_no_password_of_neo4j_is_an_option_of_the_tool_that_sets_it(tmp_path: Path) -> None:
    """One start in sixty-four failed: the tool showed how it is used and ended."""
    true = Path(shutil.which("true") or "/bin/true")
    passwords = set()
    for number in range(HOMES):
        home = tmp_path / str(number)
        home.mkdir()
        launch = neo4j_launch(Setup(tmp_path, home, true, 7687, 512, {}))
        passwords.add(launch.password)
    assert len(passwords) == HOMES
    assert not [one for one in passwords if one.startswith("-")]
    assert min(map(len, passwords)) >= 24
