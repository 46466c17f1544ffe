"""Train the reader of the built-in model; write its weights without the encoder's word table.

    python -m training.reader FOLDER SHARE=FILE... [--steps 220] [--rate 7e-5]

FOLDER has `reader.npz`, weights to begin with in BERT's names, and `words.npy`, the encoder's word
table (pieces, 384). Each FILE in it is a `.jsonl.gz` of groups {q: question, right: texts that
answer, wrong: texts that do not, the nearest first}; SHARE of the groups come from it. Trains the
four upper layers, on processors in 16 bits, with PyTorch, which this project does not require; 16
groups of six texts a step. The loss is softmax over the texts of a question and the logit 0, which
stands for no answer, plus binary loss of each text. Writes `trained.npz`.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from docstokg.adapters.onnx.reader import LONGEST_PAIR, SEP, paired
from docstokg.adapters.onnx.wordpieces import cassette_model, open_tokenizer

BATCH, GROUP, WARM_UP = 16, 6, 30
LAYERS, FROZEN, HEADS = 6, 2, 12
LENGTHS = (40, 48, 56, 64, 72, 80, 92, LONGEST_PAIR)
# Of the wrong texts of a group, so many are drawn among the nearest.
NEAR, NEAREST = 3, 6

type Weights = dict[str, Any]
type Group = dict[str, Any]


def read_groups(path: Path) -> list[Group]:
    """Return the groups of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def draw_groups(shares: Mapping[Path, float], draw: random.Random) -> Iterator[Group]:
    """Yield groups without end, each file in rounds of random order."""
    pools = {path: read_groups(path) for path in shares}
    rounds: dict[Path, list[Group]] = {path: [] for path in shares}
    while True:
        (path,) = draw.choices(list(shares), list(shares.values()))
        rounds[path] = rounds[path] or draw.sample(pools[path], len(pools[path]))
        yield rounds[path].pop()


class Batches:
    """Batches of groups whose longest pair has a similar length."""

    def __init__(self, groups: Iterator[Group], draw: random.Random) -> None:
        self._groups, self._draw = groups, draw
        self._others: list[str] = []
        self._waiting: dict[int, list[tuple[bool, list[list[int]]]]] = {n: [] for n in LENGTHS}
        self._tokenizer = open_tokenizer(cassette_model() / "tokenizer.json", None)

    def __next__(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return word pieces (BATCH * GROUP, length) and, per group, whether its first answers."""
        while True:
            pairs = self._pairs(next(self._groups))
            longest = max(map(len, pairs[1]))
            length = next(length for length in LENGTHS if longest <= length)
            self._waiting[length].append(pairs)
            if len(self._waiting[length]) == BATCH:
                batch, self._waiting[length] = self._waiting[length], []
                ids = np.zeros((BATCH * GROUP, length), np.int64)
                for row, pair in enumerate(pair for _, rows in batch for pair in rows):
                    ids[row, : len(pair)] = pair
                return ids, np.array([answers for answers, _ in batch], np.float32)

    def _pairs(self, group: Group) -> tuple[bool, list[list[int]]]:
        right = group["right"]
        texts = [self._draw.choice(right or group["wrong"][:2])]
        wrong = [text for text in group["wrong"] if text != texts[0]]
        near = self._draw.sample(wrong[:NEAREST], min(NEAR, len(wrong)))
        wrong = [text for text in wrong if text not in near]
        texts += [*near, *self._draw.sample(wrong, min(GROUP - 1 - len(near), len(wrong)))]
        texts += self._draw.choices(self._others or texts, k=GROUP - len(texts))
        self._others = [*self._others[-999:], texts[0]]
        return bool(right), [self._pieces(group["q"], text) for text in texts]

    def _pieces(self, question: str, text: str) -> list[int]:
        pieces = (
            self._tokenizer.encode(part, add_special_tokens=False).ids for part in (question, text)
        )
        return list(chain(*paired(*pieces)))


def logits(weights: Weights, words: Any, ids: Any) -> Any:
    """Return a logit per pair of word pieces (pairs, length); 0 is padding."""
    import torch
    from torch.nn.functional import gelu, layer_norm, linear

    def product(x: Any, name: str) -> Any:
        return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def normal(x: Any, name: str) -> Any:
        gain, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return layer_norm(x.float(), gain.shape, gain, bias, 1e-12)

    count, length = ids.shape
    kept = ids > 0
    ended = torch.cumsum(ids == SEP, 1) - 1 * (ids == SEP)
    kinds = (ended == 1) & kept
    places = weights["b.embeddings.position_embeddings.weight"][:length]
    x = words[ids] + places + weights["b.embeddings.token_type_embeddings.weight"][kinds * 1]
    x = normal(x, "b.embeddings.LayerNorm")
    masked = (kept * 1.0 - 1)[:, None, None] * 1e9
    for layer in range(LAYERS):
        x = x.detach() if layer == FROZEN else x
        name = f"b.encoder.layer.{layer}"
        query, key, value = (
            product(x, f"{name}.attention.self.{part}")
            .reshape(count, length, HEADS, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        alike = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        seen = (alike + masked).softmax(-1).to(value.dtype) @ value
        seen = seen.transpose(1, 2).reshape(count, length, -1)
        output = product(seen, f"{name}.attention.output.dense")
        x = normal(x + output, f"{name}.attention.output.LayerNorm")
        inner = gelu(product(x, f"{name}.intermediate.dense"))
        x = normal(x + product(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    mean = (x * kept[..., None]).sum(1) / kept.sum(1, keepdim=True)
    joined = torch.cat([x[:, 0], mean], -1)
    return (joined @ weights["w.weight"][0] + weights["w.bias"][0]).float()


def train(folder: Path, shares: Mapping[Path, float], steps: int, rate: float) -> None:
    """Train by AdamW with clipped slopes; write `trained.npz`."""
    import torch
    from torch.nn.functional import softplus

    draw = random.Random(1)
    batches = Batches(draw_groups(shares, draw), draw)
    words = torch.from_numpy(np.load(folder / "words.npy"))
    stored = np.load(folder / "reader.npz")
    weights = {name: torch.from_numpy(stored[name].astype(np.float32)) for name in stored.files}
    fixed = ("b.embeddings", *(f"b.encoder.layer.{layer}." for layer in range(FROZEN)))
    free = [weight for name, weight in weights.items() if not name.startswith(fixed)]
    for weight in free:
        weight.requires_grad_()
    descent = torch.optim.AdamW(free, lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        descent, lambda step: min((step + 1) / WARM_UP, (steps - step) / (steps - WARM_UP))
    )
    for number in range(1, steps + 1):
        ids, labels = map(torch.from_numpy, next(batches))
        with torch.autocast("cpu", torch.bfloat16):
            scores = logits(weights, words, ids).reshape(BATCH, GROUP)
        targets = torch.zeros_like(scores)
        targets[:, 0] = labels
        binary = (softplus(scores) - scores * targets).sum(1).mean() / 3
        choice = softplus(scores.logsumexp(1)).mean() - (scores[:, 0] * labels).mean()
        descent.zero_grad()
        (binary + choice).backward()
        torch.nn.utils.clip_grad_norm_(free, 1)
        descent.step()
        schedule.step()
        if number % 20 == 0:
            print(f"step {number} of {steps}, loss {(binary + choice).item():.3f}", flush=True)
    trained = {name: weight.detach().numpy().astype(np.float16) for name, weight in weights.items()}
    np.savez(folder / "trained.npz", allow_pickle=False, **trained)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("shares", nargs="+", metavar="SHARE=FILE")
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--rate", type=float, default=7e-5)
    options = parser.parse_args()
    pairs = (pair.partition("=") for pair in options.shares)
    shares = {options.folder / name: float(share) for share, _, name in pairs}
    train(options.folder, shares, options.steps, options.rate)
