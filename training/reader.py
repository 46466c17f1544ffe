"""Train the reader of the built-in model; write its weights without the encoder's word table.

    python -m training.reader FOLDER [--steps 1700]

FOLDER: `passages.jsonl.gz` {title, s: sentences}, `questions.json.gz` [[passage, sentence, style,
question]], `human.json.gz` {q, t: title, p: right sentence, n: wrong ones}, `minilm.npz`: weights
of all-MiniLM-L6-v2 in BERT's names. Needs PyTorch, transformers and a GPU, which this project does
not require. A group is a question, its sentence and seven wrong ones; the loss is softmax over the
group plus binary loss of each. A fifth of the right texts are two sentences; an eighth of the
groups, and questions whose question word the passage does not answer, have no right text.
"""

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docstokg.adapters.onnx.reader import LONGEST_PAIR, LONGEST_QUESTION
from docstokg.adapters.onnx.wordpieces import cassette_model, open_tokenizer
from docstokg.domain.answer.extractive import previous_and
from docstokg.domain.answer.kinds import asked_kinds, holds

BATCH, GROUP, RATE = 64, 8, 1.5e-4
CLS, SEP = 101, 102
_ASKING = re.compile(r"(?:who|when|how many)\b", re.IGNORECASE)


class Group(NamedTuple):
    """A question, its sentence, wrong sentences, and whether the sentence answers."""

    question: str
    text: str
    wrong: tuple[str, ...]
    answers: bool


def opened(path: Path) -> Any:
    """Return the lines of a compressed `.jsonl.gz`, or the content of a `.json.gz`."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(map(json.loads, file)) if ".jsonl" in path.name else json.load(file)


def groups(folder: Path, draw: random.Random) -> Iterator[Group]:
    """Yield the groups of both sources of questions, then near misses."""
    passages = opened(folder / "passages.jsonl.gz")
    for place, number, _, question in opened(folder / "questions.json.gz"):
        title, sentences = passages[place]["title"], passages[place]["s"]
        texts = [
            f"{title}: {previous_and(sentences[at], sentences[at - 1] if at else '')}"
            for at in range(len(sentences))
        ]
        following = sentences[number + 1 : number + 2] if draw.random() < 0.2 else []
        wrong = tuple(text for at, text in enumerate(texts) if at != number)
        yield Group(question, " ".join((texts[number], *following)), wrong, answers=True)
        around = " ".join(sentences[max(0, number - 1) : number + 2])
        for word in ("When", "How many"):
            near = _ASKING.sub(word, question, count=1)
            if near != question and not any(holds(kind, around) for kind in asked_kinds(near)):
                yield Group(near, texts[number], wrong, answers=False)
                break
    for row in opened(folder / "human.json.gz"):
        title = f"{row['t']}: " if row["t"] else ""
        wrong = tuple(f"{title}{text}" for text in row["n"])
        yield Group(row["q"], f"{title}{row['p']}", wrong, answers=True)


def encoded(tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> tuple[Any, Any]:
    """Return ids and token types of the pairs, (pairs, pieces) each, padded with 0."""
    ids = np.zeros((len(pairs), LONGEST_PAIR), np.int64)
    kinds = np.zeros_like(ids)
    for row, (question, text) in enumerate(pairs):
        opening, closing = (
            tokenizer.encode(part, add_special_tokens=False).ids for part in (question, text)
        )
        start = [CLS, *opening[:LONGEST_QUESTION], SEP]
        whole = [*start, *closing[: LONGEST_PAIR - len(start) - 1], SEP]
        ids[row, : len(whole)] = whole
        kinds[row, len(start) : len(whole)] = 1
    return ids, kinds


def train(folder: Path, steps: int, target: Path) -> None:
    """Train on the groups of a folder and write the weights to `target`, without word table."""
    import torch
    from transformers import BertConfig, BertModel

    class Reader(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            sizes = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
            config = BertConfig(vocab_size=30522, num_attention_heads=12, **sizes)
            self.b = BertModel(config, add_pooling_layer=False)
            self.w = torch.nn.Linear(768, 1)

        def forward(self, ids: Any, kinds: Any) -> Any:
            inputs = {"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": kinds}
            hidden = self.b(**inputs).last_hidden_state
            mask = (ids > 0)[..., None].to(hidden.dtype)
            mean = (hidden * mask).sum(1) / mask.sum(1)
            return self.w(torch.cat([hidden[:, 0], mean], -1))[:, 0]

    draw = random.Random(1)
    torch.manual_seed(1)
    tokenizer = open_tokenizer(cassette_model() / "tokenizer.json", LONGEST_PAIR)
    tokenizer.no_truncation()
    pool = list(groups(folder, draw))
    model = Reader().cuda()
    stored = np.load(folder / "minilm.npz")
    model.b.load_state_dict({k: torch.from_numpy(stored[k]) for k in stored.files}, strict=False)
    model.b.embeddings.word_embeddings.weight.requires_grad_(requires_grad=False)
    free = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(free, lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps, pct_start=0.08)
    losses = torch.nn.functional
    for _ in range(steps):
        drawn = draw.sample(pool, BATCH)
        labels = torch.tensor([group.answers and draw.random() > 1 / 8 for group in drawn]).cuda()
        pairs: list[tuple[str, str]] = []
        for group, is_right in zip(drawn, labels.tolist(), strict=True):
            first = group.text if is_right or not group.answers else draw.choice(pool).text
            others = [*group.wrong, *(draw.choice(pool).text for _ in range(GROUP))]
            pairs += [(group.question, text) for text in (first, *others[: GROUP - 1])]
        inputs = (torch.from_numpy(part).cuda() for part in encoded(tokenizer, pairs))
        logits = model(*inputs).float().reshape(BATCH, GROUP)
        targets = torch.zeros_like(logits)
        targets[:, 0] = labels.float()
        first_place = torch.zeros(int(labels.sum()), dtype=torch.long).cuda()
        loss = losses.cross_entropy(logits[labels], first_place)
        loss = loss + losses.binary_cross_entropy_with_logits(logits, targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    weights = {k: v.half().cpu().numpy() for k, v in model.state_dict().items()}
    weights.pop("b.embeddings.word_embeddings.weight")
    np.savez(target, **weights)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1700)
    options = parser.parse_args()
    train(options.folder, options.steps, options.folder / "reader.npz")
