"""Asks the shape functions with sizes that differ from call to call, and compares what they say with the answers for
numbers.

An outcome that holds sizes as expressions, and the guards that it took, is a claim: for all sizes that satisfy the guards,
the call has that outcome. Here the claim is tried for the sizes of the call itself, and for others at random.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import torch

from magneto import _core, _propagate

from .shapes import METHOD, Target

Expression = Any  # an int, "s0", or (operator, expression, expression): see _core.sizes
SIZE = (2, None)
STRIDE = (0, None)
ANY = (None, None)


def evaluate(value: Any, numbers: dict[str, int]) -> Any:
    """What a structure is for some values of the symbols."""
    if type(value) is _core.Dim:
        return eval(repr(value), {}, numbers)
    if type(value) is _core.Meta:
        sizes, strides = evaluate(tuple(value.sizes), numbers), evaluate(value.strides, numbers)
        return _core.meta(value.dtype, value.device, sizes, strides, value.flags)
    if type(value) is _core.Outcome:
        fields = ("kind", "why", "result", "changes", "views", "written")
        return tuple(evaluate(getattr(value, field), numbers) for field in fields)
    if type(value) is slice:
        return slice(*(evaluate(part, numbers) for part in (value.start, value.stop, value.step)))
    if type(value) is dict:
        return {key: evaluate(item, numbers) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [evaluate(item, numbers) for item in value]
        return items if type(value) is list else tuple(items) if type(value) is tuple else type(value)(items)
    return value


class Symbols:
    """The symbols of a call, and which of its numbers they stand for."""

    def __init__(self, rng: random.Random, share: float) -> None:
        self.rng = rng
        self.share = share  # how often equal numbers are the same symbol
        self.symbols: list[tuple[int, int | None, int | None]] = []

    def of(self, value: int, bounds: tuple[int | None, int | None]) -> Expression:
        """A symbol that has a value, perhaps one that there is."""
        for number, (known, *others) in enumerate(self.symbols):
            if known == value and tuple(others) == bounds and self.rng.random() < self.share:
                return f"s{number}"
        self.symbols.append((value, *bounds))
        return f"s{len(self.symbols) - 1}"

    def object(self, expression: Expression) -> Any:
        return _core.size(self.symbols, expression)

    def sizes(self, sizes: tuple[int, ...], chance: float) -> list[Expression]:
        return [self.of(size, SIZE) if size >= 2 and self.rng.random() < chance else size for size in sizes]

    def strides(self, sizes: list[Expression], meta: Any) -> list[Expression]:
        """Strides as the products of sizes that they are, or some number of times that, or else as numbers; and now and then
        as symbols, so that what is so for the sizes of the call is so by chance."""
        found: dict[int, Expression] = {1: 1}
        strides: list[Expression] = list(meta.strides)
        for dim in sorted(range(len(sizes)), key=lambda dim: (meta.strides[dim], meta.sizes[dim])):
            stride = meta.strides[dim]
            for times in (1, 2, 3):
                if times * (stride // times) == stride and stride // times in found:
                    inner = found[stride // times]
                    strides[dim] = ("*", times, inner) if times > 1 else inner
                    break
            if self.rng.random() < 0.05:
                strides[dim] = self.of(stride, STRIDE)
            found[stride * meta.sizes[dim]] = ("*", strides[dim], sizes[dim])
        return strides

    def meta(self, meta: Any, chance: float) -> Any:
        sizes = self.sizes(tuple(meta.sizes), chance)
        strides = self.strides(sizes, meta)
        made = [tuple(self.object(one) for one in many) for many in (sizes, strides)]
        return _core.meta(meta.dtype, meta.device, *made, meta.flags)

    def constants(self, value: Any, chance: float) -> Any:
        """The arguments with symbols in place of some ints: sizes if they could be, else ints of any value."""
        if type(value) is int and abs(value) < 2**31 and self.rng.random() < chance:
            is_size = value >= 2 and self.rng.random() < 0.7
            return self.object(self.of(value, SIZE if is_size else ANY))
        if type(value) is slice:
            return slice(*(self.constants(part, chance) for part in (value.start, value.stop, value.step)))
        if type(value) is dict:
            return {key: self.constants(item, chance) for key, item in value.items()}
        if type(value) in (tuple, list):
            return type(value)(self.constants(item, chance) for item in value)
        return value

    def hints(self) -> dict[str, int]:
        return {f"s{number}": symbol[0] for number, symbol in enumerate(self.symbols)}

    def others(self, guards: list[str]) -> dict[str, int] | None:
        """Other values that satisfy the guards, or None."""
        numbers = self.hints()
        for name in numbers:
            if self.rng.random() < 0.5:
                low = self.symbols[int(name[1:])][1]
                numbers[name] = self.rng.choice([*range(-3 if low is None else low, 9), 12, 16, 24, 48])
        for guard in guards * 2:  # an equality says what a symbol must be
            left, relation, right = re.split(r" (==|!=|<=|<) ", guard)
            if relation == "==":
                for one, other in ((left, right), (right, left)):
                    if one in numbers:
                        numbers[one] = eval(other, {}, numbers)
        return numbers if self.fit(numbers, guards) else None

    def fit(self, numbers: dict[str, int], guards: list[str]) -> bool:
        bounds = all((low is None or low <= numbers[f"s{i}"]) for i, (_, low, _) in enumerate(self.symbols))
        try:
            return bounds and all(eval(guard, {}, numbers) for guard in guards)
        except ZeroDivisionError:
            return False


class Generalized:
    """What was asked with symbols, how many guards it took, and what was wrong."""

    def __init__(self) -> None:
        self.asked = 0
        self.answered = 0
        self.tried = 0
        self.guards: Counter[str] = Counter()
        self.wrong: list[str] = []

    def ask(
        self,
        target: Target,
        args: Any,
        kwargs: Any,
        inputs: list[Any],
        rng: random.Random,
        *,
        chance: float = 0.8,
        constants: float = 0.0,
        times: int = 20,
    ) -> None:
        """Ask for one call with some of its sizes, and of its other ints, as symbols."""
        state = (True, False, torch.get_default_dtype(), None, False, (), 0)
        symbols = Symbols(rng, rng.choice([0.0, 0.5, 1.0]))
        metas = [(number, symbols.meta(meta, chance)) for number, meta in inputs]
        given, named = symbols.constants(args, constants), symbols.constants(kwargs, constants)
        outcome, guards = _core.shape_outcome(*target, given, named, metas, state, symbols.symbols)
        self.asked += 1
        self.answered += outcome is not None
        self.guards[str(target[1])] += len(guards)
        if not symbols.symbols:
            return
        values: list[dict[str, int] | None] = [symbols.hints()]
        values += [symbols.others(guards) for _ in range(times if outcome is not None else 0)]
        for numbers in values:
            if numbers is None:
                continue
            self.tried += 1
            call = [evaluate(one, numbers) for one in (given, named, metas)]
            static = _core.shape_outcome(*target, *call, state)
            claimed, static = evaluate(outcome, numbers), evaluate(static, {})
            if not _propagate._same(claimed, static):
                label = f".{target[1]}" if target[0] == METHOD else getattr(target[1], "__name__", "")
                self.wrong.append(
                    f"{label} {given} {named} with {metas}, guards {guards}, for {numbers}: {claimed} is {static}"
                )
                return
