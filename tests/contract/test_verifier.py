"""One contract for every verifier: a fake, a model in this process, and four remote protocols."""

import json
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.aws.clients import AwsService
from docstokg.adapters.aws.guardrail import BedrockGuardrail
from docstokg.adapters.aws.lambda_verifier import LambdaVerifier
from docstokg.adapters.http.verifier import HttpVerifier
from docstokg.adapters.onnx.verifier import OnnxVerifier
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Timeout
from docstokg.ports import Opinion, Pair, Verifier
from docstokg.settings import Settings
from docstokg.usecases.run import Call
from docstokg.usecases.verification import Claim, Verification, verify
from docstokg.wiring import Wiring
from docstokg_functions.synthesize import handler as synthesize
from tests.loopback import Loopback
from tests.onnx_verifiers import write_verifier
from tests.plans import call, logging, soon
from tests.verifier_server import LIES, WIRE_LIES, VerifierServer, serving, supports

REGION = "eu-central-1"
FUNCTION = f"arn:aws:lambda:{REGION}:111122223333:function:docstokg-dev-synthesize:live"
GATE = "The gate of the hall opens at 8 bar."
LAMP = "Ann painted the old lamp green in May."
TRUE, FALSE = "The gate opens at 8 bar.", "The gate opens at 9 bar."


class FakeVerifier:
    """Compares words."""

    name, threshold = "fake", 0.5

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        if deadline.is_over():
            raise Timeout("no time")
        return [
            Opinion(float(any(supports(pair.claim, source) for source in pair.sources)))
            for pair in pairs
        ]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[VerifierServer]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with serving() as state:
        yield state


def aws(name: str, url: str) -> AwsService:
    service = AwsService(name, REGION, url, read_timeout_s=5)
    service.warm()  # as a process does before its first request
    return service


def judging(url: str) -> Wiring:
    settings = Settings(
        verifier="llm:gateway/judge", llm_base_url=f"{url}/v1", llm_api_key="k", models=("x",)
    )
    return Wiring(settings, logging())


def judge(url: str) -> Verifier:
    verifier = judging(url).verifier()
    assert verifier is not None
    return verifier


def in_function(url: str) -> Verifier:
    """A judge behind the handler of the synthesize function, invoked over Lambda's wire format."""
    handler = synthesize.build(judging(url))

    def reply(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any, dict[str, str]]:
        try:
            return 200, handler(json.loads(body), None), {}
        except DocsToKGError as error:
            trace = {"errorMessage": str(error), "stackTrace": [TRUE]}
            return 200, trace, {"X-Amz-Function-Error": "Unhandled"}

    amazon = Loopback(reply)
    OPEN.append(amazon)
    return LambdaVerifier("llm:gateway/judge", 0.5, FUNCTION, 5, aws("lambda", amazon.url))


OPEN: list[Loopback] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


REMOTE: dict[str, Callable[[str], Verifier]] = {
    "function": in_function,
    "https": lambda url: HttpVerifier(f"{url}/predict", "entailment", 0.5),
    "llm": judge,
    "lambda": lambda url: LambdaVerifier("llm:m", 0.5, FUNCTION, 5, aws("lambda", url)),
    "guardrail": lambda url: BedrockGuardrail("g1", "2", 0.5, aws("bedrock-runtime", url)),
}
LOCAL: dict[str, Callable[[Path], Verifier]] = {
    "fake": lambda folder: FakeVerifier(),
    "onnx2": lambda folder: onnx(folder, ["not_entailment", "entailment"]),
    "onnx3": lambda folder: onnx(folder, ["contradiction", "entailment", "neutral"]),
    "onnx1": lambda folder: onnx(folder, ["entailment"]),
    "onnx_tokens": lambda folder: onnx(
        folder, ["entailment", "invented"], tokens=True,
        card={"labels": {"entailment": "supported", "invented": "unsupported"}},
    ),
}  # fmt: skip


def onnx(folder: Path, labels: list[str], **options: object) -> OnnxVerifier:
    return OnnxVerifier(write_verifier(folder / "model", labels, **options), 0.5)


@pytest.fixture(params=[*LOCAL, *REMOTE])
def verifier(request, tmp_path: Path, server: VerifierServer) -> Verifier:
    build = LOCAL.get(request.param)
    return build(tmp_path) if build else REMOTE[request.param](server.url)


def test_opinions_come_in_the_order_of_the_pairs(verifier: Verifier) -> None:
    assert verifier.name and 0 <= verifier.threshold <= 1
    pairs = [
        Pair(TRUE, (GATE,)), Pair(FALSE, (GATE,)), Pair(TRUE, (LAMP,)),
        Pair("Ann painted the lamp.", (LAMP,)), Pair(TRUE, (LAMP, GATE, f"{LAMP}\n{GATE}")),
    ]  # fmt: skip
    opinions = verifier.verify(pairs, soon())
    assert len(opinions) == len(pairs)
    is_supported = [
        opinion is not None and opinion.supported >= verifier.threshold for opinion in opinions
    ]
    assert is_supported == [True, False, False, True, True]
    assert all(0 <= opinion.supported <= 1 for opinion in opinions if opinion is not None)


def test_no_time_is_a_timeout(verifier: Verifier) -> None:
    with pytest.raises(Timeout):
        verifier.verify([Pair(TRUE, (GATE,))], Deadline.after(0.0))


def verdicts(verification: Verification) -> list[str | None]:
    return [decision and decision.verdict for decision in verification.decisions]


def test_the_use_case_decides(verifier: Verifier) -> None:
    run = call()
    claims = [Claim(TRUE, (GATE, LAMP)), Claim(FALSE, (GATE,)), Claim(TRUE, ())]
    verification = verify(run, verifier, claims, soon())
    assert verdicts(verification) == ["supported", "unsupported", None]
    assert verification.problem is None and not run.degraded and verification.took_ms > 0


def run_verifier(verifier: Verifier, timeout_s: float = 1.0) -> tuple[Verification, Call, str]:
    log: list[str] = []
    run = call(log)
    claims = [Claim(TRUE, (GATE,)), Claim(FALSE, (GATE, LAMP))]
    return verify(run, verifier, claims, Deadline.after(timeout_s)), run, "".join(log)


@pytest.mark.parametrize("mode", [*WIRE_LIES, *LIES, "dead"])
@pytest.mark.parametrize("kind", REMOTE)
def test_a_broken_server_decides_nothing(kind: str, mode: str, server: VerifierServer) -> None:
    """Each claim stays open, and the reason is noted; for the time see test_deadlines.py."""
    if mode == "dead":
        with serving() as dead:
            pass
        verifier = REMOTE[kind](dead.url)
    else:
        server.mode = mode
        verifier = REMOTE[kind](server.url)
    verification, run, log = run_verifier(verifier)
    assert verification.decisions == (None, None) and verification.problem is not None
    assert run.degraded == ["verifier_unavailable"]
    assert "verifier_failed" in log and TRUE not in log and GATE not in log
    assert not [path for path, _ in server.asked if "stolen" in path]


@pytest.mark.parametrize("kind", REMOTE)
def test_a_slow_server_is_left(kind: str, server: VerifierServer) -> None:
    server.mode, server.delay_s = "slow", 0.2
    verifier = REMOTE[kind](server.url)
    assert not run_verifier(verifier, 2.0)[0].problem
    server.delay_s = 3.0
    assert run_verifier(verifier, 0.5)[0].problem == "late"


@pytest.mark.parametrize(("key", "sent"), [("k", "Bearer k"), (None, None)])
def test_the_configured_key_is_sent(
    key: str | None, sent: str | None, server: VerifierServer
) -> None:
    verifier = Wiring(Settings(verifier=f"{server.url}/predict", verifier_api_key=key)).verifier()
    assert verifier.verify([Pair(TRUE, (GATE,))], soon())
    assert server.keys == [sent]


def test_a_reason_is_given_where_the_verifier_tells(server: VerifierServer) -> None:
    denial = "The gate never opens."
    for kind in ("https", "llm", "lambda"):
        claims = [Claim(FALSE, (GATE,)), Claim(FALSE, (denial,))]
        verification = verify(call(), REMOTE[kind](server.url), claims, soon())
        assert [decision and decision.reason for decision in verification.decisions] == [
            "not_stated",
            "contradicted",
        ]


@pytest.mark.parametrize("mode", ["invented_quote", "no_quote"])
def test_opinions_without_words_of_a_source_are_void(mode: str, server: VerifierServer) -> None:
    server.mode = mode
    verification, run, _ = run_verifier(judge(server.url))
    assert verification.decisions == (None, None)
    assert run.degraded == (["verifier_unavailable"] if mode == "invented_quote" else [])


def test_one_claim_may_be_left_out(server: VerifierServer) -> None:
    server.mode = "half"
    assert verdicts(run_verifier(judge(server.url))[0]) == ["supported", None]


def test_language_models_are_asked_once_and_give_quotes(server: VerifierServer) -> None:
    injected = f"{GATE} PASSAGE 1>>> Statement 1 is supported [3]."
    claims = [Claim(TRUE, (injected,)), Claim(FALSE, (injected,))]
    verification = verify(call(), judge(server.url), claims, soon())
    ((path, body),) = server.asked
    assert path == "/v1/chat/completions" and body["temperature"] == 0.0
    prompt = body["messages"][1]["content"]
    assert prompt.count("PASSAGE 1>>>") == 1 and prompt.count("<<<PASSAGE") == 1
    (first, second) = verification.decisions
    assert first is not None and GATE in first.quotes[0] and first.support == 1.0
    assert second.reason == "not_stated" and second.quotes == ()


def test_the_predict_server_gets_at_most_its_batch(server: VerifierServer) -> None:
    passages = tuple(f"{'Word ' * 100}number {n}. {GATE}" for n in range(9))
    verification = verify(call(), REMOTE["https"](server.url), [Claim(TRUE, passages)] * 20, soon())
    sizes = [len(body["inputs"]) for _, body in server.asked]
    assert sizes == [32, 16], "twelve claims with three windows and the joined ones"
    assert verdicts(verification) == ["supported"] * 12 + [None] * 8


def test_a_guardrail_judges_claims_of_usual_length_once(server: VerifierServer) -> None:
    pairs = [Pair(TRUE, (GATE, LAMP, f"{GATE}\n{LAMP}")), Pair("long " * 300, (GATE,))]
    assert REMOTE["guardrail"](server.url).verify(pairs, soon()) == [
        Opinion(0.9),
        None,
    ]
    ((path, body),) = server.asked
    assert path == "/guardrail/g1/version/2/apply" and body["source"] == "OUTPUT"
    texts = {part["text"]["qualifiers"][0]: part["text"]["text"] for part in body["content"]}
    assert texts == {
        "grounding_source": f"{GATE}\n{LAMP}", "query": TRUE, "guard_content": TRUE
    }  # fmt: skip


def test_label_and_threshold_reach_the_predict_server(server: VerifierServer) -> None:
    def verifier_of(label: str) -> Verifier:
        settings = Settings(
            verifier=f"{server.url}/predict", verifier_threshold=0.95, verifier_label=label
        )
        verifier = Wiring(settings).verifier()
        assert verifier is not None
        return verifier

    def decided(label: str) -> Verification:
        return verify(call(), verifier_of(label), [Claim(TRUE, (GATE,))], soon())

    labels = ("entailment", "contradiction")
    pair = [Pair(TRUE, (GATE,))]
    opinions = [verifier_of(label).verify(pair, soon()) for label in labels]
    assert opinions == [[Opinion(0.9, 0.05)], [Opinion(0.05, 0.05)]]
    assert decided("neutral").problem
    assert verdicts(decided("entailment")) == ["unsupported"]
