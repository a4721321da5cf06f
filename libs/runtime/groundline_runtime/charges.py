"""Charges of calls: their price, their sum, and those of failed calls, which are paid for, too.

A call of a hosted model deep below a request says by `charge` what it took; `metered` collects that.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from groundline.v1 import chat_pb2

from groundline_runtime.errors import GroundlineError

_paid: ContextVar[list[chat_pb2.Usage] | None] = ContextVar("paid", default=None)


@contextmanager
def metered() -> Iterator[Sequence[chat_pb2.Usage]]:
    """Collect what the calls of the block charge, those in its tasks and those that fail included."""
    paid: list[chat_pb2.Usage] = []
    token = _paid.set(paid)
    try:
        yield paid
    finally:
        _paid.reset(token)


def charge(usage: chat_pb2.Usage) -> None:
    """Add a call to the innermost `metered` block around it; outside of one it is not counted."""
    paid = _paid.get()
    if paid is not None and usage.ListFields():
        paid.append(usage)


@contextmanager
def charged(paid: Sequence[chat_pb2.Usage]) -> Iterator[None]:
    """Put the usage so far into the metadata of a GroundlineError of the block."""
    try:
        yield
    except GroundlineError as error:
        used = {field.name: str(count) for field, count in total(paid).ListFields()}
        error.metadata = {**error.metadata, **used}
        raise


def usage_of(error: GroundlineError) -> chat_pb2.Usage:
    """Return the usage that `charged` put into an error."""
    used = chat_pb2.Usage()
    for name in chat_pb2.Usage.DESCRIPTOR.fields_by_name:
        if name in error.metadata:
            number = type(getattr(used, name))
            setattr(used, name, number(error.metadata[name]))
    return used


def total(usages: Iterable[chat_pb2.Usage], *, stored: bool = False) -> chat_pb2.Usage:
    """Add up the usage of several calls. What they cost is known only if it is of each that took anything.

    `stored`: whether they are of stored items, whose vectors without a price are a local model's.
    """
    used, costs = chat_pb2.Usage(), list[float | None]()
    for usage in usages:
        used.prompt_tokens += usage.prompt_tokens
        used.cached_tokens += usage.cached_tokens
        used.output_tokens += usage.output_tokens
        used.embedding_tokens += usage.embedding_tokens
        used.rerank_units += usage.rerank_units
        bills = [usage.prompt_tokens, usage.output_tokens, usage.rerank_units, usage.HasField("cost_usd")]
        if any(bills) or (usage.embedding_tokens and not stored):
            costs.append(usage.cost_usd if usage.HasField("cost_usd") else None)
    known = [cost for cost in costs if cost is not None]
    if known and len(known) == len(costs):
        used.cost_usd = math.fsum(known)
    return used


def published_cost(
    model: str,
    *,
    provider: str,
    base_url: str | None = None,
    prompt_tokens: int,
    cached_tokens: int = 0,
    output_tokens: int = 0,
) -> float | None:
    """Return the price of a call in US dollars by the installed version of genai-prices; None if the model is
    not known. Nothing is fetched.

    `provider`: its id in genai-prices; with `base_url` it is the provider at that address, if one is known
    there: a model of the same name elsewhere has another price. Needs the extra `prices`.
    """
    # Takes 40 MB, which only those pay that call a model.
    from genai_prices import Usage, calc_price

    used = Usage(input_tokens=prompt_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens)
    try:
        priced = (
            calc_price(used, model, provider_id=provider)
            if base_url is None
            else calc_price(used, model, provider_api_url=base_url)
        )
    except (LookupError, ValueError):
        return None
    return float(priced.total_price)
