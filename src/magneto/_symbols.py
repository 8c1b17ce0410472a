"""Values that depend on data, in one capture: sizes and numbers that are symbols of torch's own `ShapeEnv`."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import weakref
from collections.abc import Iterable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
import torch._dynamo  # in whole, see _locks.compile_lock
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import CallMethodItemSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    ShapeEnv,
    compute_unbacked_bindings,
    guard_scalar,
)
from torch.utils._sympy.printers import PythonPrinter

from magneto import _core, _locks, _propagate, _sizes, _subclasses
from magneto._propagate import quiet
from magneto._recipe import InputSource

_MEMOS = ("nonzero_memo", "item_memo", "unique_memo", "unique_consecutive_memo")


@functools.cache
def _consumers() -> tuple[frozenset[Any], frozenset[str]]:
    """Functions and methods that ask for the value of a tensor, but return nothing whose size depends on it."""
    from torch._dynamo.variables import torch as variables

    return variables.ops_consuming_unbacked_scalars, variables.methods_consuming_unbacked_scalars


class Session:
    """The symbols of one capture, and the FakeTensors that have them.

    A tensor that took part in an operation with symbols keeps its FakeTensor: what depends on its data, such as how
    many of its elements are not zero, is asked for once, until something writes to it.
    """

    def __init__(self, scalars: bool, shapes: bool) -> None:
        self.shape_env = ShapeEnv(
            allow_scalar_outputs=scalars,
            allow_dynamic_output_shape_ops=shapes,
            prefer_deferred_runtime_asserts_over_guards=False,
        )
        self.mode = FakeTensorMode(shape_env=self.shape_env, allow_non_fake_inputs=False)
        self.live: list[tuple[weakref.ref[torch.Tensor], bool]] = []
        self.ranges: dict[Any, Any] = {}
        self.values: dict[Any, int] = {}
        self.sizes: _sizes.Shared | None = None
        """The sizes that vary from call to call, as symbols of the same `ShapeEnv`; None if none was met."""

    def shared_sizes(self) -> _sizes.Shared:
        """The sizes that vary, from now on."""
        if self.sizes is None:
            self.sizes = _sizes.Shared(self.shape_env, self.mode)
        return self.sizes

    # ---- wrappers ----

    def wrap(self, tensor: torch.Tensor) -> _core.Outcome:
        """The metadata of a tensor that wraps others, with an instance around FakeTensors; or a refusal."""
        with _locks.compile_lock():
            try:
                why = _subclasses.why_not(tensor)
                if why is not None:
                    return _core.refusal(_core.OUTCOME_UNSUPPORTED, why)
                fake = _core.uninterrupted(_subclasses.make_fake, tensor, self.mode)
                self.live.extend((weakref.ref(leaf), True) for leaf in _subclasses.leaves(fake))
                return _core.outcome(_propagate.meta_of(fake))
            except Exception as error:  # code of the class, which is not meant to be called now
                return _core.refusal(
                    _core.OUTCOME_UNSUPPORTED, f"{type(tensor).__name__}: {_first_line(error)}"
                )

    # ---- operations ----

    def run(
        self,
        kind: int,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        inputs: list[tuple[int, Any, Any, bool, torch.Tensor | None]],
        numbers: list[tuple[int, Any]],
        varies: bool = False,
    ) -> _core.Outcome | None:
        """Run an operation on FakeTensors and symbols.

        Args:
            kind: `_core.NODE_METHOD` if `target` is the name of a method, else `_core.NODE_FUNCTION`.
            target: what to call.
            args: the arguments, with references to nodes in place of tensors and numbers.
            kwargs: the same by keyword.
            inputs: for each tensor its node, metadata, FakeTensor (or None), whether others may share its memory, and
                the tensor itself if it is an input with the data that it had at the start (or None).
            numbers: pairs of a node and its number.
            varies: whether there are sizes that vary from call to call among the arguments.

        Returns:
            What it returns and does, with the FakeTensors of its inputs and results, or a refusal; `None` if it has to
            be run again, with the values of the sizes that vary.
        """
        if varies:
            self.shared_sizes()
        try:
            outcome = self._try(kind, target, args, kwargs or {}, inputs, numbers)
        except _sizes.Unreadable:
            self.shared_sizes().specialize()
            outcome = self._try(kind, target, args, kwargs or {}, inputs, numbers)
        return None if varies and outcome.kind != _core.OUTCOME_KNOWN else outcome

    def _try(
        self, kind: int, target: Any, args: Any, kwargs: Any, inputs: Any, numbers: Any
    ) -> _core.Outcome:
        with _locks.compile_lock():
            was_quiet = quiet.on
            try:
                quiet.on = True
                return _core.uninterrupted(self._run, kind, target, args, kwargs, inputs, numbers)
            except (
                GuardOnDataDependentSymNode,
                PendingUnbackedSymbolNotFound,
                *_propagate.DATA_DEPENDENT,
            ) as error:
                return _core.refusal(_core.OUTCOME_DATA_DEPENDENT, _first_line(error))
            except _sizes.Unreadable:
                raise
            except _propagate.Unsupported as error:
                return _core.refusal(_core.OUTCOME_UNSUPPORTED, str(error))
            except Exception as error:
                # it may be the symbols that can't do it, and not the program that is wrong
                wraps = any(meta.flags & _core.META_WRAPPER for _, meta, *_ in inputs)
                symbols = (isinstance(error, NotImplementedError) and not wraps) or (
                    numbers and (not inputs or "Sym" in str(error))
                )
                reason = _core.OUTCOME_DATA_DEPENDENT if symbols else _core.OUTCOME_RAISES
                return _core.refusal(reason, f"{type(error).__name__}: {_first_line(error)}")
            finally:
                quiet.on = was_quiet

    def _run(
        self, kind: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], inputs: Any, numbers: Any
    ) -> _core.Outcome:
        fakes: dict[int, Any] = {}
        for node, meta, fake, shared, real in inputs:
            if fake is None:
                fake = (
                    _propagate.make_fake(meta, self.mode)
                    if self.sizes is None
                    else self.sizes.make_fake(meta)
                )
                if real is not None:
                    self._note_value(node, real, fake)
                self.live.append((weakref.ref(fake), shared))
            fakes[node] = fake
        with torch._C.DisableTorchFunctionSubclass():  # code of wrappers has no part in what is asked here
            before = [_propagate.version(fake) for fake in fakes.values()]
        values = {**fakes, **dict(numbers)}
        ignored: Any = contextlib.nullcontext()
        functions, methods = _consumers()
        if target is operator.setitem or target in (methods if kind == _core.NODE_METHOD else functions):
            ignored = self.shape_env.ignore_fresh_unbacked_symbols()
        if getattr(target, "__name__", target) in ("squeeze", "squeeze_"):
            _check_squeezed(values, *args, **kwargs)
        with ignored, enable_python_dispatcher():  # as TorchDynamo does: decompositions that know symbols
            number = None if self.sizes is None else self.sizes.number
            result = _propagate.call(kind, target, args, kwargs, values, self.mode, number)
        if self.sizes is not None:
            self.sizes.settle()
        with torch._C.DisableTorchFunctionSubclass():
            return self._describe(result, list(fakes.values()), inputs, before)

    def _describe(self, result: Any, given: list[Any], inputs: Any, before: list[int]) -> _core.Outcome:
        """What an operation returned, and did to the tensors that it was given."""
        bindings = compute_unbacked_bindings(self.shape_env, result)
        for symbol in bindings or ():
            self.ranges[symbol] = self.shape_env.var_to_range.get(symbol)
        results = _propagate.Results(given, symbolic=True, sizes=self.sizes)
        wrapped = results.wrap(result)
        meta_of = _propagate.meta_of if self.sizes is None else self.sizes.meta_of
        if _has(wrapped, _core.Dim) and _has(wrapped, _NUMBERS):  # one kind of number in a result
            results = _propagate.Results(given, symbolic=True)
            wrapped = results.wrap(result)
        changes = []
        for index, (fake, (_, meta, *_)) in enumerate(zip(given, inputs, strict=True)):
            now = meta_of(fake)
            if now is not meta and not _alike(now, meta):
                changes.append((index, now))
        written = _propagate.changed_in_place(given, before)
        if written:
            self.forget([given[i] for i in written])
        storages = set().union(*map(_subclasses.storages, given))
        kept: list[Any] = []
        for tensor in results.fresh:
            is_plain = self.sizes is not None and self.sizes.is_plain_tensor(tensor)
            keep = (_propagate.is_symbolic(tensor) and not is_plain) or not storages.isdisjoint(
                _subclasses.storages(tensor)
            )
            kept.append(tensor if keep else None)
            if keep:
                self.live.extend((weakref.ref(leaf), False) for leaf in _subclasses.leaves(tensor))
        return _core.outcome(
            wrapped,
            tuple(changes),
            results.views(),
            written,
            input_fakes=given,
            result_fakes=kept,
            bindings=bindings,
        )

    # ---- what is known of a tensor's data ----

    def _note_value(self, node: int, real: torch.Tensor, fake: Any) -> None:
        """The number in an input becomes a symbol with a value: what is decided by it is guarded, as in TorchDynamo."""
        if real.dim() != 0 or real.device.type != "cpu" or real.dtype not in (torch.int64, torch.float64):
            return
        value = real.item()
        if not math.isfinite(value):
            return
        source = CallMethodItemSource(InputSource(f"input_{node}", node))
        env = self.shape_env
        symbol = env.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        make = env.create_symintnode if type(value) is int else env.create_symfloatnode
        fake.item_memo = make(symbol, hint=value, source=source)
        self.values[symbol] = node

    def forget(self, written: Iterable[torch.Tensor] = (), shared: bool = False) -> None:
        """Tensors were written to: nothing is known any more of the data of whatever shares their memory.

        `shared`: so was a tensor that others from outside may share memory with.
        """
        live = [(tensor, outside) for ref, outside in self.live if (tensor := ref()) is not None]
        outside_storages = set().union(*(_subclasses.storages(tensor) for tensor, outside in live if outside))
        storages = set().union(*map(_subclasses.storages, written))
        if shared or storages & outside_storages:
            storages |= outside_storages
        for tensor, _ in live:
            if not storages.isdisjoint(_subclasses.storages(tensor)):
                for name in _MEMOS:
                    setattr(tensor, name, None)

    # ---- numbers ----

    def evaluate(self, number: Any) -> _core.Outcome:
        """The value of a number if it is known without its data; else a refusal."""
        with _locks.compile_lock():
            try:
                value = _core.uninterrupted(guard_scalar, number)
                if self.sizes is not None:
                    self._settle()
                return _core.outcome(value)
            except GuardOnDataDependentSymNode as error:
                return _core.refusal(_core.OUTCOME_DATA_DEPENDENT, _first_line(error))

    def _settle(self) -> None:
        """Have the core decide what was decided on sizes that vary."""
        assert self.sizes is not None
        try:
            self.sizes.settle()
        except _sizes.Unreadable:
            self.sizes.specialize()

    # ---- guards on the values of inputs ----

    def _guards(self) -> list[Any]:
        """What was decided, but for what the core checks of sizes."""
        guards = [guard.expr for guard in self.shape_env.guards if guard.expr is not sympy.true]
        return guards if self.sizes is None else [one for one in guards if not self.sizes.reader.is_ours(one)]

    def guarded(self) -> list[int]:
        """The nodes of inputs whose values decided something."""
        symbols = set().union(*(guard.free_symbols for guard in self._guards()))
        return sorted({self.values[symbol] for symbol in symbols if symbol in self.values})

    def guard(self, entry: _core.Entry, check: Any) -> Any:
        """A check of the graph's inputs: of what was decided by their values, and `check`."""
        guards = self._guards()
        if not guards:
            return check
        nodes = [item[0] for item in entry.describe()[0] if item[1] == "placeholder"]
        names, positions = [], []
        for symbol in sorted(set().union(*(guard.free_symbols for guard in guards)), key=str):
            names.append(str(symbol))
            if symbol in self.values:
                positions.append(nodes.index(self.values[symbol]))
            else:  # one that the backend has made
                source: Any = self.shape_env.var_to_sources[symbol][0]
                positions.append(source.base.index)
        text = " and ".join(f"({PythonPrinter().doprint(guard)})" for guard in guards)
        holds = eval(f"lambda {', '.join(names)}: {text}", {"math": math, "torch": torch})

        def check_values(inputs: tuple[Any, ...]) -> bool:
            return bool(holds(*[inputs[position].item() for position in positions])) and (
                check is None or check(inputs)
            )

        shown = ", ".join(
            f"{name} is the value of input {position}"
            for name, position in zip(names, positions, strict=True)
        )
        check_values.text = f"{text}, where {shown}"  # type: ignore[attr-defined]
        return check_values

    # ---- what is left to be checked when the graph runs ----

    def may_fail(self) -> bool:
        """Whether the capture took for granted what does not follow from the operations themselves."""
        env = self.shape_env
        return (
            any(env.deferred_runtime_asserts.values())
            or any(symbol in env.replacements for symbol in self.ranges)
            or any(env.var_to_range.get(symbol) != found for symbol, found in self.ranges.items())
        )

    def finish(self, entry: _core.Entry) -> Any:
        """What runs the graph with all checks; None if none of them can fail."""
        if not self.may_fail():
            return None
        from magneto import _graph

        return _graph.build(entry, self.mode, plain=True).module.forward


def _check_squeezed(values: dict[int, Any], input: Any, dim: Any = None, **_: Any) -> None:
    """How many dimensions a tensor has after squeeze() must not depend on data; torch takes symbols for more than 1."""
    shape = values[input.index].shape
    dims = range(len(shape)) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    for number in dims:
        if isinstance(number, int) and -len(shape) <= number < len(shape) and type(shape[number]) is not int:
            guard_scalar(shape[number] != 1)


_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _has(value: Any, kinds: Any) -> bool:
    """Whether there is an object of a class in the result of an operation."""
    if isinstance(value, (tuple, list)):
        return any(_has(item, kinds) for item in value)
    return isinstance(value, kinds)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]


def _same_sizes(left: Any, right: Any) -> bool:
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        if isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt):
            if a.node.expr != b.node.expr:
                return False
        elif type(a) is not type(b) or a != b:
            return False
    return True


def _alike(left: Any, right: Any) -> bool:
    """Whether two descriptions of one tensor with symbols say the same."""
    return (
        left.fake is not None
        and left.fake is right.fake
        and (left.dtype, left.device, left.flags) == (right.dtype, right.device, right.flags)
        and _same_sizes(left.sizes, right.sizes)
        and _same_sizes(left.strides, right.strides)
    )
