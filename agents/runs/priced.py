"""What a model call cost, said with its reply."""

from __future__ import annotations

from dataclasses import replace

from agents import prices
from agents.pure.context import Request
from agents.pure.prices import cost
from agents.pure.step import Model, Reply


class Priced:
    """A model whose replies say what they cost, where that is known."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def reply(self, request: Request) -> Reply:
        """Raises ModelFailed; the connection's errors before the model is asked only."""
        prices.look()
        reply = self._model.reply(request)
        meta = reply.meta
        paid = cost(
            prices.rates(meta.model_returned or meta.model_requested),
            tokens_in=meta.tokens_in,
            cached=meta.tokens_cached,
            tokens_out=meta.tokens_out,
        )
        return replace(reply, meta=replace(meta, cost=paid))
