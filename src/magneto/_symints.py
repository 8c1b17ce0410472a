"""The sizes and ints of an entry that vary, as a backend gets them: symbols of a `ShapeEnv`.

The core has captured with symbols of its own. Here each of them becomes one of a `ShapeEnv`, with the source, the
name and the range that TorchDynamo would give it; what the core has decided is replayed, and what the backend decides
afterwards is read back into the guards of the entry.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
import torch._dynamo  # in whole, see _locks.compile_lock
from torch._dynamo.source import ConstantSource, FloatTensorSource, TensorProperty, TensorPropertySource
from torch._guards import Source
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
    DimDynamic,
    ShapeEnv,
    StatefulSymbolicContext,
    free_symbols,
)
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from magneto import _core
from magneto._graph import references
from magneto._sizes import Reader, Unreadable, evaluate

_SIZE, _STRIDE, _FORMULA = 0, 1, 3
_PROPERTIES = {_SIZE: TensorProperty.SIZE, _STRIDE: TensorProperty.STRIDE}


_COMPARISONS: dict[Any, tuple[Callable[[float, float], bool], Callable[[float, float], bool]]] = {
    sympy.Lt: (operator.lt, operator.gt), sympy.Le: (operator.le, operator.ge), sympy.Gt: (operator.gt, operator.lt),
    sympy.Ge: (operator.ge, operator.le), sympy.Ne: (operator.ne, operator.ne),
}  # fmt: skip
"""Relations of floats, as they are and the other way round."""


def _symbols_in(tree: Any) -> Iterator[int]:
    """The numbers of the symbols in a tree."""
    if type(tree) is str:
        yield int(tree[1:])
    elif type(tree) is tuple:
        yield from _symbols_in(tree[1])
        yield from _symbols_in(tree[2])


def _symbols_of(meta: _core.Meta) -> Iterator[int]:
    """The numbers of the symbols in the sizes, then in the strides, of a tensor."""
    for dim in (*meta.sizes, *meta.strides):
        if type(dim) is _core.Dim:
            yield from _symbols_in(dim.tree)


class Float:
    """A float that varies, as TorchDynamo gives it to backends: a tensor of no dimensions, and the number in it.

    Args:
        env: the `ShapeEnv`.
        value: what it is in the call that was captured.
        source: where it is found.
    """

    def __init__(self, env: ShapeEnv, value: float, source: Source) -> None:
        self.env = env
        self.source = source
        self.tensor = torch.tensor(value, dtype=torch.float64, device="cpu")
        self.symbol = env.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        self.number = env.create_symfloatnode(self.symbol, hint=value, source=source)

    def fake(self, mode: FakeTensorMode) -> FakeTensor:
        """A FakeTensor in place of the tensor, which knows the number."""
        elem = torch.empty((), dtype=torch.float64, device="meta")
        made = FakeTensor(mode, elem, torch.device("cpu"))
        made.item_memo = self.number
        return made

    def context(self) -> Any:
        """What has AOTAutograd find the symbol of the number."""
        return StatefulSymbolicContext(
            dynamic_sizes=[],
            tensor_source=FloatTensorSource(self.source),
            shape_env_to_source_to_symbol_cache={id(self.env): {self.source.name: self.symbol}},
        )


class Symbols:
    """The symbols of an entry in a `ShapeEnv`.

    Args:
        entry: what was captured.
        env: the `ShapeEnv`.
        source: the source of a tensor or an int, given its text and what it starts from.
        plain: whether floats are to be none of its symbols.
    """

    def __init__(self, entry: _core.Entry, env: ShapeEnv, source: Any, plain: bool = False) -> None:
        self.entry = entry
        self.env = env
        self.numbers: dict[Any, int] = {}
        self.symints: list[Any] = []
        self.sources: list[Source] = []
        self.kinds: list[int] = []
        self.values: dict[Any, Any] = {}
        self.fakes: dict[_core.Meta, Any] = {}
        """FakeTensors of results, by metadata."""
        self.floats: dict[int, Float] = {}
        """By node."""
        self.comparisons: list[tuple[int, Callable[[float, float], bool], float]] = []
        """What must hold of floats: node, relation, number."""
        self.failed = False
        """Whether torch can't compute a number of the graph with symbols."""
        session = entry.symbols
        self.shared = None if session is None else session.shared_sizes()
        """Symbols that the capture has made: values that depend on data are in terms of them."""
        self.reader = Reader(
            env, self.numbers.get, functools.partial(_core.decide, entry), shared=session is not None
        )
        for number, (text, root, kind, dim) in enumerate(entry.size_origins()):
            base = source(text, root) if kind != _FORMULA else ConstantSource(text)
            if kind == _FORMULA:  # a comparison of floats: decided, and no symbol of the graph
                self._keep(_core.size_symbol(entry, number)[0], kind, base)
                continue
            self._add(
                number,
                kind,
                TensorPropertySource(base, _PROPERTIES[kind], dim) if kind in _PROPERTIES else base,
            )
        for node, kind, _, _, _, value, _, text, _, root, _, _ in entry.describe()[0]:
            if kind == "placeholder" and type(value) is float and not plain:
                self.floats[node] = Float(env, value, source(text, root))
        for name, left, right in entry.size_guards():
            a, b = evaluate(left, self.symints.__getitem__), evaluate(right, self.symints.__getitem__)
            holds = a == b if name == "==" else a != b if name == "!=" else a < b if name == "<" else a <= b
            if not holds:
                raise Unreadable(f"{a} {name} {b}")
        self.reader.know()

    def _add(self, number: int, kind: int, source: Source) -> None:
        hint, low, high = _core.size_symbol(self.entry, number)
        env = self.env
        found = None if self.shared is None else self.shared.symbols.get(number)
        if found is not None:
            symbol = found.node._expr
        elif kind in _PROPERTIES:
            symbol = env.create_symbol(
                hint,
                source=source,
                dynamic_dim=DimDynamic.DYNAMIC,
                positive=True if kind == _SIZE else None,
                do_not_specialize_zero_one=True,
            )
        else:
            symbol = env.create_unspecified_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        if found is None:
            env.var_to_range[symbol] = ValueRanges(
                -int_oo if low is None else low, int_oo if high is None else high
            )
            found = env.create_symintnode(symbol, hint=hint, source=source)
            if self.shared is not None:
                self.shared.symbols[number] = found
                self.shared.numbers[symbol] = number
        self.numbers[symbol] = number
        self._keep(found, kind, source)

    def _keep(self, value: Any, kind: int, source: Source) -> None:
        self.symints.append(value)
        self.sources.append(source)
        self.kinds.append(kind)

    def value(self, dim: Any) -> Any:
        """A size as an int or a SymInt; anything else as it is."""
        if type(dim) is not _core.Dim:
            return dim
        found = self.values.get(dim)
        if found is None:
            found = self.values[dim] = evaluate(dim.tree, self.symints.__getitem__)
        return found

    def is_size(self, number: int) -> bool:
        """Whether a symbol is a size or stride of a tensor."""
        return self.kinds[number] in _PROPERTIES

    def name(self, number: int) -> str:
        """The name of a symbol."""
        return str(self.symints[number].node._expr)

    def shape(self, meta: _core.Meta) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The sizes and strides of a tensor."""
        return tuple(map(self.value, meta.sizes)), tuple(map(self.value, meta.strides))

    def context(self, tensor: torch.Tensor, fake: torch.Tensor, source: Source, base: Any) -> Any:
        """What has AOTAutograd find the symbols of an input. `base` is the same for what it is a view of."""
        offset = TensorPropertySource(source, TensorProperty.STORAGE_OFFSET).name
        known: dict[str, Any] = {offset: sympy.Integer(tensor.storage_offset())}
        for prop, values in ((TensorProperty.SIZE, fake.shape), (TensorProperty.STRIDE, fake.stride())):
            for dim, value in enumerate(values):
                expr = value.node._expr if isinstance(value, torch.SymInt) else sympy.Integer(value)
                known[TensorPropertySource(source, prop, dim).name] = expr
        return StatefulSymbolicContext(
            dynamic_sizes=[DimDynamic.DYNAMIC] * fake.dim(),
            dynamic_strides=[DimDynamic.DYNAMIC] * fake.dim(),
            view_base_context=base,
            tensor_source=source,
            shape_env_to_source_to_symbol_cache={id(self.env): known},
        )

    # ---- the graph's inputs ----

    def choose_inputs(self) -> None:
        """Have the graph take its inputs in TorchDynamo's order, and no symbols but those that it needs."""
        described, outputs, _ = self.entry.describe()
        placeholders = [item for item in described if item[1] == "placeholder"]
        used = set(outputs)
        for item in described:
            if item[1] != "placeholder":
                used.update(references((item[3], item[4])))
        order = self._order(placeholders, used)
        values = {item[0]: item[5] for item in placeholders}
        needed: set[Any] = set()
        for node in order:
            if type(values[node]) is _core.Meta:
                for one in (*self.shape(values[node])[0], *self.shape(values[node])[1]):
                    needed |= free_symbols(one) if isinstance(one, torch.SymInt) else set()
        for node in order:
            if type(values[node]) is _core.Dim and node in used:
                needed |= free_symbols(self.value(values[node]))
        kept = []
        bound: set[Any] = set()
        for node in order:
            if type(values[node]) is _core.Dim and node not in used:
                value = self.value(values[node])
                expr = value.node.expr if isinstance(value, torch.SymInt) else None
                if expr not in needed or expr in bound:
                    continue
                bound.add(expr)
            kept.append(node)
        self.entry.set_inputs(self._place_floats(kept, described) if self.floats else kept)

    def _place_floats(self, inputs: list[int], described: list[Any]) -> list[int]:
        """The inputs with each float behind those that are used before it."""
        uses: dict[int, int] = {}
        for item in described:
            if item[1] != "placeholder":
                for node in references((item[3], item[4])):
                    uses.setdefault(node, len(uses))
        placed = [node for node in inputs if node not in self.floats]
        for one in sorted(
            (node for node in inputs if node in self.floats), key=lambda node: uses.get(node, -1)
        ):
            before = [index for index, node in enumerate(placed) if uses.get(node, -1) < uses.get(one, -1)]
            placed.insert(before[-1] + 1 if before else 0, one)
        return placed

    def _order(self, placeholders: list[Any], used: set[int]) -> list[int]:
        """All inputs: each symbol directly before the first tensor that has it, ints in the order in which they were
        read."""
        nodes = {int(item[5].tree[1:]): item[0] for item in placeholders if type(item[5]) is _core.Dim}
        ints = sorted(number for number in nodes if self.kinds[number] not in _PROPERTIES)
        order: dict[int, None] = {}

        def place(number: int) -> None:
            for other in ints:
                if other < number and nodes[other] in used:
                    order[nodes[other]] = None
            order[nodes[number]] = None

        for node, _, _, _, _, value, *_ in placeholders:
            if type(value) is _core.Dim:
                if node in used:
                    place(int(value.tree[1:]))
                continue
            for number in _symbols_of(value) if type(value) is _core.Meta else ():
                if nodes[number] not in order:
                    place(number)
            order[node] = None
        for item in placeholders:
            order[item[0]] = None
        return list(order)

    def take_hints(self, tensor: torch.Tensor, fake: torch.Tensor) -> None:
        """Have backends take other sizes as examples where the program has said so (`hint_override`)."""
        for dim, hint in getattr(tensor, "_dynamo_hint_overrides", {}).items():
            size = fake.shape[dim] if dim < fake.dim() else None
            if isinstance(size, torch.SymInt) and size.node._expr.is_Symbol:
                self.env.var_to_hint_override[size.node._expr] = hint

    # ---- after the backend ----

    def violation(self, tensor: torch.Tensor, fake: torch.Tensor, source: Source) -> Exception | None:
        """The error for a size that is marked as dynamic, and that the backend has taken for a constant."""
        marked = getattr(tensor, "_dynamo_dynamic_indices", set()) | getattr(
            tensor, "_dynamo_strict_unbacked_indices", set()
        )
        ranges = {one.dim: one for one in getattr(tensor, "_dynamo_dynamic_range", ())}
        for dim in sorted(marked):
            size = fake.shape[dim] if dim < fake.dim() else None
            if not isinstance(size, torch.SymInt):
                continue
            found = self.env.simplify(size.node._expr)
            name = f"{source.name}.size()[{dim}]"
            text = None
            if found.is_Number:
                text = (
                    f"You marked {name} as dynamic but your code specialized it to be a constant ({found}). If you're "
                    "using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, "
                    "replace it with either Dim.STATIC or Dim.AUTO."
                )
            elif dim in ranges and (ranges[dim].min is not None or ranges[dim].max is not None):
                text = self._narrowed(name, found, ranges[dim].min, ranges[dim].max)
            if text is not None:
                return ConstraintViolationError(
                    f'Constraints violated ({name})! For more information, run with TORCH_LOGS="+dynamic".\n'
                    f"  - {text}\n"
                )
        return None

    def _narrowed(self, name: str, size: Any, low: int | None, high: int | None) -> str | None:
        """What is said of a size whose bounds the backend has narrowed; None if it has not."""
        found = self.env.bound_sympy(size)
        low, most = max(low or 0, 2), int_oo if high is None else high
        if found.lower <= low and found.upper >= most:
            return None
        bounds = f"{low} <= {name} <= {most}" if low > 2 else f"{name} <= {most}"
        return (
            f"Not all values of {name} = {name} in the specified range {bounds} satisfy the generated guard "
            f"{found.lower} <= {name} and {name} <= {found.upper}"
        )

    def taken(self) -> list[int]:
        """The floats that the backend has decided something on, as nodes: they must be constants. What merely compares
        one with a number is no such decision, but is in `comparisons`."""
        env = self.env
        asked = set(env.replacements)
        nodes = {one.symbol: node for node, one in self.floats.items()}
        for guard in env.guards[self.reader.seen :]:
            if not self._compare(guard.expr, nodes):
                asked |= guard.expr.free_symbols
        return [node for node, one in self.floats.items() if one.symbol in asked]

    def _compare(self, guard: Any, nodes: dict[Any, int]) -> bool:
        """Note a guard that compares a float with a number; whether it is one."""
        relation = _COMPARISONS.get(type(guard))
        if relation is None:
            return False
        left, right = guard.args
        if left in nodes and right.is_Number:
            self.comparisons.append((nodes[left], relation[0], float(right)))
        elif right in nodes and left.is_Number:
            self.comparisons.append((nodes[right], relation[1], float(left)))
        else:
            return False
        self.reader.others.add(guard)
        return True

    def settle(self) -> bool:
        """Have the entry check what the backend has decided. False if that can't be said: the sizes must not vary."""
        try:
            self.reader.settle()
            if self.symints:
                self.entry.renew_sizes()
        except (Unreadable, OverflowError):
            return False
        self.env.freeze()
        return True
