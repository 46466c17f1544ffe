"""Bedrock Guardrails verifier."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from docstokg.adapters.aws.clients import AwsService, Warmed
from docstokg.domain.deadline import Deadline
from docstokg.errors import WrongAnswer
from docstokg.ports import Opinion, Pair

# Maximum characters of a claim: the service limits its input, and a truncated claim cannot be
# verified.
LONGEST = 1_000
AT_ONCE = 6


class BedrockGuardrail(Warmed):
    """A `Verifier`: the GROUNDING score of one ApplyGuardrail call per claim."""

    name = "bedrock-guardrail"

    def __init__(
        self, guardrail: str, version: str, threshold: float, service: AwsService | None = None
    ) -> None:
        self.threshold = threshold
        self._guardrail = {"guardrailIdentifier": guardrail, "guardrailVersion": version}
        self._service = service or AwsService("bedrock-runtime", read_timeout_s=5)

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        """Return an opinion per pair, None for a claim above `LONGEST` characters.

        Raise `WrongAnswer` without a score.
        """
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            return list(pool.map(lambda pair: self._opinion(pair, deadline), pairs))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _opinion(self, pair: Pair, deadline: Deadline) -> Opinion | None:
        if len(pair.claim) > LONGEST:
            return None
        whole = max(pair.sources, key=len)  # the joined windows
        content = [
            _block(whole, "grounding_source"),
            _block(pair.claim, "query"),
            _block(pair.claim, "guard_content"),
        ]
        request = {**self._guardrail, "source": "OUTPUT", "content": content}
        return self._service.call(
            lambda client: Opinion(_score(client.apply_guardrail(**request))), deadline
        )


def _block(text: str, qualifier: str) -> dict[str, Any]:
    return {"text": {"text": text, "qualifiers": [qualifier]}}


def _score(answer: dict[str, Any]) -> float:
    for assessment in answer["assessments"]:
        for entry in assessment.get("contextualGroundingPolicy", {}).get("filters", ()):
            if entry["type"] == "GROUNDING":
                return float(entry["score"])
    raise WrongAnswer("the guardrail returned no GROUNDING score: enable contextual grounding")
