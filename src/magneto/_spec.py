"""`shapes_spec`: which sizes and ints of the arguments vary, and what relations hold between them.

Where there is a specification, it says it all: what it names with an `IntVar` is a symbol from the first capture on,
what it does not name is a constant. Bounds, equal variables, expressions and assumptions become guards of each entry; a
call that they do not hold for is an error, as it is for `torch.compile`.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from types import CodeType
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental import dynamic_spec as specs
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from magneto import _core
from magneto._sizes import Reader, Unreadable

_ROOT = re.compile(r"L\['([^']*)'\]")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\['([^']*)'\]")


def made(given: Any) -> Any:
    """What `shapes_spec` was given as a specification."""
    return given if isinstance(given, specs.ShapesSpec) else specs.ShapesSpec(given)


def _collectors(code: CodeType) -> tuple[str | None, str | None]:
    """The names of `*args` and `**kwargs` of a function."""
    names = list(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    args = names.pop(0) if code.co_flags & inspect.CO_VARARGS else None
    return args, names[0] if code.co_flags & inspect.CO_VARKEYWORDS else None


def _leaf(spec: Any, code: CodeType, text: str) -> Any:
    """What a specification says of what lies at a source of a function; None if it says nothing."""
    root = _ROOT.match(text)
    params = spec._params
    if root is None or params is None:
        return None
    steps = [match.groups() for match in _STEP.finditer(text, root.end())]
    if "".join(match[0] for match in _STEP.finditer(text, root.end())) != text[root.end() :]:
        return None
    name = root[1]
    args, kwargs = _collectors(code)
    current = params._named_args.get(name)
    if name == args:
        current = specs.SeqSpec(params._varargs or [])
    elif name == kwargs:
        current = specs.DictSpec(params._varkw or {})
    for attribute, index, key in steps:
        if attribute in ("_parameters", "_buffers", "_modules"):  # the key behind it is the attribute's name
            continue
        if isinstance(current, specs.ObjectSpec):
            current = current._fields.get(attribute or key)
        elif isinstance(current, specs.DictSpec) and attribute is None:
            current = current._entries.get(key if index is None else int(index))
        elif isinstance(current, specs.SeqSpec) and index is not None:
            current = current._entries[int(index)] if int(index) < len(current) else None
        elif current is not None:
            raise RuntimeError(
                f"shapes_spec walk: while processing source {text!r}, the spec is {type(current).__name__}"
            )
    return current


class Binding:
    """A specification and one capture: what was met, and which symbols it has become."""

    def __init__(self, spec: Any, code: CodeType) -> None:
        self.spec = spec
        self.code = code
        self.met: dict[tuple[str, int], tuple[Any, int]] = {}
        """By source and dimension (-1 for an int): what is said of it, and its value."""

    def ask(self, name: str, text: str, dim: int, sizes: tuple[Any, ...]) -> tuple[int, int]:
        """Which dimensions of what lies at a source vary, and which do not: bits. Raises if a size is not what was
        said."""
        leaf = _leaf(self.spec, self.code, name)
        if dim == -1:
            if isinstance(leaf, torch.SymInt):
                self.met[text, -1] = leaf, sizes[0]
                return 1, 0
            if isinstance(leaf, int) and leaf != sizes[0]:
                raise ValueError(
                    f"shapes_spec declares {name} as static with value {leaf}, but got {sizes[0]}"
                )
            return 0, 1
        if leaf is None:
            return 0, (1 << dim) - 1
        if not isinstance(leaf, specs.TensorSpec):
            raise RuntimeError(
                f"shapes_spec for {name}: it is a tensor, but the spec is {type(leaf).__name__}"
            )
        if len(leaf) != dim:
            raise ValueError(f"TensorSpec has {len(leaf)} dims but tensor {name} has {dim} dims")
        dynamic = fixed = 0
        for index, (one, size) in enumerate(zip(leaf, sizes, strict=True)):
            if isinstance(one, torch.SymInt):
                self.met[text, index] = one, size
                dynamic |= 1 << index
                continue
            fixed |= 1 << index
            if isinstance(one, int) and one != size:
                raise ValueError(
                    f"shapes_spec declares dim {index} as static with value {one}, but got {size}"
                )
        return dynamic, fixed

    def settle(self, entry: _core.Entry) -> None:
        """Have an entry check all relations that were said to hold; raise if one does not hold in this call."""
        numbers: dict[Any, int] = {}
        held: dict[tuple[str, int], Any] = {}
        for number, (text, _, kind, dim) in enumerate(entry.size_origins()):
            symbol = sympy.Symbol(f"size{number}", integer=True)
            numbers[symbol] = number
            if kind in (0, 2):
                held[text, dim if kind == 0 else -1] = symbol
        reader = Reader(ShapeEnv(), numbers.get, lambda *relation: _core.decide(entry, *relation))
        bound: dict[Any, Any] = {}
        relations: list[tuple[Any, str]] = []
        for where, (leaf, value) in self.met.items():
            size = held.get(where, sympy.Integer(value))
            name = where[0] if where[1] < 0 else f"{where[0]}.size()[{where[1]}]"
            if isinstance(leaf, specs.IntVar):
                if leaf.min is not None:
                    relations.append((sympy.Le(leaf.min, size, evaluate=False), f"{name} >= {leaf.min}"))
                if leaf.max is not None:
                    relations.append((sympy.Le(size, leaf.max, evaluate=False), f"{name} <= {leaf.max}"))
                first = bound.setdefault(leaf.sympy_sym, size)
                if first is not size:
                    relations.append((sympy.Eq(first, size, evaluate=False), f"{name} == {leaf.name}"))
            else:
                relations.append(
                    (sympy.Eq(size, leaf.node.expr, evaluate=False), f"{name} == {leaf.node.expr}")
                )
        relations += [(one.node.expr, str(one.node.expr)) for one in self.spec.assumptions]
        values = {symbol: _core.size_symbol(entry, number)[0] for symbol, number in numbers.items()}
        for relation, text in relations:
            said = relation.xreplace(bound)
            if any(symbol not in values for symbol in said.free_symbols):
                continue  # a variable that this capture has not met
            if not bool(said.xreplace(values).doit()):
                raise RuntimeError(f"shapes_spec: this does not hold: {text}")
            if said.free_symbols:
                with contextlib.suppress(Unreadable):  # it is too hard for a guard
                    reader.assume(said)
        if numbers:
            entry.renew_sizes()
