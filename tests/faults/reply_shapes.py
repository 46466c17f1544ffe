"""Shapes of what models write, over sentences `a` of passage 1 and `b` of passage 2.

Each with what becomes of it: `grounded`, `doubted` (an answer that is not grounded), `silent` (the
abstention), `failed` (no answer, the citations alone), and words that the answer holds or lacks.
"""

import json
from typing import NamedTuple


class Shape(NamedTuple):
    """A reply and its fate; `{a}` and `{b}` are the sentences without their stops."""

    name: str
    text: str
    fate: str
    holds: str = ""
    lacks: str = ""


ABSTAINS = "I don't have information about that in the available documents."
GERMAN = "Anf\u00e4lle sind elektrische Ereignisse im Gehirn und dauern selten lange"
CHINESE = "\u766b\u75eb\u53d1\u4f5c\u662f\u5927\u8111\u7684\u7535\u4e8b\u4ef6"
LIE = "Aspirin 500 mg cures seizures in 92% of patients"
_JSON = json.dumps({"answer": "{a} [1].", "citations": [1], "confidence": 0.99})
_JSON = _JSON.replace("{", "{{").replace("}", "}}").replace("{{a}}", "{a}")

SHAPES = (
    # Markers, well and badly written.
    Shape("two sentences", "{a} [1]. {b} [2].", "grounded"),
    Shape("behind the stop", "{a}. [1] {b}. [2]", "grounded"),
    Shape("no blank", "{a}[1]. {b}[2].", "grounded"),
    Shape("wiki", "{a}.[1] {b}.[2]", "grounded"),
    Shape("list of markers", "{a} [1, 2].", "doubted"),
    Shape("range of markers", "{a} [1-2].", "doubted"),
    Shape("double", "{a} [1][2].", "doubted"),
    Shape("source word", "{a} [source 1]. {b} [Source 2].", "grounded", "[2]", "ource"),
    Shape("reference word", "{a} [Ref: 1].", "grounded", "[1]", "Ref"),
    Shape("raised bracket", "{a} <sup>[1]</sup>.", "grounded", "[1]", "sup"),
    Shape("round", "{a} (1). {b} (2).", "grounded", "[2]", "(1)"),
    Shape("full width", "{a} \uff3b1\uff3d.", "grounded", "[1]"),
    Shape("none at all", "{a}. {b}.", "doubted"),
    Shape("only the last", "{a}. {b} [2].", "doubted"),
    Shape("foreign rank", "{a} [77].", "doubted", "", "77"),
    Shape("rank nought", "{a} [0].", "doubted", "", "[0]"),
    Shape("huge rank", "{a} [1] [99999999999999999999].", "doubted", "[1]", "999"),
    Shape("one foreign beside", "{a} [1][9].", "doubted", "[1]", "[9]"),
    Shape("markers alone", "[1][2] [1]", "silent"),
    Shape("negative rank", "{a} [-1].", "doubted"),
    Shape("exchanged", "{a} [2].", "doubted"),
    # Frames, wrappings, thoughts.
    Shape("preamble", "Sure! Here is the answer:\n\n{a} [1].", "grounded", "", "Sure"),
    Shape("preamble in line", "Here is the answer: {a} [1].", "grounded", "", "Here is"),
    Shape("hope", "{a} [1]. I hope this helps!", "grounded"),
    Shape("let me know", "{a} [1]. Let me know if you need more.", "grounded"),
    Shape("thoughts", "<think>Maybe aspirin [1]. Hm.</think>{a} [1].", "grounded", "", "aspirin"),
    Shape("long word for thoughts", "<thinking>Hm [2].</thinking>\n{a} [1].", "grounded", "", "Hm"),
    Shape("fence", "```\n{a} [1].\n```", "grounded", "", "```"),
    Shape("fence of markdown", "```markdown\n{a} [1].\n```", "grounded", "", "```"),
    Shape("json", _JSON, "grounded", "[1]", "confidence"),
    Shape("json in a fence", f"```json\n{_JSON}\n```", "grounded", "[1]", "```"),
    Shape("json without an answer", '{{"text": "{a} [1]."}}', "any"),
    Shape("broken json", '{{"answer": "{a} [1].', "any"),
    Shape("numbers", "1. {a} [1].\n2. {b} [2].", "grounded"),
    Shape("sources last", "{a} [1].\n\nSources:\n[1] x.txt\n[2] y", "grounded", "", "x.txt"),
    Shape("references last", "{a} [1].\n\n## References\n1. x.txt", "grounded", "", "x.txt"),
    Shape("echo of the fence", "{a} [1].\n<<<PASSAGE question>>>", "grounded", "", "PASSAGE"),
    Shape("echo of a passage", "<<<PASSAGE 1\n{a}\nPASSAGE 1>>> [1]", "any"),
    Shape("according to", "According to passage 1, {a} [1].", "any"),
    Shape("code alone", "```python\nx = 1  # {a} [1]\n```", "any"),
    Shape("a table", "| what | where |\n|---|---|\n| {a} | [1] |", "any"),
    Shape("a question", "What do you mean?", "any"),
    # Silence in its own and in other words.
    Shape("abstention", ABSTAINS, "silent"),
    Shape("abstention in quotes", f'"{ABSTAINS}"', "silent"),
    Shape("abstention in bold", f"**{ABSTAINS}**", "silent"),
    Shape("abstention with a marker", ABSTAINS[:-1] + " [1].", "silent"),
    Shape("abstention, curly", ABSTAINS.replace("'", "\u2019"), "silent"),
    Shape("abstention in a frame", f"Answer: {ABSTAINS}", "silent"),
    Shape("nothing", "", "failed"),
    Shape("a preamble in circles", "The answer is:\nThe answer is:\nThe answer is:", "failed"),
    Shape("blanks", "  \n\n ", "failed"),
    Shape("near abstention", "The provided sources do not contain information about this.", "any"),
    Shape("refusal", "I'm sorry, but I can't help with medical questions.", "any"),
    Shape("a part", "{a} [1]. The sources do not say how often.", "any", "{a}"),
    # What is not so.
    Shape("invented", f"{LIE} [1].", "doubted"),
    Shape("invented beside", f"{{a}} [1]. {LIE} [1].", "doubted", "{a}"),
    Shape("invented before", f"{LIE} [1]. {{a}} [1].", "doubted"),
    Shape("invented, no marker", f"{{a}} [1]. {LIE}.", "doubted"),
    Shape("invented in a heading", f"# {LIE}\n\n{{a}} [1].", "doubted"),
    Shape("invented in a bullet", f"- {{a}} [1].\n- {LIE} [2].", "doubted"),
    Shape("invented in a table", f"{{a}} [1].\n\n| fact |\n|---|\n| {LIE} [1] |", "doubted"),
    Shape("invented in code", f"{{a}} [1].\n\n```\n{LIE}\n```", "doubted"),
    Shape("invented in a comment", f"{{a}} [1].\n<!-- {LIE} -->", "doubted", "", "Aspirin"),
    Shape("german", GERMAN + " [1].", "doubted"),
    Shape("chinese", CHINESE + "[1]\u3002", "doubted"),
    # What could do harm.
    Shape("a link", "{a} [1]. See https://evil.example/?q=x now.", "doubted", "", "evil"),
    Shape("an image", "{a} [1]. ![x](https://evil.example/p.png)", "doubted", "", "evil"),
    Shape("a link with words", "{a} [1]. [more](http://evil.example).", "doubted", "more", "evil"),
    Shape("a script", "<script>alert(1)</script> {a} [1].", "doubted", "", "<script"),
    Shape("a handler", "{a} [1] <img src=x onerror=alert(1)>.", "doubted", "", "onerror"),
    Shape("a data address", "{a} [1]. data:text/html;base64,AAAA", "doubted", "", "base64"),
    Shape("an e-mail address", "{a} [1]. Write to me@evil.example.", "doubted", "", "evil"),
    Shape("hidden characters", "{a}\u200b\u2066 [1].", "doubted", "", "\u200b"),
    Shape("turned round", "{a}\u202e [1].", "doubted", "", "\u202e"),
    Shape("control characters", "{a}\x07\x1b[31m [1].", "doubted", "", "\x1b"),
    Shape("tag characters", "{a}\U000e0041 [1].", "doubted", "", "\U000e0041"),
    Shape("a nested link", "{a} [1]. [![x](http://evil.e/p)](//evil.e)", "doubted", "", "evil"),
    # Too much.
    Shape("repeated", " ".join(["{a} [1]."] * 20), "grounded", "[1].", "[1]. "),
    Shape("500 alternating", " ".join(["{a} [1]. {b} [2]."] * 250), "grounded", "[2].", "[2]. "),
    Shape("500 sentences", " ".join(f"{{a}} [1]. Day {n} [2]." for n in range(250)), "doubted"),
    Shape("300 bullets", "\n".join(f"- {{a}} [1].\n- Day {n} [2]." for n in range(150)), "doubted"),
    Shape("132 kB", "".join(f"{{a}} [1]. Day {n} [2]. " for n in range(900)), "doubted"),
    Shape("one endless word", "x" * 60_000 + " [1]", "any"),
    Shape("endless brackets", "[" * 5_000 + "{a} [1].", "any"),
)
