"""Train the reader: any number of passes over encoded examples, stopped and resumed at any time.

SIGTERM and SIGINT write a checkpoint before the end; SIGSTOP and SIGCONT pause and go on.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from groundline_reader import MAXIMUM_TOKENS, encode, tokenizer
from tokenizers import Tokenizer

from groundline_training.examples import LABELS, Example, read_lines
from groundline_training.model import Arrays, initial, loss

BUCKETS: Final = (64, 96, 128, 160, MAXIMUM_TOKENS)
"""Lengths in tokens to which batches are padded; each is compiled once."""
AVERAGE: Final = 0.998
"""Momentum of the running average of the weights, which is exported; it is less in the first steps, so that
nothing of the initial weights stays."""


@dataclass(frozen=True, slots=True)
class Row:
    """An example in tokens; -1 stands for a target that it does not have."""

    ids: list[int]
    split: int
    """Place of the passage's first token; `start` and `end` are the answer's first and last one."""
    answerable: int
    start: int
    end: int
    label: int
    weight: float


def rows(examples: Sequence[Example], using: Tokenizer) -> list[Row]:
    """Return the examples in tokens; one whose answer was cut off has no target."""
    found: list[Row] = []
    pairs = encode([(example.text, example.passage) for example in examples], using)
    for example, pair in zip(examples, pairs, strict=True):
        answerable = -1 if example.answerable is None else int(example.answerable)
        first, last = example.span or (0, 0)
        inside = [
            place + pair.split
            for place, (start, end) in enumerate(pair.offsets)
            if start < last and end > first
        ] or [-1]
        if example.span is not None and inside == [-1]:
            answerable = -1
        label = -1 if example.label is None else LABELS.index(example.label)
        found.append(Row(pair.ids, pair.split, answerable, inside[0], inside[-1], label, example.weight))
    return found


def to_batch(chosen: Sequence[Row], length: int, count: int) -> Arrays:
    """Return `count` rows padded to `length` tokens: the chosen, repeated with no weight to fill them."""
    filled = [chosen[place % len(chosen)] for place in range(count)]
    real = np.arange(count) < len(chosen)
    ids = np.zeros((count, length), np.int32)
    for place, row in enumerate(filled):
        ids[place, : len(row.ids)] = row.ids
    batch = {
        name: np.where(real, [getattr(row, name) for row in filled], -1).astype(np.int32)
        for name in ("answerable", "start", "end", "label")
    }
    return {
        **batch,
        "ids": ids,
        "length": np.array([len(row.ids) for row in filled], np.int32),
        "split": np.array([row.split for row in filled], np.int32),
        "weight": np.array([row.weight for row in filled], np.float32) * real,
        "real": real.astype(np.float32),
    }


def batches(members: Sequence[Row], tokens: int, seed: int) -> Iterator[Arrays]:
    """Yield all rows once, in a random order, in batches of one length and some `tokens` tokens."""
    rng = np.random.default_rng(seed)
    lengths = np.array([len(row.ids) for row in members])
    made: list[tuple[int, list[int]]] = []
    shortest = 0
    for bucket in BUCKETS:
        inside = rng.permutation(np.flatnonzero((lengths > shortest) & (lengths <= bucket)))
        count = tokens // bucket
        made += [(bucket, inside[place : place + count].tolist()) for place in range(0, len(inside), count)]
        shortest = bucket
    for place in rng.permutation(len(made)):
        bucket, chosen = made[place]
        yield to_batch([members[one] for one in chosen], bucket, tokens // bucket)


def _optimizer(rate: float, warm_up: int, decay_from: int, decay_steps: int) -> optax.GradientTransformation:
    pieces = [optax.linear_schedule(0.0, rate, warm_up), optax.constant_schedule(rate)]
    pieces.append(optax.linear_schedule(rate, 0.0, decay_steps))
    schedule = optax.join_schedules(pieces, [warm_up, decay_from])
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.98, weight_decay=0.01))


def _write_checkpoint(path: Path, state: Arrays, progress: dict[str, Any]) -> None:
    """Write the state, whole or not at all; the checkpoint before stays as `.before`."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    arrays: dict[str, Any] = {jax.tree_util.keystr(place): np.asarray(value) for place, value in leaves}
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        np.savez(file, **arrays, progress=np.array(json.dumps(progress)))
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(path.with_name(f"{path.name}.before"))
    part.replace(path)


def read_checkpoint(path: Path, state: Arrays) -> tuple[Arrays, dict[str, Any]]:
    """Return a state of the same form from a checkpoint, and where in the examples it was."""
    with np.load(path, allow_pickle=False) as found:
        places, form = jax.tree_util.tree_flatten_with_path(state)
        leaves = [jnp.asarray(found[jax.tree_util.keystr(place)]) for place, _ in places]
        return jax.tree_util.tree_unflatten(form, leaves), json.loads(str(found["progress"]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, help="examples; pass n takes the nth, in turn"
    )
    parser.add_argument("--model", type=Path, required=True, help="folder of MiniLM, with model.safetensors")
    parser.add_argument(
        "--output", type=Path, required=True, help="folder of the checkpoint, which is resumed"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--steps", type=int, default=100_000, help="steps in all, those before a stop included"
    )
    parser.add_argument("--tokens", type=int, default=2560, help="tokens of a batch")
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument(
        "--decay-steps", type=int, default=300, help="last steps, in which the rate falls to 0"
    )
    parser.add_argument("--frozen-layers", type=int, default=0)
    parser.add_argument("--checkpoint-steps", type=int, default=100)
    return parser.parse_args()


def main() -> None:
    """Train until all steps are done or a signal comes."""
    options = _options()
    options.output.mkdir(parents=True, exist_ok=True)
    trained, frozen = initial(options.model, options.frozen_layers, options.seed)
    optimizer = _optimizer(
        options.rate, 100, max(options.steps - options.decay_steps, 101), options.decay_steps
    )
    state: Arrays = {"trained": trained, "average": trained, "optimizer": optimizer.init(trained)}
    progress = {"step": 0, "pass": 0, "batch": 0}
    checkpoint = options.output / "checkpoint.npz"
    if checkpoint.exists():
        state, progress = read_checkpoint(checkpoint, state)
        print(f"resumed at {progress}", flush=True)

    def update(state: Arrays, frozen: Arrays, batch: Arrays, momentum: float) -> tuple[Arrays, Arrays]:
        slopes, parts = jax.grad(loss, has_aux=True)(state["trained"], frozen, batch)
        updates, optimizer_state = optimizer.update(slopes, state["optimizer"], state["trained"])
        updated = optax.apply_updates(state["trained"], updates)
        average = jax.tree.map(
            lambda old, new: momentum * old + (1 - momentum) * new, state["average"], updated
        )
        return {"trained": updated, "average": average, "optimizer": optimizer_state}, parts

    step = jax.jit(update)
    stopped: list[int] = []
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, _: stopped.append(number))
    sums: dict[str, list[float]] = {}
    began, seen = time.monotonic(), 0.0
    while progress["step"] < options.steps and not stopped:
        path = options.data[progress["pass"] % len(options.data)]
        members = rows(read_lines(path), tokenizer(options.model))
        for number, batch in enumerate(batches(members, options.tokens, options.seed + progress["pass"])):
            if number < progress["batch"]:
                continue
            done = progress["step"]
            state, parts = step(state, frozen, batch, min(AVERAGE, (1 + done) / (10 + done)))
            for name, (value, count) in parts.items():
                total = sums.setdefault(name, [0.0, 0.0])
                total[0] += float(value)
                total[1] += float(count)
            seen += float(batch["real"].sum())
            progress["step"] += 1
            progress["batch"] = number + 1
            if progress["step"] % 20 == 0:
                losses = {name: round(value / max(count, 1), 4) for name, (value, count) in sums.items()}
                pace = (time.monotonic() - began) / seen * 1000
                print(json.dumps({**progress, **losses, "ms_per_example": round(pace)}), flush=True)
                sums, began, seen = {}, time.monotonic(), 0.0
            if progress["step"] % options.checkpoint_steps == 0:
                _write_checkpoint(checkpoint, state, progress)
            if stopped or progress["step"] >= options.steps:
                break
        else:
            progress["pass"] += 1
            progress["batch"] = 0
    _write_checkpoint(checkpoint, state, progress)
    print(f"stopped at {progress}", flush=True)


if __name__ == "__main__":
    main()
