"""Train the reader of the built-in model; write its weights without the encoder's word table.

    python -m training.reader FOLDER SHARE=FILE... [--steps 220] [--rate 7e-5]

FOLDER has `reader.npz`, weights to begin with in BERT's names, and `words.npy`, the encoder's word
table (pieces, 384). Each FILE in it is a `.jsonl.gz` of groups {q: question, right: texts that
answer, wrong: texts that do not}; SHARE of the groups come from it. Of a question without an
answer, `wrong` begins with the nearest texts. Trains the four upper layers, on processors, with
JAX and optax, which this project does not require; 16 groups of six texts a step. The loss is
softmax over the texts of an answerable question plus binary loss of each text. Writes
`trained.npz`.
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
LENGTHS = (48, 64, 80, LONGEST_PAIR)

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

    def __next__(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return word pieces (BATCH * GROUP, length) and, per group, whether its first answers."""
        while True:
            pairs = self._pairs(next(self._groups))
            longest = max(map(len, pairs[1]))
            length = next(length for length in LENGTHS if longest <= length)
            self._waiting[length].append(pairs)
            if len(self._waiting[length]) == BATCH:
                batch, self._waiting[length] = self._waiting[length], []
                ids = np.zeros((BATCH * GROUP, length), np.int32)
                for row, pair in enumerate(pair for _, rows in batch for pair in rows):
                    ids[row, : len(pair)] = pair
                return ids, np.array([answers for answers, _ in batch], np.float32)

    def _pairs(self, group: Group) -> tuple[bool, list[list[int]]]:
        right, wrong = group["right"], group["wrong"]
        texts = [self._draw.choice(right or wrong[:2])]
        texts += self._draw.sample(wrong, min(GROUP - 1, len(wrong)))
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
    import jax
    import jax.numpy as jnp

    def product(x: Any, y: Any) -> Any:
        half = (side.astype(jnp.bfloat16) for side in (x, y))
        return jnp.matmul(*half, preferred_element_type=jnp.float32)

    def linear(x: Any, name: str) -> Any:
        return product(x, weights[f"b.{name}.weight"].T) + weights[f"b.{name}.bias"]

    def normal(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * weights[f"b.{name}.weight"] + weights[f"b.{name}.bias"]

    count, length = ids.shape
    kept = (ids > 0).astype(jnp.float32)
    ended = jnp.cumsum(ids == SEP, 1) - (ids == SEP)
    kinds = (ended == 1) & (ids > 0)
    places = weights["b.embeddings.position_embeddings.weight"][:length]
    x = words[ids] + places + weights["b.embeddings.token_type_embeddings.weight"][kinds * 1]
    x = normal(x, "embeddings.LayerNorm")
    masked = ((kept - 1) * 1e9)[:, None, None, :]
    for layer in range(LAYERS):
        x = jax.lax.stop_gradient(x) if layer == FROZEN else x
        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(x, f"{name}.attention.self.{part}")
            .reshape(count, length, HEADS, -1)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        alike = jnp.matmul(query, key.transpose(0, 1, 3, 2)) / query.shape[-1] ** 0.5
        seen = jnp.matmul(jax.nn.softmax(alike + masked, -1), value)
        seen = seen.transpose(0, 2, 1, 3).reshape(count, length, -1)
        output = linear(seen, f"{name}.attention.output.dense")
        x = normal(x + output, f"{name}.attention.output.LayerNorm")
        inner = jax.nn.gelu(linear(x, f"{name}.intermediate.dense"), approximate=False)
        x = normal(x + linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    mean = (x * kept[..., None]).sum(1) / kept.sum(1, keepdims=True)
    return jnp.concatenate([x[:, 0], mean], -1) @ weights["w.weight"][0] + weights["w.bias"][0]


def train(folder: Path, shares: Mapping[Path, float], steps: int, rate: float) -> None:
    """Train by AdamW with clipped slopes; write `trained.npz`."""
    import jax
    import jax.numpy as jnp
    import optax

    draw = random.Random(1)
    batches = Batches(draw_groups(shares, draw), draw)
    words = jnp.array(np.load(folder / "words.npy"))
    stored = np.load(folder / "reader.npz")
    weights = {name: jnp.array(stored[name].astype(np.float32)) for name in stored.files}

    def loss(weights: Weights, ids: Any, answers: Any) -> Any:
        scores = logits(weights, words, ids).reshape(BATCH, GROUP)
        targets = jnp.zeros_like(scores).at[:, 0].set(answers)
        binary = (jnp.logaddexp(0, scores) - scores * targets).sum(1).mean() / 3
        choice = (jax.nn.logsumexp(scores, 1) - scores[:, 0]) * answers
        return binary + choice.sum() / jnp.maximum(answers.sum(), 1)

    rises, falls = (
        optax.linear_schedule(0, rate, WARM_UP),
        optax.linear_schedule(rate, 0, steps - WARM_UP),
    )
    schedule = optax.join_schedules([rises, falls], [WARM_UP])
    descent = optax.chain(optax.clip_by_global_norm(1), optax.adamw(schedule, weight_decay=0.01))

    def step(weights: Weights, state: Any, ids: Any, answers: Any) -> Any:
        lost, slopes = jax.value_and_grad(loss)(weights, ids, answers)
        changes, state = descent.update(slopes, state, weights)
        return optax.apply_updates(weights, changes), state, lost

    compiled, state = jax.jit(step), descent.init(weights)
    for number in range(1, steps + 1):
        weights, state, lost = compiled(weights, state, *next(batches))
        if number % 20 == 0:
            print(f"step {number} of {steps}, loss {float(lost):.3f}", flush=True)
    trained = {name: np.asarray(weight).astype(np.float16) for name, weight in weights.items()}
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
