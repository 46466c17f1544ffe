import json

from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain import budget
from docstokg.domain.circuit import Circuit


@given(st.text())
def test_tokens_round_up_bytes(text) -> None:
    size = len(text.encode("utf-8", "surrogatepass")) if text.isprintable() else None
    if size is not None:
        assert budget.tokens(text) * 4 - size in (0, 1, 2, 3)


@given(st.dictionaries(st.text('aé\U0001f600"\\\n'), st.text('aé\U0001f600"\\\n')))
def test_nested_bytes_are_those_of_json_in_json(value) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert budget.nested_json_bytes(text) == len(json.dumps(text, ensure_ascii=False).encode())


def test_fitting_counts_leading_items() -> None:
    assert budget.fitting([3, 3, 3], 7) == 2
    assert budget.fitting([9, 1], 7) == 0


def test_circuit_opens_waits_tries_once_and_closes() -> None:
    circuit = Circuit(failures=2, recovery_s=10)
    assert circuit.failed(0).allows(0)
    opened = circuit.failed(0).failed(1)
    assert opened.state(2) == "open"
    assert not opened.allows(2)
    assert opened.allows(11)
    trial = opened.called(11)
    assert not trial.allows(12)
    assert trial.succeeded().allows(12)
    assert not trial.failed(12).allows(13)
    assert trial.failed(12).allows(22)
