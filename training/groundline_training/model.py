"""MiniLM as a cross-encoder with three heads, in JAX: its weights, its forward pass and its loss."""

from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
from safetensors.numpy import load_file

type Arrays = dict[str, Any]

LAYERS: Final = 6
HEADS: Final = 12
HIDDEN: Final = 384
EPSILON: Final = 1e-12
OUTSIDE: Final = -1e4
"""Logit of tokens outside the passage."""


def initial(directory: Path, frozen_layers: int, seed: int) -> tuple[Arrays, Arrays]:
    """Return what is trained and what is not: the embeddings and the lowest layers keep MiniLM's weights."""
    found = load_file(directory / "model.safetensors")
    frozen: Arrays = {
        name: jnp.asarray(value)
        for name, value in found.items()
        if name.startswith("embeddings.") and value.ndim
    }
    frozen.pop("embeddings.position_ids", None)
    trained: Arrays = {}
    for name, value in found.items():
        if name.startswith("encoder.layer."):
            into = frozen if int(name.split(".")[2]) < frozen_layers else trained
            # Linear layers are stored as (outputs, inputs).
            into[name] = jnp.asarray(value.T if value.ndim == 2 else value)
    keys = jax.random.split(jax.random.key(seed), 3)
    for key, (name, width) in zip(keys, {"answerable": 1, "span": 2, "claim": 3}.items(), strict=True):
        trained[f"{name}.weight"] = jax.random.normal(key, (HIDDEN, width), jnp.float32) * 0.02
        trained[f"{name}.bias"] = jnp.zeros(width, jnp.float32)
    return trained, frozen


def _normalised(weights: Arrays, name: str, values: jax.Array) -> jax.Array:
    centred = values - values.mean(-1, keepdims=True)
    spread = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPSILON)
    return centred * spread * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]


def _linear(weights: Arrays, name: str, values: jax.Array) -> jax.Array:
    return values @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _layer(weights: Arrays, name: str, hidden: jax.Array, visible: jax.Array) -> jax.Array:
    count, length, _ = hidden.shape

    def heads(part: str) -> jax.Array:
        return _linear(weights, f"{name}.attention.self.{part}", hidden).reshape(count, length, HEADS, -1)

    scores = jnp.einsum("bqhd,bkhd->bhqk", heads("query"), heads("key")) / (HIDDEN / HEADS) ** 0.5
    scores = jax.nn.softmax(scores + visible, axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", scores, heads("value")).reshape(count, length, HIDDEN)
    attended = _linear(weights, f"{name}.attention.output.dense", mixed)
    hidden = _normalised(weights, f"{name}.attention.output", hidden + attended)
    inner = jax.nn.gelu(_linear(weights, f"{name}.intermediate.dense", hidden), approximate=False)
    return _normalised(weights, f"{name}.output", hidden + _linear(weights, f"{name}.output.dense", inner))


def outputs(weights: Arrays, ids: jax.Array, split: jax.Array, length: jax.Array) -> Arrays:
    """Return the logits of a batch: `answerable` [n], `start` and `end` [n, tokens], `claim` [n, 3].

    `ids` is padded; `split` is the place of the passage's first token, and `length` the number of tokens.
    [CLS] stands for no answer: what the passage's tokens are above it counts for `answerable`.
    """
    places = jnp.arange(ids.shape[1])
    second = (places[None] >= split[:, None]).astype(jnp.int32)
    hidden = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][places][None]
        + weights["embeddings.token_type_embeddings.weight"][second]
    )
    hidden = _normalised(weights, "embeddings", hidden)
    visible = jnp.where(places[None] < length[:, None], 0.0, OUTSIDE)[:, None, None]
    for number in range(LAYERS):
        hidden = _layer(weights, f"encoder.layer.{number}", hidden, visible)
    first = hidden[:, 0]
    span = _linear(weights, "span", hidden)
    passage = (second == 1) & (places[None] < length[:, None] - 1)
    inside = jnp.where(passage[:, :, None], span, OUTSIDE)
    evidence = (jax.nn.logsumexp(inside, axis=1) - span[:, 0]).mean(-1)
    return {
        "answerable": _linear(weights, "answerable", first)[:, 0] + evidence,
        "start": inside[:, :, 0],
        "end": inside[:, :, 1],
        "claim": _linear(weights, "claim", first),
    }


def loss(trained: Arrays, frozen: Arrays, batch: Arrays) -> tuple[jax.Array, Arrays]:
    """Return the weighted loss of a batch, and its parts for the log: (sum, number) of each."""
    found = outputs({**frozen, **trained}, batch["ids"], batch["split"], batch["length"])
    asked, weight = batch["answerable"], batch["weight"]
    sign = jnp.where(asked == 1, 1.0, -1.0)
    question = jax.nn.softplus(-sign * found["answerable"])

    spans = [
        -jnp.take_along_axis(jax.nn.log_softmax(found[name]), jnp.maximum(batch[name], 0)[:, None], 1)[:, 0]
        for name in ("start", "end")
    ]
    claims = jax.nn.log_softmax(found["claim"])
    not_supported = jnp.logaddexp(claims[:, 1], claims[:, 2])
    chances = jnp.concatenate([claims, not_supported[:, None]], axis=1)
    claim = -jnp.take_along_axis(chances, jnp.maximum(batch["label"], 0)[:, None], 1)[:, 0]
    parts = {
        "answerable": (question, asked >= 0),
        "span": ((spans[0] + spans[1]) / 2, batch["start"] > 0),
        "claim": (claim, batch["label"] >= 0),
    }
    factors = {"answerable": 1.0, "span": 0.5, "claim": 1.0}
    total = sum(
        factors[name] * jnp.sum(jnp.where(present, value * weight, 0.0))
        for name, (value, present) in parts.items()
    )
    sums = {
        name: (jnp.sum(jnp.where(present, value, 0.0)), jnp.sum(present))
        for name, (value, present) in parts.items()
    }
    return total / jnp.sum(batch["real"]), sums
