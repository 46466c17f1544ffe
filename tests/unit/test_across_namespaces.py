"""Port methods over several namespaces: arguments by position or keyword, one answer."""

from typing import Any

import pytest

from docstokg.contracts.records import Scope
from docstokg.domain.across_namespaces import across, mappings
from docstokg.domain.deadline import Deadline

BOTH = Scope(namespace="a", others=("b",))
LATER = Deadline.after(60)


class Names:
    """Names per namespace."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Deadline]] = []

    @across(mappings)
    def names(self, ids: list[str], scope: Scope, deadline: Deadline) -> dict[str, str]:
        """Map ids to the namespace."""
        self.calls.append((scope.namespace, deadline))
        return {**dict.fromkeys(ids, scope.namespace), scope.namespace: "own"}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((["x"], BOTH, LATER), {}),
        ((["x"],), {"scope": BOTH, "deadline": LATER}),
        ((), {"deadline": LATER, "scope": BOTH, "ids": ["x"]}),
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
    assert port.names(ids=["x"], scope=Scope(namespace="b"), deadline=LATER)["x"] == "b"
    assert port.calls == [("b", LATER)]


def test_namespaces_share_the_deadline() -> None:
    port = Names()
    port.names(["x"], scope=BOTH, deadline=LATER)
    assert port.calls == [("a", LATER), ("b", LATER)]


def test_a_wrong_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="argument"):
        Names().names(uuids=["x"], scope=BOTH, deadline=LATER)  # type: ignore[call-arg]
