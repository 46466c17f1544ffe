"""Odd replies of models by kind, whole and streamed: no thought, token or error in the answer."""

import json
from collections.abc import Iterator
from itertools import cycle
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
ANSWER = f"{GATE} [1]."
PROVEN = ("GATE [1].", "GATE. [1]", "GATE [1]. FEE [2].", "GATE [1].\n\nFEE [2].", "GATE [1]!")
# By kind: replies, in which the words in capitals are replaced by `reply_of`.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "closing tag": ("THOUGHT</think>PROVEN",),
    "reasoning": ("<reasoning>THOUGHT</reasoning>\nPROVEN",),
    "reflection": ("<reflection>THOUGHT</thinking> PROVEN",),
    "channel": ("<|channel|>analysis<|message|>THOUGHT<|channel|>final<|message|>PROVEN",),
    "thought alone": (
        "<think>THOUGHT", "<think>THOUGHT</think>", "THOUGHT</think>", "<reasoning>THOUGHT",
        "<|channel|>analysis<|message|>THOUGHT",
    ),
    "tool call": (
        '<tool_call>{"name": "walrus", "arguments": {}}</tool_call>\nPROVEN',
        'PROVEN\n<tool_call>{"name": "walrus"}', "<function=walrus>{}</function>PROVEN",
        'PROVEN\n[TOOL_CALLS] [{"name": "walrus"}]',
        "<function_calls>walrus</function_calls>PROVEN",
    ),
    "tool call alone": (
        '{"name": "walrus", "arguments": {"query": "gate"}}',
        '```json\n{"name": "walrus", "parameters": {}}\n```',
        "<tool_call>walrus</tool_call>", "<tool_call>walrus", "[TOOL_CALLS] walrus",
    ),
    "end token": (
        "PROVEN<|im_end|>", "PROVEN</s>", "PROVEN<|endoftext|>", "PROVEN<end_of_turn>",
        "PROVEN<|eot_id|>",
    ),
    "repetition": (
        "GATE [1]. " * 40, "GATE [1]. FEE [2]. " * 40, "GATE [1]. FEE [2]. GATE [1]. " * 30,
        "GATE [1].\n" * 40, "- GATE [1].\n" * 40,
    ),
    "marker": (
        "GATE\u00b9.", "GATE [gate.md].", "GATE \\cite{1}.",
        "GATE [source: gate.md]. FEE [fees.md].", "GATE.\u00b9 FEE.\u00b2",
    ),
    "markup": (
        "**GATE** [1].", "Answer: GATE [1].", "- GATE [1].\n- FEE [2].", "**Answer:** GATE [1].",
        "> GATE [1].", '"GATE." [1]', "*GATE* [1].", "1. GATE [1].", "# Answer\n\nGATE [1].",
        "__GATE__ [1].",
    ),
    "other brackets": (
        "[THINK]THOUGHT[/THINK]PROVEN", "\u25c1think\u25b7THOUGHT\u25c1/think\u25b7PROVEN",
        "<seed:think>THOUGHT</seed:think>PROVEN", "< think >THOUGHT</ think >PROVEN",
        "THOUGHT[/THINK]PROVEN",
    ),
    "nested thought": (
        "<think><think>THOUGHT</think></think>PROVEN", "<think>THOUGHT<think>THOUGHT</think>PROVEN",
        "<THINK>THOUGHT</THINK>PROVEN", "<think></think>PROVEN",
        "<think>\nTHOUGHT\n</think>\n\n<think></think>PROVEN",
    ),
    "role": (
        "<|start|>assistant<|channel|>final<|message|>PROVEN<|return|>",
        "analysisTHOUGHTassistantfinalPROVEN", "<|im_start|>assistant\nPROVEN<|im_end|>",
        "<|assistant|>PROVEN", "<|start_header_id|>assistant<|end_header_id|>\n\nPROVEN",
    ),
    "wrapper": (
        "<answer>PROVEN</answer>", "<final_answer>PROVEN</final_answer>", "Final answer: PROVEN",
        "### Response:\n\nPROVEN", "<response>\nPROVEN\n</response>",
    ),
    "other end token": (
        "PROVEN<|end|>", "PROVEN<eos>", "PROVEN[/INST]", "PROVEN<|end_of_text|>",
        "PROVEN<\uff5cend\u2581of\u2581sentence\uff5c>",
    ),
    "other tool call": (
        '<|tool_call|>{"name": "walrus"}<|/tool_call|>PROVEN',
        "<tool_response>walrus</tool_response>PROVEN",
        '<|python_tag|>walrus.call(query="gate")\nPROVEN',
        "```tool_code\nwalrus()\n```\nPROVEN", '<invoke name="walrus"></invoke>PROVEN',
    ),
    "bracketed marker": (
        "GATE \u30101\u3011.", "GATE \u30101\u2020gate\u3011.", "GATE [Passage 1].", "GATE [^1].",
        "GATE (1).",
    ),
    "decorated marker": (
        "GATE [[1]].", "GATE [1](gate.md).", "GATE <sup>1</sup>.", "GATE [doc 1].",
        "GATE \\[1\\].", "GATE. <<<PASSAGE 1>>>",
    ),
    "other markup": (
        "***GATE*** [1].", "`GATE` [1].", "> **GATE** [1].", "\u2022 GATE [1].", "| GATE [1]. |",
    ),
    "abstention": (
        "I don't know.", "The passages do not say when it opens.",
        "I'm sorry, but I can't help with that.", "Das weiß ich nicht.",
        "The documents contain no information about the north gate.",
    ),
}  # fmt: skip
# Answers of the kinds without a proven sentence.
SILENT = {"thought alone": "", "tool call alone": "", "abstention": ABSTENTION}


def reply_of(template: str, proven: str = "") -> str:
    text = template.replace("PROVEN", proven)
    return text.replace("THOUGHT", THOUGHT).replace("GATE", GATE).replace("FEE", FEE)


def replies_of(kind: str) -> list[str]:
    """Return a kind's replies; a lone template is filled with each proven text."""
    templates = TEMPLATES[kind]
    templates *= len(PROVEN) if len(templates) == 1 else 1
    return [reply_of(*pair) for pair in zip(templates, cycle(PROVEN), strict=False)]


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


def check(body: dict[str, Any], kind: str) -> None:
    assert not any(part in body["answer"] for part in ODD), body["answer"]
    if kind in SILENT:
        assert body["answer"] == SILENT[kind]
        return
    sentences = [row for row in body["grounding"]["sentences"] if "no_claim" not in row["reasons"]]
    assert sentences
    assert all(row["verdict"] == "supported" for row in sentences), body["answer"]
    assert not any("Links, images" in warning for warning in body["warnings"])
    assert len(body["answer"]) < 400


@pytest.mark.parametrize("kind", TEMPLATES)
def test_odd_replies_are_cleaned_whole_and_streamed(
    client: Any, model: StreamingModel, kind: str
) -> None:
    is_known = False
    for reply in replies_of(kind):
        model.answer = reply
        body = body_of(client.post("/v1/answer", json=request()))
        check(body, kind)
        if kind == "thought alone":
            assert "Model gateway/m only reasoned and gave no answer." in body["warnings"]
        text, response, sent = streamed(client)
        assert text == response["answer"]
        check(response, kind)
        if is_known or not ends_thought(reply):
            assert not any("walrus" in sentence for sentence in sent)
        is_known = is_known or ends_thought(reply)


@pytest.mark.parametrize(
    ("message", "holds"),
    [
        ({"content": [{"type": "text", "text": GATE}, {"text": " [1]."}]}, GATE),
        ({"content": [{"type": "image"}, {"type": "text", "text": ANSWER}, "x"]}, GATE),
        ({"content": [{"type": "text", "text": ANSWER}], "reasoning_content": "walrus"}, GATE),
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
