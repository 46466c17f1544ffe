"""Odd replies of models by kind, whole and streamed: no thought, token or error in the answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.answer.notices import ABSTENTION
from docstokg.domain.answer.reply import ends_thought
from tests.builders import answer_request, body_of, settings_at, write_files
from tests.conftest import load_folder, opened
from tests.model_server import ModelServer, serving
from tests.streaming_model import StreamingModel, streaming

pytestmark = pytest.mark.timeout(300)
GATE = "The north gate opens at noon and closes at six in the evening"
FEE = "A visitor without a card pays four crowns at the lower window"
FILES = {"gate.md": f"# Gate\n\n{GATE}.\n", "fees.md": f"# Fees\n\n{FEE}.\n"}
QUESTION = "When does the north gate open?"
THOUGHT = "Let me think about the purple walrus. It may be so."
PROVEN = (f"{GATE} [1].", f"{GATE}. [1]", f"{GATE} [1]. {FEE} [2].", f"{GATE} [1].\n\n{FEE} [2].",
          f"{GATE} [1]!")  # fmt: skip
# By kind: replies with one proven sentence each, or None: `ABSTENTION`, or "": no answer.
KINDS: dict[str, tuple[list[str], str | None]] = {
    "closing tag": ([f"{THOUGHT}</think>{reply}" for reply in PROVEN], None),
    "reasoning": ([f"<reasoning>{THOUGHT}</reasoning>\n{reply}" for reply in PROVEN], None),
    "reflection": ([f"<reflection>{THOUGHT}</thinking> {reply}" for reply in PROVEN], None),
    "channel": (
        [f"<|channel|>analysis<|message|>{THOUGHT}<|channel|>final<|message|>{r}" for r in PROVEN],
        None,
    ),
    "thought alone": (
        [
            f"<think>{THOUGHT}", f"<think>{THOUGHT}</think>", f"{THOUGHT}</think>",
            f"<reasoning>{THOUGHT}", f"<|channel|>analysis<|message|>{THOUGHT}",
        ],
        "",
    ),
    "tool call": (
        [
            f'<tool_call>{{"name": "walrus", "arguments": {{}}}}</tool_call>\n{PROVEN[0]}',
            f'{PROVEN[1]}\n<tool_call>{{"name": "walrus"}}',
            f"<function=walrus>{{}}</function>{PROVEN[2]}",
            f'{PROVEN[3]}\n[TOOL_CALLS] [{{"name": "walrus"}}]',
            f"<function_calls>walrus</function_calls>{PROVEN[4]}",
        ],
        None,
    ),
    "tool call alone": (
        [
            '{"name": "walrus", "arguments": {"query": "gate"}}',
            '```json\n{"name": "walrus", "parameters": {}}\n```',
            "<tool_call>walrus</tool_call>", "<tool_call>walrus", "[TOOL_CALLS] walrus",
        ],
        "",
    ),
    "end token": (
        [
            f"{PROVEN[0]}<|im_end|>", f"{PROVEN[1]}</s>", f"{PROVEN[2]}<|endoftext|>",
            f"{PROVEN[3]}<end_of_turn>", f"{PROVEN[4]}<|eot_id|>",
        ],
        None,
    ),
    "repetition": (
        [
            f"{PROVEN[0]} " * 40, f"{GATE} [1]. {FEE} [2]. " * 40,
            f"{PROVEN[0]} {FEE} [2]. {GATE} [1]. " * 30, f"{PROVEN[0]}\n" * 40,
            f"- {PROVEN[0]}\n" * 40,
        ],
        None,
    ),
    "marker": (
        [
            f"{GATE}\u00b9.", f"{GATE} [gate.md].", f"{GATE} \\cite{{1}}.",
            f"{GATE} [source: gate.md]. {FEE} [fees.md].", f"{GATE}.\u00b9 {FEE}.\u00b2",
        ],
        None,
    ),
    "markup": (
        [
            f"**{GATE}** [1].", f"Answer: {PROVEN[0]}", f"- {PROVEN[0]}\n- {FEE} [2].",
            f"**Answer:** {PROVEN[0]}", f"> {PROVEN[0]}", f'"{GATE}." [1]', f"*{GATE}* [1].",
            f"1. {PROVEN[0]}", f"# Answer\n\n{PROVEN[0]}", f"__{GATE}__ [1].",
        ],
        None,
    ),
    "other brackets": (
        [
            f"[THINK]{THOUGHT}[/THINK]{PROVEN[0]}",
            f"\u25c1think\u25b7{THOUGHT}\u25c1/think\u25b7{PROVEN[1]}",
            f"<seed:think>{THOUGHT}</seed:think>{PROVEN[2]}",
            f"< think >{THOUGHT}</ think >{PROVEN[3]}", f"{THOUGHT}[/THINK]{PROVEN[4]}",
        ],
        None,
    ),
    "nested thought": (
        [
            f"<think><think>{THOUGHT}</think></think>{PROVEN[0]}",
            f"<think>{THOUGHT}<think>{THOUGHT}</think>{PROVEN[1]}",
            f"<THINK>{THOUGHT}</THINK>{PROVEN[2]}", f"<think></think>{PROVEN[3]}",
            f"<think>\n{THOUGHT}\n</think>\n\n<think></think>{PROVEN[4]}",
        ],
        None,
    ),
    "role": (
        [
            f"<|start|>assistant<|channel|>final<|message|>{PROVEN[0]}<|return|>",
            f"analysis{THOUGHT}assistantfinal{PROVEN[1]}",
            f"<|im_start|>assistant\n{PROVEN[2]}<|im_end|>", f"<|assistant|>{PROVEN[3]}",
            f"<|start_header_id|>assistant<|end_header_id|>\n\n{PROVEN[4]}",
        ],
        None,
    ),
    "wrapper": (
        [
            f"<answer>{PROVEN[0]}</answer>", f"<final_answer>{PROVEN[1]}</final_answer>",
            f"Final answer: {PROVEN[2]}", f"### Response:\n\n{PROVEN[3]}",
            f"<response>\n{PROVEN[4]}\n</response>",
        ],
        None,
    ),
    "other end token": (
        [
            f"{PROVEN[0]}<|end|>", f"{PROVEN[1]}<eos>", f"{PROVEN[2]}[/INST]",
            f"{PROVEN[3]}<|end_of_text|>", f"{PROVEN[4]}<\uff5cend\u2581of\u2581sentence\uff5c>",
        ],
        None,
    ),
    "other tool call": (
        [
            f'<|tool_call|>{{"name": "walrus"}}<|/tool_call|>{PROVEN[0]}',
            f"<tool_response>walrus</tool_response>{PROVEN[1]}",
            f'<|python_tag|>walrus.call(query="gate")\n{PROVEN[2]}',
            f"```tool_code\nwalrus()\n```\n{PROVEN[3]}",
            f'<invoke name="walrus"></invoke>{PROVEN[4]}',
        ],
        None,
    ),
    "bracketed marker": (
        [
            f"{GATE} \u30101\u3011.", f"{GATE} \u30101\u2020gate\u3011.", f"{GATE} [Passage 1].",
            f"{GATE} [^1].", f"{GATE} (1).",
        ],
        None,
    ),
    "decorated marker": (
        [
            f"{GATE} [[1]].", f"{GATE} [1](gate.md).", f"{GATE} <sup>1</sup>.", f"{GATE} [doc 1].",
            f"{GATE} \\[1\\].", f"{GATE}. <<<PASSAGE 1>>>",
        ],
        None,
    ),
    "other markup": (
        [
            f"***{GATE}*** [1].", f"`{GATE}` [1].", f"> **{GATE}** [1].", f"\u2022 {PROVEN[0]}",
            f"| {GATE} [1]. |",
        ],
        None,
    ),
    "abstention": (
        [
            "I don't know.", "The passages do not say when it opens.",
            "I'm sorry, but I can't help with that.", "Das weiß ich nicht.",
            "The documents contain no information about the north gate.",
        ],
        ABSTENTION,
    ),
}  # fmt: skip
ODD = (
    "walrus",
    "think",
    "assistant",
    "INST",
    "\uff5c",
    "<answer",
    "channel",
    "<|",
    "</",
    "<end",
    "TOOL",
    "cite",
    ".md]",
    "\u00b9",
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    load_folder(write_files(folder / "in", FILES), folder / "store.sqlite", cache_dir)
    return folder / "store.sqlite"


@pytest.fixture
def model() -> Iterator[StreamingModel]:
    with streaming(StreamingModel()) as model:
        yield model


@pytest.fixture
def client(
    store: Path, models: dict[str, Any], cache_dir: Path, model: StreamingModel
) -> Iterator[Any]:
    options = {"cache_dir": cache_dir, "llm_base_url": model.url, "models": ("gateway/m",)}
    with opened(settings_at(store, **options), models) as made, made:
        yield made


def request() -> dict[str, Any]:
    budget = {"max_tokens_gen": 900, "timeout_s": 25}
    return answer_request(QUESTION, model="gateway/m", budget=budget)


def streamed(client: Any) -> tuple[str, dict[str, Any], list[str]]:
    """Return the text after repairs, the last event, and all sentences that were sent."""
    texts: dict[int, str] = {}
    sent, response, name = [], {}, ""
    with client.stream("POST", "/v1/answer/stream", json=request()) as reply:
        for line in reply.iter_lines():
            kind, _, value = line.partition(": ")
            if kind == "event":
                name = value
            elif name in ("sentence", "repair"):
                event = json.loads(value or "{}")
                if event:
                    texts[event["index"]] = event["text"]
                    sent.append(event["text"])
            elif name == "response" and value:
                response = json.loads(value)
    return "".join(texts[index] for index in sorted(texts)), response, sent


def check(body: dict[str, Any], answer: str | None) -> None:
    assert not any(part in body["answer"] for part in ODD), body["answer"]
    if answer is not None:
        assert body["answer"] == answer
        return
    sentences = [row for row in body["grounding"]["sentences"] if "no_claim" not in row["reasons"]]
    assert sentences
    assert all(row["verdict"] == "supported" for row in sentences), body["answer"]
    assert not any("Links, images" in warning for warning in body["warnings"])
    assert len(body["answer"]) < 400


@pytest.mark.parametrize("kind", KINDS)
def test_odd_replies_are_cleaned(client: Any, model: StreamingModel, kind: str) -> None:
    replies, answer = KINDS[kind]
    for reply in replies:
        model.answer = reply
        body = body_of(client.post("/v1/answer", json=request()))
        check(body, answer)
        if kind == "thought alone":
            assert "Model gateway/m only reasoned and gave no answer." in body["warnings"]


@pytest.mark.parametrize("kind", KINDS)
def test_streamed_odd_replies_are_cleaned(client: Any, model: StreamingModel, kind: str) -> None:
    replies, answer = KINDS[kind]
    is_known = False
    for reply in replies:
        model.answer = reply
        text, response, sent = streamed(client)
        assert text == response["answer"]
        check(response, answer)
        if is_known or not ends_thought(reply):
            assert not any("walrus" in sentence for sentence in sent)
        is_known = is_known or ends_thought(reply)


@pytest.mark.parametrize(
    ("message", "holds"),
    [
        ({"content": [{"type": "text", "text": GATE}, {"text": " [1]."}]}, GATE),
        ({"content": [{"type": "image"}, {"type": "text", "text": PROVEN[0]}, "x"]}, GATE),
        ({"content": [{"type": "text", "text": PROVEN[0]}], "reasoning_content": "walrus"}, GATE),
        ({"content": None, "reasoning_content": "walrus"}, ""),
        ({"content": "", "reasoning": "walrus"}, ""),
        ({"reasoning_content": "walrus"}, ""),
    ],
)
def test_parts_are_joined_and_reasoning_alone_is_named(
    store: Path, client_for: Any, message: dict[str, Any], holds: str
) -> None:
    def tampered(path: str, payload: Any) -> Any:
        payload["choices"][0]["message"] = {"role": "assistant"} | message
        return payload

    with serving(ModelServer(tamper=tampered)) as server:
        client = client_for(store, llm_base_url=server.url, models=("gateway/m",))
        body = body_of(client.post("/v1/answer", json=request()))
    assert body["answer"].startswith(holds)
    assert bool(body["answer"]) == bool(holds)
    named = "Model gateway/m only reasoned and gave no answer." in body["warnings"]
    assert named == (not holds)


def test_replies_cut_by_the_model_name_its_limit(client: Any, model: StreamingModel) -> None:
    model.answer, model.finish = "The", "length"
    body = body_of(client.post("/v1/answer", json=request()))
    assert body["answer"] == ""
    # The server counts 30 tokens for every reply.
    limit = "Model gateway/m stopped after 30 tokens, at a length limit of its own."
    assert limit in body["warnings"]
    assert not any("max_tokens_gen" in warning for warning in body["warnings"])


def test_an_invalid_marker_is_listed_once(client: Any, model: StreamingModel) -> None:
    model.answer = " ".join(f"{GATE} [1][{rank}]." for rank in [7, 8, 7, 9, 8] * 20)
    body = body_of(client.post("/v1/answer", json=request()))
    assert body["grounding"]["invalid_citations"] == ["[7]", "[8]", "[9]"]
