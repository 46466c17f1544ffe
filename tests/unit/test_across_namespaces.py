"""Port methods over several namespaces: arguments by position or keyword, one answer."""

import time
from typing import Any

import pytest

from docstokg.contracts.records import Scope
from docstokg.domain.across_namespaces import across, mappings

BOTH = Scope(namespace="a", others=("b",))


class Names:
    """Names per namespace; each call takes `delay_s`."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.calls: list[tuple[str, float]] = []
        self.delay_s = delay_s

    @across(mappings)
    def names(self, ids: list[str], scope: Scope, timeout_s: float) -> dict[str, str]:
        """Map ids to the namespace."""
        self.calls.append((scope.namespace, timeout_s))
        time.sleep(self.delay_s)
        return {**dict.fromkeys(ids, scope.namespace), scope.namespace: "own"}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((["x"], BOTH, 5.0), {}),
        ((["x"],), {"scope": BOTH, "timeout_s": 5.0}),
        ((), {"timeout_s": 5.0, "scope": BOTH, "ids": ["x"]}),
    ],
)
def test_arguments_by_keyword_equal_those_by_position(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    port = Names()
    assert port.names(*args, **kwargs) == {"x": "a", "a": "own", "b": "own"}
    assert [namespace for namespace, _ in port.calls] == ["a", "b"]


def test_a_single_namespace_is_not_joined() -> None:
    port = Names()
    assert port.names(ids=["x"], scope=Scope(namespace="b"), timeout_s=5.0)["x"] == "b"
    assert port.calls == [("b", 5.0)]


def test_namespaces_share_the_timeout() -> None:
    port = Names(delay_s=0.2)
    port.names(["x"], scope=BOTH, timeout_s=0.3)
    (_, first_s), (_, second_s) = port.calls
    assert 0.2 < first_s <= 0.3
    assert 0.0 <= second_s <= 0.1


def test_a_wrong_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="argument"):
        Names().names(uuids=["x"], scope=BOTH, timeout_s=1.0)  # type: ignore[call-arg]
