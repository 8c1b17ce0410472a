"""Runs a program in eager and captured, and compares all that can be seen.

A program is a text: it is executed in a namespace of its own, once for each side, so that globals, classes and closures
are as separate as in two processes. `f` is what is compiled. Steps are texts too, executed in that namespace one after
the other with `f` compiled on one side only: calls of `f`, and changes of the outside between them.

After each step these must be equal: the result, the exception, what was printed, the random state, and everything that
can be reached from the namespace, with its identity: an object met twice is compared as "the same as before", so an
object that is shared on one side has to be shared on the other. Tensors are compared with their storage, so views and
aliases are seen.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import io
import linecache
import random
import re
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils.hooks

from magneto import _core, _runtime

assert _runtime is not None  # it sets the core up

PRELUDE = """
from __future__ import annotations
import collections, contextlib, copy, dataclasses, enum, functools, itertools, math, operator, typing, types
import torch, torch.nn as nn, torch.nn.functional as F
def T(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
X, Y, Z = T(2, 3), T(2, 3, seed=1), T(2, 3, seed=2)
"""

# What the prelude brings, and what is the same on both sides by itself.
_OURS = frozenset({"__builtins__", "annotations", "T", "__warningregistry__"})
_SCALARS = (
    type(None),
    bool,
    int,
    str,
    bytes,
    complex,
    range,
    type(...),
    torch.dtype,
    torch.device,
    torch.layout,
)


def _canonical_float(value: float) -> tuple[str, str]:
    return "float", value.hex()


_ADDRESS = re.compile(" at 0x[0-9a-f]+")  # other ones on the two sides


def _text(text: str) -> str:
    return _ADDRESS.sub(" at 0x...", text) if " at 0x" in text else text


def _is(value: Any, kinds: Any) -> bool:
    """isinstance by the real class: `__class__` may lie."""
    actual = type(value)
    return any(type.__subclasscheck__(kind, actual) for kind in (kinds if type(kinds) is tuple else (kinds,)))


def _among(kind: type, kinds: tuple[type, ...]) -> bool:
    """`in`, with no `__eq__` of a metaclass."""
    return any(kind is each for each in kinds)


def _dict_of(value: Any) -> Any:
    """The dict of an instance, with no `__getattribute__` of its class."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


class _Walk:
    """Turns objects into nested tuples that are equal if and only if the objects can't be told apart."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.seen: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.keep: list[Any] = []

    def tensor(self, value: torch.Tensor) -> Any:
        if type(value) is _runtime.Twin:
            return "a twin"
        if value.layout is not torch.strided:
            return type(value), str(value)
        storage = value.untyped_storage()
        number = self.storages.setdefault(storage._cdata, len(self.storages))
        self.keep.append(storage)
        with torch.no_grad():
            data = torch.view_as_real(value.detach()) if value.is_complex() else value.detach()
            content = repr(data.tolist())
        return (
            type(value).__name__, value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), number,
            storage.nbytes(), value.requires_grad, value.is_leaf, content, self(value.grad) if value.is_leaf else None,
            self(dict(getattr(value, "__dict__", {}))),
        )  # fmt: skip

    def items(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self(value) for value in values)

    def mapping(self, value: Any) -> tuple[Any, ...]:
        ordered = _is(value, collections.OrderedDict)
        items = collections.OrderedDict.items(value) if ordered else dict.items(value)
        return tuple((self(key), self(item)) for key, item in items)

    def instance(self, value: Any) -> tuple[Any, ...]:
        parts: list[Any] = [type(value).__qualname__, self(type(value))]
        content = _dict_of(value)
        if _is(content, dict):
            # the dict itself has an identity that shows only when somebody asks for it
            parts.append(("dict", self.mapping(content)))
        for base in type(value).__mro__:
            for name, member in vars(base).items():
                if type(member) is types.MemberDescriptorType and not name.startswith("__"):
                    with contextlib.suppress(AttributeError):
                        parts.append((name, self(member.__get__(value))))
        return tuple(parts)

    def __call__(self, value: Any) -> Any:
        kind = type(value)
        if kind is float:
            return _canonical_float(value)
        if _among(kind, _SCALARS):
            return kind.__name__, _text(repr(value))
        if _among(kind, (tuple, torch.Size)) and all(
            _among(type(item), _SCALARS) or type(item) is float for item in value
        ):
            return kind.__name__, self.items(value)  # equal ones can't be told apart but by `is`
        if kind is slice:
            return "slice", self(value.start), self(value.stop), self(value.step)
        if kind is types.GenericAlias:
            return kind.__name__, repr(value)
        if id(value) in self.seen:
            return "seen", self.seen[id(value)]
        if _is(value, types.ModuleType):
            return "module", value.__name__
        if _is(value, type) and value.__module__ != self.module:
            return "class", value.__module__, value.__qualname__
        if kind is types.FunctionType and value.__module__ != self.module:
            return "function", value.__module__, value.__qualname__
        if kind is _core.Compiled:
            return self(value.function)
        self.seen[id(value)] = len(self.seen)
        self.keep.append(value)
        return self.compound(value, kind)

    def compound(self, value: Any, kind: type) -> Any:
        if _is(value, torch.Tensor):
            return self.tensor(value)
        if _is(value, torch.nn.Module):
            return kind.__qualname__, self(kind), self.mapping(vars(value))
        if kind is types.FunctionType:
            return (
                "function", value.__qualname__, value.__code__.co_code, value.__code__.co_names,
                self(value.__defaults__), self(value.__kwdefaults__), self(value.__closure__), self(value.__dict__),
            )  # fmt: skip
        if kind is types.MethodType:
            return "method", self(value.__func__), self(value.__self__)
        if kind is types.CellType:
            try:
                return "cell", self(value.cell_contents)
            except ValueError:
                return "cell", "empty"
        if _is(value, type):
            skipped = {"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl"}
            skipped.add("__slotnames__")  # copyreg keeps it for next time
            return "class", value.__qualname__, tuple(
                (name, self(item)) for name, item in vars(value).items() if name not in skipped
            )  # fmt: skip
        if _is(value, enum.Enum):
            return "enum", kind.__qualname__, value.name
        if _is(value, BaseException):
            arguments = BaseException.args.__get__(value)
            return "exception", kind.__qualname__, self.items(arguments), self(_dict_of(value))
        return self.container(value, kind)

    def container(self, value: Any, kind: type) -> Any:
        extra: Any = self.instance(value) if kind.__flags__ & (1 << 9) else kind.__qualname__
        if _is(value, (tuple, list)):
            return extra, self.items(tuple.__iter__(value) if _is(value, tuple) else list.__iter__(value))
        if _is(value, collections.deque):
            return (
                extra,
                collections.deque.maxlen.__get__(value),
                self.items(collections.deque.__iter__(value)),
            )
        if _is(value, dict):
            factory = None
            if _is(value, collections.defaultdict):
                factory = self(collections.defaultdict.default_factory.__get__(value))
            return extra, factory, self.mapping(value)
        if _is(value, (set, frozenset)):
            items = set.__iter__(value) if _is(value, set) else frozenset.__iter__(value)
            # their order may be that of addresses, which are others on the two sides
            ordered = sorted(
                items, key=lambda item: (type(item).__qualname__, repr((_dict_of(item) or {}).get("n")))
            )
            return extra, tuple(sorted((self(item) for item in ordered), key=repr))
        if _is(value, (int, float, str)):
            return extra, next(
                (base, _text(base.__repr__(value))) for base in (int, float, str) if _is(value, base)
            )
        if _is(value, functools.partial):
            return extra, self(value.func), self(value.args), self(value.keywords)
        if kind is types.MappingProxyType:
            return "proxy", self.mapping(dict(value))
        if kind is property:
            return "property", self(value.fget), self(value.fset)
        if _among(kind, (staticmethod, classmethod)):
            return kind.__name__, self(value.__func__)
        if kind.__flags__ & (1 << 9):
            return extra
        return kind.__qualname__


@dataclass
class Failure:
    """An aborted capture."""

    reason: str
    detail: str | None

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


@dataclass
class Report:
    """What happened on the captured side."""

    captures: int = 0
    failures: list[Failure] = field(default_factory=list)
    entries: int = 0
    hits: int = 0
    results: list[Any] = field(default_factory=list)

    @property
    def captured(self) -> bool:
        """Whether every capture that was tried succeeded."""
        return self.captures > 0 and not self.failures


class Difference(AssertionError):
    """Captured code does not behave as eager code."""


def _first_difference(a: Any, b: Any) -> tuple[Any, Any]:
    """The innermost parts of two nested tuples that differ."""
    while isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        different = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
        if len(different) != 1:
            return a, b
        a, b = different[0]
    return a, b


def seed(number: int) -> None:
    """As torch.manual_seed, which also notes the whole stack for each kind of device that might be used later."""
    torch.default_generator.manual_seed(number)


def _state_of_torch() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(), torch.are_deterministic_algorithms_enabled(), sys.exc_info()[0],
    )  # fmt: skip


class Side:
    """One of the two executions of a program."""

    number = 0

    def __init__(
        self, text: str, compile: Callable[[Any], Any] | None, called: Iterable[str] = ("f",)
    ) -> None:
        # the same name on both sides: it shows in reprs
        self.space: dict[str, Any] = {"__name__": "program"}
        self.hooks = torch.utils.hooks.RemovableHandle.next_id = 0
        self.results: list[Any] = []
        Side.number += 1
        exec(PRELUDE, self.space)
        self.known = set(self.space)
        seed(0)
        filename = f"<program {Side.number}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        exec(compile_text(text, filename), self.space)
        self.hooks, self.dtype = torch.utils.hooks.RemovableHandle.next_id, torch.get_default_dtype()
        self.local: dict[str, Any] = {}
        if compile is not None:
            self.local = {name: compile(self.space[name]) for name in called}
        self.around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    def step(self, text: str) -> tuple[Any, ...]:
        seed(7)
        random.seed(7)
        torch.utils.hooks.RemovableHandle.next_id = self.hooks
        torch.set_default_dtype(self.dtype)
        printed = io.StringIO()
        result: Any = None
        raised: Any = None
        with contextlib.redirect_stdout(printed):
            try:
                try:
                    code = compile(text, "<step>", "eval")
                except SyntaxError:
                    exec(compile(text, "<step>", "exec"), self.space)
                else:
                    space = {**self.space, **self.local}
                    with self.around():
                        result = eval(code, space)
            except Exception as error:
                raised = error
                cause: BaseException | None = error
                while (
                    cause is not None
                ):  # tracebacks lead here: what frames hold would go whenever cycles are collected
                    cause.__traceback__, cause = None, cause.__context__
        state = _state_of_torch()
        self.hooks, self.dtype = torch.utils.hooks.RemovableHandle.next_id, torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        self.results.append(result)
        walk = _Walk("program")
        seen = {
            "result": walk(result),
            "exception": None if raised is None else (type(raised).__qualname__, walk(raised.args)),
            "cause": None
            if raised is None
            else (
                type(raised.__cause__).__qualname__,
                type(raised.__context__).__qualname__,
            ),
            "printed": printed.getvalue(),
            "random": torch.random.get_rng_state().tolist()[:64],
            "state": state,
            "earlier results": walk.items(self.results[:-1]),
        }
        seen.update(self.globals(walk))
        return tuple(seen.items())

    def globals(self, walk: _Walk) -> dict[str, Any]:
        """The program's globals, as they are now."""
        return {
            f"global {name}": walk(value)
            for name, value in self.space.items()
            if not name.startswith("__")
            and name not in _OURS
            and not (name in self.known and name not in ("X", "Y", "Z"))
        }

    def outside(self) -> tuple[Any, ...]:
        """What is outside of the program's calls, as it is now: globals, earlier results, the state of torch."""
        walk = _Walk("program")
        return self.globals(walk), walk.items(self.results), _state_of_torch()


def compile_text(text: str, filename: str) -> types.CodeType:
    return compile(text, filename, "exec", dont_inherit=True)


def run(
    text: str,
    steps: Iterable[str],
    limit: int = 64,
    compile: Any = None,
    before: Callable[[], None] = lambda: None,
    fullgraph: bool = False,
) -> Report:
    """Run a program on both sides; raises Difference where they are not the same. `before` is called before each step."""
    report = Report()

    def stopped(reason: str, _text: str, detail: str | None, _where: Any, _action: str) -> None:
        report.failures.append(Failure(reason, detail))

    compiled: list[Any] = []

    def core(function: Any) -> Any:
        compiled.append(_core.Compiled(function, None, stopped, None, limit, fullgraph=fullgraph))
        return compiled[-1]

    steps = list(steps)
    others = {
        step[0] for step in steps if re.match(r"[ghk]\(X", step)
    }  # functions that steps call as they call f
    eager, captured = Side(text, None), Side(text, compile or core, ("f", *sorted(others)))
    for number, step in enumerate(steps):
        expected = eager.step(step)
        before()
        found = captured.step(step)
        for (name, a), (other, b) in zip(expected, found, strict=False):
            if name != other or a != b:
                inner_a, inner_b = _first_difference(a, b)
                raise Difference(
                    f"step {number} ({step}), {name}:\n  eager    {inner_a}\n  captured {inner_b}\n  in       {a}\n"
                    f"  failures: {[str(failure) for failure in report.failures]}\n{text}"
                )
        if len(expected) != len(found):
            raise Difference(f"step {number} ({step}): other globals: {expected[-1]} and {found[-1]}")
    if compiled:
        report.captures = compiled[0].captures
        entries = compiled[0].entries()
        report.entries = len(entries)
        report.hits = sum(entry.hits for entry in entries)
    report.results = captured.results
    return report


def check(
    text: str,
    *steps: str,
    captured: bool = True,
    recaptures: bool | None = None,
    fullgraph: bool = False,
) -> Report:
    """Run a program, and assert that all of it was captured (or, if `captured` is False, that not all of it was)."""
    report = run(text, steps, fullgraph=fullgraph)
    if captured:
        assert report.captured, f"not captured: {[str(failure) for failure in report.failures]}\n{text}"
        assert report.hits > 0
    else:
        assert report.failures, f"it is captured now: move it out of the list\n{text}"
    if recaptures is not None:
        assert (report.captures > 1) == recaptures, f"{report.captures} captures\n{text}"
    return report
