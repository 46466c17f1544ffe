"""Read rights per namespace and group, for every route."""

import pytest
from pydantic import ValidationError

from docstokg.contracts.envelope import Caller, Envelope


@pytest.mark.parametrize(
    ("namespaces", "namespace", "granted"),
    [
        (("*",), "anything", True), (("mine",), "mine", True), (("mine", "ours"), "ours", True),
        (("mine",), "min", False), (("mine",), "*", False), ((), "default", False),
    ],
)  # fmt: skip
def test_namespaces_are_granted_by_name_or_by_star(
    namespaces: tuple[str, ...], namespace: str, granted: bool
) -> None:
    assert Caller(sub="a", namespaces=namespaces).may_read(namespace) is granted


@pytest.mark.parametrize(
    ("groups", "seen"), [(("*",), None), (("staff", "*"), None), (("staff",), ("staff",)), ((), ())]
)
def test_groups_without_the_star_never_see_everything(
    groups: tuple[str, ...], seen: tuple[str, ...] | None
) -> None:
    scope = Caller(sub="a", namespaces=("*",), groups=groups).scope("ns", {"topic": ("x",)})
    assert (scope.namespace, scope.groups, scope.filter) == ("ns", seen, {"topic": ("x",)})
    assert scope.doc_ids is None


def test_an_envelope_is_of_one_of_the_routes() -> None:
    with pytest.raises(ValidationError):
        Envelope.model_validate(
            {"route": "other", "request_id": "r", "caller": {"sub": "a"}, "body_b64": ""}
        )
