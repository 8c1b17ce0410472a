"""Operations on sizes that vary, and have no shape function: torch is asked, and its answer read back.

A capture has symbols of its own, which the core computes with (docs/internals/sizes.md). Where the core does not know
what an operation returns, it is run on FakeTensors whose sizes are symbols of a `ShapeEnv`, one for each of the core's.
What torch decided on them meanwhile, its guards, is decided by the core as well, so that its guards imply torch's. What
can't be said in the core's terms is not read: the caller takes the values of the sizes for good.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
import torch._dynamo  # in whole, see _locks.compile_lock
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from magneto import _core, _locks, _propagate, _subclasses


class Unreadable(_propagate.Unsupported):
    """Something that the core has no expression for."""


# ---- from the core's trees to SymInts ----

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "min": torch.sym_min, "max": torch.sym_max,
}  # fmt: skip


def evaluate(tree: Any, symbol: Callable[[int], Any]) -> Any:
    """The value of a tree, given those of its symbols."""
    if type(tree) is int:
        return tree
    if type(tree) is str:
        return symbol(int(tree[1:]))
    name, left, right = tree
    return _OPERATORS[name](evaluate(left, symbol), evaluate(right, symbol))


# ---- from sympy to the core's trees ----

_BINARY: dict[str, str] = {
    "FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%", "PowByNatural": "**",
    "BitwiseFn_bitwise_and": "&", "BitwiseFn_bitwise_or": "|", "BitwiseFn_bitwise_xor": "^",
}  # fmt: skip

_MANY: dict[str, str] = {"Add": "+", "Mul": "*", "Min": "min", "Max": "max"}

_RELATIONS: dict[type, tuple[str, bool]] = {
    sympy.Eq: ("==", False), sympy.Ne: ("!=", False), sympy.Lt: ("<", False), sympy.Le: ("<=", False),
    sympy.Gt: ("<", True), sympy.Ge: ("<=", True),
}  # fmt: skip


class Reader:
    """Reads expressions and guards of a `ShapeEnv`.

    Args:
        env: the `ShapeEnv`.
        number: the number of one of the core's symbols, given that of the `ShapeEnv`; `None` if it is not the core's.
        decide: decides a relation between two trees, as `_core.decide` does.
        shared: whether the `ShapeEnv` has symbols that are not the core's, for values that depend on data. What was
            decided on those alone is not the core's business.
    """

    def __init__(
        self,
        env: ShapeEnv,
        number: Callable[[sympy.Symbol], int | None],
        decide: Callable[[str, Any, Any], bool | None],
        shared: bool = False,
    ) -> None:
        self.env = env
        self.number = number
        self.decide = decide
        self.shared = shared
        self.trees: dict[Any, Any] = {}
        self.seen = 0
        self.replaced: dict[Any, Any] = {}
        self.ranges: dict[Any, Any] = {}
        self.others: set[Any] = set()
        """Guards that somebody else sees to."""

    def tree(self, expr: Any) -> Any:
        """An expression as a tree."""
        found = self.trees.get(expr)
        if found is None:
            found = self.trees[expr] = self._tree(expr)
        return found

    def _tree(self, expr: Any) -> Any:
        if expr.is_Symbol:
            number = self.number(expr)
            if number is None:
                raise Unreadable(f"the symbol {expr}")
            return f"s{number}"
        if expr.is_Integer:
            return int(expr)
        name = type(expr).__name__
        args = expr.args
        if name in _MANY:
            found = self.tree(args[0])
            for arg in args[1:]:
                found = (_MANY[name], found, self.tree(arg))
            return found
        if name in _BINARY:
            return (_BINARY[name], self.tree(args[0]), self.tree(args[1]))
        if name == "Pow" and args[1].is_Integer and args[1] >= 0:
            return ("**", self.tree(args[0]), int(args[1]))
        if name == "ModularIndexing":
            return ("%", ("//", self.tree(args[0]), self.tree(args[1])), self.tree(args[2]))
        if name == "Identity":
            return self.tree(args[0])
        raise Unreadable(f"an expression with {name}")

    def assume(self, guard: Any) -> None:
        """Have the core decide a relation that torch has found to hold."""
        if guard is sympy.true:
            return
        if isinstance(guard, sympy.And):
            for part in guard.args:
                self.assume(part)
        elif isinstance(guard, sympy.Or):  # one that holds is enough
            self.assume(next(part for part in guard.args if self._holds(part)))
        elif isinstance(guard, sympy.Not) and isinstance(guard.args[0], sympy.core.relational.Relational):
            self.assume(guard.args[0].negated)
        else:
            relation = _RELATIONS.get(type(guard))
            if relation is None:
                raise Unreadable(f"a guard with {type(guard).__name__}")
            name, turned = relation
            left, right = guard.args[::-1] if turned else guard.args
            if self.decide(name, self.tree(left), self.tree(right)) is not True:
                raise Unreadable(f"the guard {guard}")

    def _holds(self, guard: Any) -> bool:
        hints = {symbol: self.env.backed_var_to_val.get(symbol) for symbol in guard.free_symbols}
        return bool(guard.xreplace(hints) == sympy.true) if None not in hints.values() else False

    def know(self) -> None:
        """Take all that the `ShapeEnv` knows now as known to the core already."""
        self.seen = len(self.env.guards)
        self.replaced = dict(self.env.replacements)
        self.ranges = dict(self.env.var_to_range)

    def is_ours(self, expr: Any) -> bool:
        """Whether one of the core's symbols is in an expression."""
        return any(self.number(symbol) is not None for symbol in expr.free_symbols)

    def settle(self) -> None:
        """Have the core decide all that the `ShapeEnv` has decided since the last time."""
        env = self.env
        if not self.shared and any(env.deferred_runtime_asserts.values()):
            raise Unreadable("an assertion at run time")
        while self.seen < len(env.guards):
            guard = env.guards[self.seen].expr
            if guard not in self.others and (not self.shared or self.is_ours(guard)):
                self.assume(guard)
            self.seen += 1
        for symbol, same in env.replacements.items():
            if self.replaced.get(symbol) != same:
                if not self.shared or self.number(symbol) is not None:
                    self.assume(sympy.Eq(symbol, same, evaluate=False))
                self.replaced[symbol] = same
        for symbol, found in env.var_to_range.items():
            known = self.ranges.get(symbol)
            if known == found or self.number(symbol) is None:
                continue
            if found.lower != -int_oo and (known is None or known.lower != found.lower):
                self.assume(sympy.Le(found.lower, symbol, evaluate=False))
            if found.upper != int_oo and (known is None or known.upper != found.upper):
                self.assume(sympy.Le(symbol, found.upper, evaluate=False))
            self.ranges[symbol] = found


_RESIZES = ("resize_", "resize_as_", torch.Tensor.resize_, torch.Tensor.resize_as_)
"""Operations that AOTAutograd takes with plain ints only."""


def _is_named(value: Any, module: str, name: str) -> bool:
    """Whether an object is that function of magneto's."""
    return getattr(value, "__name__", None) == name and value.__module__ == f"magneto.{module}"


def _has_jvp(value: Any) -> bool:
    """Whether there is a jvp in the arguments of an operator.

    Under vmap torch's FakeTensors fail on it, if sizes are symbols, and leave the thread's dispatch keys behind.
    """
    if isinstance(value, _core.Subgraph):
        value = value.nodes
    if isinstance(value, (tuple, list)):
        return any(map(_has_jvp, value))
    return _is_named(value, "_transforms", "run_jvp")


class Session:
    """The symbols of one capture as torch knows them."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        """A `ShapeEnv` that has decided nothing yet."""
        env = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False, duck_shape=False)
        self._use(env, FakeTensorMode(shape_env=env, allow_non_fake_inputs=False))

    def _use(self, env: ShapeEnv, mode: FakeTensorMode, shared: bool = False) -> None:
        self.env = env
        self.mode = mode
        self.symbols: dict[int, Any] = {}
        self.numbers: dict[Any, int] = {}
        self.reader = Reader(self.env, self.numbers.get, functools.partial(_core.decide, None), shared)
        self.unreadable = False
        self.floats = 0

    def run(
        self,
        kind: int,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        inputs: list[tuple[int, Any]],
    ) -> _core.Outcome | None:
        """Run an operation on FakeTensors whose sizes are symbols; the arguments are those of `_propagate.propagate`.

        Returns:
            What it returns and does, or a refusal; `None` if that is not known for sizes that vary.
        """
        with _locks.compile_lock():
            return _core.uninterrupted(self._run, kind, target, args, kwargs, inputs)

    def _run(
        self, kind: int, target: Any, args: Any, kwargs: Any, inputs: list[tuple[int, Any]]
    ) -> _core.Outcome | None:
        self.unreadable = False
        if target in _RESIZES or (_is_named(target, "_higher", "run_vmap") and _has_jvp(args)):
            return None
        try:
            outcome = _propagate.propagate(kind, target, args, kwargs, inputs, None, self)
        except BaseException:
            self._start()
            raise
        if outcome.kind == _core.OUTCOME_KNOWN and _is_held(outcome.result):
            return outcome
        unreadable = self.unreadable or outcome.kind == _core.OUTCOME_KNOWN
        self._start()  # it may have decided what the core has not
        if unreadable:
            return None
        fixed = [(node, _fixed_meta(meta)) for node, meta in inputs]
        outcome = _propagate.propagate(kind, target, _fixed(args), _fixed(kwargs), fixed, None)
        return None if outcome.kind == _core.OUTCOME_KNOWN else outcome

    # ---- what `_propagate` asks for ----

    def _symbol(self, number: int) -> Any:
        """The SymInt of one of the core's symbols."""
        found = self.symbols.get(number)
        if found is None:
            hint, low, high = _core.size_symbol(None, number)
            source = ConstantSource(f"__size_{number}")
            symbol = self.env.create_symbol(
                hint,
                source=source,
                dynamic_dim=DimDynamic.DYNAMIC,
                positive=True if low is not None and low > 0 else None,
                do_not_specialize_zero_one=True,
            )
            found = self.env.create_symintnode(symbol, hint=hint, source=source)
            lower, upper = -int_oo if low is None else low, int_oo if high is None else high
            self.env.var_to_range[symbol] = self.reader.ranges[symbol] = ValueRanges(lower, upper)
            self.symbols[number] = found
            self.numbers[symbol] = number
        return found

    def number(self, value: Any) -> Any:
        """A size or a float among the arguments as torch gets it; anything else as it is."""
        if type(value) is _core.Dim:
            return evaluate(value.tree, self._symbol)
        found = _core.float_value(value)
        if found is None:
            return value
        self.floats += 1
        source = ConstantSource(f"__float_{self.floats}")
        symbol = self.env.create_unspecified_symbol(found, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        return self.env.create_symfloatnode(symbol, hint=found, source=source)

    def make_fake(self, meta: Any) -> torch.Tensor:
        """A FakeTensor with this metadata."""
        sizes, strides = tuple(map(self.number, meta.sizes)), tuple(map(self.number, meta.strides))
        return _propagate.make_fake(meta, self.mode, sizes, strides)

    def settle(self) -> None:
        """Have the core decide all that torch has decided."""
        try:
            self.reader.settle()
        except Unreadable:
            self.unreadable = True
            raise

    def size(self, value: Any) -> Any:
        """A number of torch's as the core has it: an int, or a `Dim`."""
        if type(value) is int:
            return value
        try:
            found = _core.size_of(None, self.reader.tree(value.node.expr))
            if found is None or value.node.hint != (found.value if isinstance(found, _core.Dim) else found):
                raise Unreadable(f"the size {value}")
        except Unreadable:
            self.unreadable = True
            raise
        return found

    def constant(self, value: Any) -> int:
        """A size that does not vary."""
        found = self.size(value)
        if type(found) is not int:
            self.unreadable = True
            raise Unreadable("a torch.Size")
        return found

    def meta_of(self, tensor: torch.Tensor) -> Any:
        """The core's metadata for a tensor."""
        sizes, strides = tuple(map(self.size, tensor.shape)), tuple(map(self.size, tensor.stride()))
        flags = _propagate.flags_of(tensor)
        return _core.meta(tensor.dtype, tensor.device, sizes, strides, flags)

    def plain(self, value: Any) -> Any:
        """A number in the result of an operation as the core has it."""
        if isinstance(value, torch.SymInt):
            return self.size(value)
        if isinstance(value, torch.SymBool):
            result = bool(value)
            self.settle()
            return result
        self.unreadable = True
        raise Unreadable("a float")


class Shared(Session):
    """The same in the `ShapeEnv` of values that depend on data: operations are run by `_symbols.Session`."""

    def __init__(self, env: ShapeEnv, mode: FakeTensorMode) -> None:
        self._use(env, mode, shared=True)
        self.reader.know()

    def number(self, value: Any) -> Any:
        """A size among the arguments as torch gets it; anything else as it is."""
        if type(value) is not _core.Dim and _core.float_value(value) is not None:
            raise _propagate.Unsupported("a float that varies")  # what is decided on it has no guard
        return super().number(value)

    def is_plain(self, value: Any) -> bool:
        """Whether the core has an expression for a number: none that depends on data."""
        if not isinstance(value, torch.SymInt):
            return type(value) is int
        return all(symbol in self.numbers for symbol in value.node.expr.free_symbols)

    def is_plain_tensor(self, tensor: torch.Tensor) -> bool:
        """The same for the sizes and strides of a tensor."""
        return type(tensor.storage_offset()) is int and all(
            map(self.is_plain, (*tensor.shape, *tensor.stride()))
        )

    def meta_of(self, tensor: torch.Tensor) -> Any:
        """The core's metadata for a tensor, with the tensor itself if data has a part in its sizes."""
        is_ours = self.is_plain_tensor(tensor) and not _subclasses.is_wrapper(tensor)
        return super().meta_of(tensor) if is_ours else _propagate.meta_of(tensor)

    def plain(self, value: Any) -> Any:
        """A number in the result of an operation: as the core has it, or a symbol."""
        return self.size(value) if isinstance(value, torch.SymInt) and self.is_plain(value) else value

    def constant(self, value: Any) -> Any:
        """An item of a torch.Size."""
        return value

    def specialize(self) -> None:
        """Take the values of all sizes that vary for good: torch has decided on them what the core can't say."""
        for number, symbol in self.symbols.items():
            _core.decide(None, "==", f"s{number}", int(symbol))
        self.reader.know()


def _is_held(result: Any) -> bool:
    """Whether the core can give captured code a result: one that has sizes in it has nothing else."""
    items = result if type(result) is tuple else (result,)
    if all(type(item) in (int, _core.Dim) for item in items):
        return True
    return not any(type(item) is _core.Dim for item in _flat(result))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _fixed(value: Any) -> Any:
    """An argument with the values of this call in place of sizes that vary."""
    kind = type(value)
    if kind is _core.Dim:
        return value.value
    if kind is list:
        return [_fixed(item) for item in value]
    if isinstance(value, tuple) and kind is not torch.Size:
        items = [_fixed(item) for item in value]
        return kind._make(items) if hasattr(value, "_make") else tuple(items)
    if kind is dict:
        return {key: _fixed(item) for key, item in value.items()}
    if kind is slice:
        return slice(_fixed(value.start), _fixed(value.stop), _fixed(value.step))
    found = _core.float_value(value)
    return value if found is None else found


def _fixed_meta(meta: Any) -> Any:
    sizes, strides = tuple(map(_fixed, meta.sizes)), tuple(map(_fixed, meta.strides))
    return _core.meta(meta.dtype, meta.device, sizes, strides, meta.flags)
