"""128 clients of a server whose verifier is slow; runs alone, as it measures time."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.test_verified_answers import (  # noqa: F401 - fixtures
    ASKED,
    LATE_S,
    model,
    url,
    verdicts,
    verifier,
)
from tests.verifier_server import VerifierServer

pytestmark = [pytest.mark.timeout(180)]
CLIENTS = 128


def test_128_slow_verifier_clients_are_answered_in_time(
    url: str,  # noqa: F811
    verifier: VerifierServer,  # noqa: F811
) -> None:
    verifier.mode, verifier.delay_s = "slow", 10.0
    timeout_s = 6.0

    def one(client: httpx.Client) -> tuple[int, float, bool]:
        body = {**ASKED, "budget": {"timeout_s": timeout_s, "max_tokens_gen": 512}}
        begun = time.monotonic()
        reply = client.post(f"{url}/v1/answer", json=body, timeout=60)
        took_s, found = time.monotonic() - begun, reply.json()
        report = found.get("grounding") or {"sentences": []}
        reasons = found["diagnostics"]["degraded_reasons"] if reply.status_code == 200 else []
        is_open = "unverified" in verdicts(report)
        return reply.status_code, took_s, is_open == ("verifier_unavailable" in reasons)

    limits = httpx.Limits(max_connections=CLIENTS)
    with httpx.Client(limits=limits) as client, ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(one, [client] * CLIENTS))
    statuses = Counter(status for status, _, _ in found)
    assert statuses.keys() <= {200, 503, 504} and statuses[200], statuses
    late = sorted(took_s for _, took_s, _ in found if took_s > timeout_s + LATE_S)
    assert not late, f"{len(late)} of {CLIENTS} after {late[:3]} ... {late[-1:]} s"
    assert all(says_so for _, _, says_so in found)
    print(f"answered {dict(statuses)}, slowest {max(took for _, took, _ in found):.2f} s")
