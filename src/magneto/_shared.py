"""One compilation for equal graphs: what a backend made belongs to the graph, and serves all entries that have it.

The core tells what a graph is before anything is made for a backend (`Entry.key`). inductor and AOTAutograd give the
same code for the same graph, whoever has it: layers of one class, functions of different code, the same function
again. Other backends are the user's, and may count or keep what they are given: as by `torch.compile`, one is not given
a graph again that another callable of the same code has had compiled with it, and is given all others.

Nothing is kept alive for the sake of it: a compilation is forgotten with the last entry that uses it. Those that
depend on the graph alone, as inductor's and AOTAutograd's, hold nothing of the program: of these the last `MOST` stay,
as long as their backend is there.
"""

from __future__ import annotations

import collections
import enum
import hashlib
import operator
import sys
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch

from magneto import _core, _debug

MOST = 64
"""How many compilations are kept that no entry uses."""

SHARED = frozenset(("aot_eager", "aot_eager_decomp_partition"))
"""Backends of torch's, beside inductor, whose result depends on the graph alone."""

REPLAY = "the core's own replay"

REPLAYED: Any = object()
"""In place of what a backend made: it left the graph as it is, and the core replays the recording."""

_SETTINGS = ("torch._inductor.config", "torch._functorch.config", "torch._dynamo.config")

_FLAGS: list[Callable[[], Any]] = [
    getattr(torch._C, name)
    for name in (
        "_get_cublas_allow_tf32", "_get_cudnn_benchmark", "_get_cudnn_deterministic", "_get_cudnn_enabled",
        "_get_cudnn_sdp_enabled", "_get_deterministic_algorithms_warn_only",
        "_get_deterministic_fill_uninitialized_memory", "_get_flash_sdp_enabled", "_get_float32_matmul_precision",
        "_get_math_sdp_allow_fp16_bf16_reduction", "_get_math_sdp_enabled", "_get_mem_efficient_sdp_enabled",
        "_get_mkldnn_enabled", "_get_nnpack_enabled", "_get_overrideable_sdp_enabled", "get_num_threads",
    )
    if hasattr(torch._C, name)
]  # fmt: skip
"""Settings of torch's that backends look at while they compile."""

_PLAIN = frozenset((int, float, complex, str, bool, bytes, type(None), torch.dtype, torch.device))


def is_plain(value: Any) -> bool:
    """Whether an option is told in full by its repr."""
    if type(value) in _PLAIN:
        return True
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    return False


# ---- who compiles ----


class Maker:
    """What compiles: equal makers give equal code for equal graphs.

    Args:
        name: what it is called, with its options.
        backend: the backend itself, if it is known by its identity.
        by_graph: whether the graph alone says what it gives.
    """

    def __init__(self, name: str, backend: Any = None, *, by_graph: bool = False) -> None:
        self.name = name
        self.by_graph = by_graph
        self.is_replay = name == REPLAY
        self.backend = None if backend is None else weakref.ref(backend)

    def is_same(self, other: Maker) -> bool:
        """Whether two are the same, and still there."""
        if self.name != other.name or (self.backend is None) != (other.backend is None):
            return False
        if self.backend is None or other.backend is None:
            return True
        backend = self.backend()
        return backend is not None and backend == other.backend()


def maker(backend: Any) -> Maker | None:
    """Who compiles with this backend; None if nothing that it makes is shared."""
    if backend is None:
        return Maker(REPLAY)
    if _debug.is_asked():
        return None
    if isinstance(backend, torch._TorchCompileInductorWrapper):
        if isinstance(backend, torch._TorchCompileAOTInductorWrapper):
            return None
        settings = sorted(backend.config.items())
        if backend.config.get("triton.cudagraphs") or not is_plain(settings):
            return None
        aot = getattr(backend, "aot", False)
        return Maker(f"inductor {settings!r} {backend.dynamic!r} {aot!r}", by_graph=True)
    function = getattr(backend, "compiler_fn", None)
    named = function is not None and type(backend).__module__ == "magneto._backends"
    inner = function if named else backend
    says = getattr(inner, "magneto_shares", None)
    if says is False or (named and not is_plain(backend.kwargs)):
        return None
    name = f"{backend.compiler_name} {sorted(backend.kwargs.items())!r}" if named else ""
    own = named and backend.compiler_name in SHARED and inner.__module__.startswith("torch._dynamo.backends.")
    try:
        return Maker(name, inner, by_graph=own or says is True)
    except TypeError:  # it can't be referred to weakly
        return None


def settings() -> tuple[Hashable, ...] | None:
    """All that backends look at beside the graph; None if it can't be told from others."""
    found: list[Hashable] = [read() for read in _FLAGS]
    for name in _SETTINGS:
        module = sys.modules.get(name)
        digest = None if module is None else module.get_hash()
        if digest is not None and not _is_told(module, digest):
            return None
        found.append(digest)
    return tuple(found)


_told: dict[bytes, bool] = {}


def _is_told(module: Any, digest: bytes) -> bool:
    """Whether settings with this digest are told in full by it: functions are not, another may have their address."""
    known = _told.get(digest)
    if known is None:
        values = module.get_config_copy()
        ignored = module._compile_ignored_keys
        text = repr([value for name, value in values.items() if name not in ignored and not is_plain(value)])
        if len(_told) > MOST:
            _told.clear()
        known = _told[digest] = " at 0x" not in text
    return known


# ---- what a graph mentions ----

_OWN_TYPES = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
              types.GetSetDescriptorType, types.ClassMethodDescriptorType, torch._ops.OpOverload,
              torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)  # fmt: skip
_OPERATORS = (
    "aten",
    "prims",
    "prim",
    "quantized",
    "torchvision",
    "_c10d_functional",
    "inductor",
    "higher_order",
)


def _is_own(value: Any) -> bool:
    """Whether an object is torch's or Python's, and there for good."""
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        name = str(
            value._schema.name if isinstance(value, torch._ops.OpOverload) else value._qualified_op_name
        )
        return name.partition("::")[0] in _OPERATORS
    if isinstance(value, types.FunctionType):
        module = str(value.__module__)
        return (module == "torch" or module.startswith("torch.")) and value.__closure__ is None
    if isinstance(value, enum.Enum) or type(type(value)) is type(torch._C._SDPBackend):
        return type(value).__module__.startswith("torch")
    if isinstance(value, type):
        return value.__module__.partition(".")[0] in ("torch", "builtins")
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        return owner is None or isinstance(owner, (types.ModuleType, type))
    return isinstance(value, _OWN_TYPES) or value is operator.getitem


def _is_function(value: Any) -> bool:
    """Whether an object of the user's means the same wherever it is mentioned."""
    return isinstance(
        value, (types.FunctionType, type, enum.Enum, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
    )


# ---- what was made ----


class Made:
    """What a backend made of a graph."""

    def __init__(self, ticket: Ticket) -> None:
        self.maker = ticket.maker
        self.digest = ticket.digest
        self.code = weakref.ref(ticket.code)
        self.mentions = [value if _is_own(value) else weakref.ref(value) for value in ticket.mentions]
        self.users: weakref.WeakSet[Any] = weakref.WeakSet((ticket.user,))
        self.key = b""
        self.compiled: Callable[[], Any] | None = None
        self.is_replayed = False
        self.gone: weakref.ref[Any] | None = None
        """Of the backend, where it is kept beyond the last entry that uses it."""
        self.check: Any = None
        self.order: list[int] | None = None
        """Which of the inputs the graph takes, if not all in their order."""
        self.apart: tuple[list[bool], list[int]] | None = None
        """Which inputs must share no storage: what `Entry.keep_apart` takes."""
        self.decisions: list[tuple[str, Any, Any]] = []
        """What the backend has decided on sizes."""

    @property
    def is_alive(self) -> bool:
        """Whether somebody has it still; of a graph that only was seen, always."""
        if self.is_replayed:
            return len(self.users) > 0
        return self.compiled is None or self.compiled() is not None

    def is_of(self, ticket: Ticket) -> bool:
        """Whether this is of the same graph."""
        return (
            self.digest == ticket.digest
            and self.maker.is_same(ticket.maker)
            and len(self.mentions) == len(ticket.mentions)
            and all(
                (one() if isinstance(one, weakref.ref) else one) is other
                for one, other in zip(self.mentions, ticket.mentions, strict=True)
            )
        )

    def give(self, entry: _core.Entry, ticket: Ticket) -> Any:
        """The same for another entry, as `Compiler` returns it; None if it does not fit the sizes of its call."""
        compiled = REPLAYED if self.is_replayed else None if self.compiled is None else self.compiled()
        if compiled is None:
            return None
        order = None if self.order is None else [ticket.nodes[position] for position in self.order]
        if order is not None and ticket.is_late and entry.input_nodes() != order:
            return None
        hints = _Hints(entry)
        if not all(hints.holds(*decision) for decision in self.decisions):
            return None
        for decision in self.decisions:
            if _core.decide(entry, *decision) is not True:
                return None
        if order is not None and not ticket.is_late:
            entry.set_inputs(order)
        if self.apart is not None:
            entry.keep_apart(*self.apart)
        entry.renew_sizes()
        return compiled if self.check is None else (compiled, self.check)


_FUNCTIONS: dict[str, Callable[[int, int], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor, "min": min, "max": max,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


class _Hints:
    """The values that the symbols of an entry had in the call that it was captured from."""

    def __init__(self, entry: _core.Entry) -> None:
        self.entry = entry
        self.values: dict[str, int] = {}

    def value(self, tree: Any) -> Any:
        """That of an expression."""
        if type(tree) is int:
            return tree
        if type(tree) is tuple:
            return _FUNCTIONS[tree[0]](self.value(tree[1]), self.value(tree[2]))
        if tree not in self.values:
            self.values[tree] = _core.size_symbol(self.entry, int(tree[1:]))[0]
        return self.values[tree]

    def holds(self, relation: str, left: Any, right: Any) -> bool:
        """Whether a relation holds for them."""
        try:
            return bool(_FUNCTIONS[relation](self.value(left), self.value(right)))
        except ZeroDivisionError:
            return False


_by_code: weakref.WeakKeyDictionary[types.CodeType, list[Made]] = weakref.WeakKeyDictionary()
_by_graph: dict[bytes, list[Made]] = {}
_kept: collections.OrderedDict[Made, Any] = collections.OrderedDict()


def clear() -> None:
    """Forget all that was made."""
    _by_code.clear()
    _replayed.clear()
    _by_graph.clear()
    _kept.clear()


class Ticket:
    """The graph of a new entry, and who is to compile it.

    Args:
        user: stands for the callable; held weakly.
        code: that of the frame that was captured.
    """

    def __init__(
        self, user: Any, code: types.CodeType, by: Maker, key: tuple[Any, ...], entry: _core.Entry
    ) -> None:
        structure, self.mentions, state = key
        self.user = user
        self.code = code
        self.maker = by
        self.is_own = all(map(_is_own, self.mentions))
        self.digest = hashlib.sha256(structure + repr(state).encode()).digest()
        self.nodes = entry.input_nodes()
        self.is_late = False
        """Whether the entry is in use already: the order of its inputs stays."""
        self.row: Made | None = None
        """What another callable of the same code has had made, or has captured, of the same graph."""
        for made in _by_code.get(code, ()):
            if made.code() is code and made.is_alive and user not in made.users and made.is_of(self):
                self.row = made
                break

    @property
    def is_repeated(self) -> bool:
        """Whether a callable of the same code has had this graph before, and so `torch.compile` would not see it."""
        return self.row is not None

    def _rows(self) -> tuple[bytes, list[Made]] | None:
        """The key under which others find what is made, and what is there; None if nothing is shared."""
        found = settings() if self.maker.by_graph else ()
        if found is None:
            return None
        key = hashlib.sha256(self.digest + repr(found).encode()).digest()
        if self.maker.by_graph and self.is_own:
            return key, _by_graph.get(key, [])
        return key, [] if self.row is None or self.row.key != key else [self.row]

    def find(self, entry: _core.Entry) -> Any:
        """What was made of the same graph, for this entry; None if there is nothing."""
        rows = self._rows()
        for made in () if rows is None else rows[1]:
            found = made.give(entry, self) if made.is_of(self) else None
            if found is not None:
                self.take()
                if made in _kept:
                    _kept.move_to_end(made)
                return found
        self.row = None  # another one is made
        return None

    def take(self) -> None:
        """The callable has this graph now: the same again is another one of its own."""
        if self.row is not None:
            self.row.users.add(self.user)
        else:
            self._add(Made(self))

    def _add(self, made: Made) -> None:
        rows = _by_code.setdefault(self.code, [])
        rows[:] = [row for row in rows if row.is_alive and row.code() is not None][1 - MOST :]
        rows.append(made)

    def keep(
        self,
        compiled: Any,
        check: Any,
        order: list[int] | None,
        apart: tuple[list[bool], list[int]] | None,
        decisions: list[tuple[str, Any, Any]],
    ) -> Made | None:
        """Keep what was made for others; None if that can't be done."""
        rows = self._rows()
        if rows is None:
            return None
        made, by_graph = Made(self), self.maker.by_graph and self.is_own
        made.key, made.check, made.order, made.apart, made.decisions = rows[0], check, order, apart, decisions
        made.is_replayed = compiled is REPLAYED
        try:
            if not made.is_replayed:
                made.compiled = weakref.ref(compiled, _Forget(made) if by_graph else None)
        except TypeError:
            return None
        self._add(made)
        if by_graph:
            _by_graph[made.key] = [*rows[1], made]
            _kept[made] = compiled
            backend = None if self.maker.backend is None else self.maker.backend()
            if backend is not None:
                made.gone = weakref.ref(backend, _Gone(made))
            while len(_kept) > MOST:
                _kept.popitem(last=False)
        return made


# ---- graphs that the core replays ----


class _Seen:
    """A graph that callables of one code object have, for which there is no backend."""

    __slots__ = ("code", "mentions", "state", "structure", "users")

    def __init__(self, user: weakref.ref[Any], code: types.CodeType, key: tuple[Any, ...]) -> None:
        self.code = weakref.ref(code)
        self.structure, mentions, self.state = key
        self.mentions = [_weakly(value) for value in mentions]
        self.users = [user]

    @property
    def is_alive(self) -> bool:
        """Whether a callable has it still."""
        return self.code() is not None and any(user() is not None for user in self.users)

    def is_of(self, key: tuple[Any, ...]) -> bool:
        """Whether this is the graph with the key."""
        structure, mentions, state = key
        return bool(
            self.structure == structure
            and len(self.mentions) == len(mentions)
            and all(
                (one() if type(one) is weakref.ref else one) is other
                for one, other in zip(self.mentions, mentions, strict=True)
            )
            and self.state == state
        )


def _weakly(value: Any) -> Any:
    """A weak reference, unless an object is there for good or can't be referred to so."""
    if type(value) is types.BuiltinFunctionType or type(value) is types.MethodDescriptorType:
        return value
    try:
        return weakref.ref(value)
    except TypeError:
        return value


_replayed: weakref.WeakKeyDictionary[types.CodeType, list[_Seen]] = weakref.WeakKeyDictionary()


def is_repeated(user: weakref.ref[Any], entry: _core.Entry) -> bool:
    """Whether another callable of the same code has the graph of a new entry, which the core replays.

    It is only counted: nothing is made of it that could be shared, and so nothing is computed that a comparison of
    the two does not need.
    """
    codes = entry.codes
    key = entry.key() if codes else None
    if not codes or key is None or not is_plain(key[2]):  # as for `ticket`
        return False
    code = codes[0]
    rows = _replayed.get(code)
    if rows is None:
        _replayed[code] = [_Seen(user, code, key)]
        return False
    rows[:] = [row for row in rows if row.is_alive][1 - MOST :]
    for row in rows:
        if row.code() is code and user not in row.users and row.is_of(key):
            row.users.append(user)
            return True
    rows.append(_Seen(user, code, key))
    return False


class _Forget:
    """Takes a compilation out of the table when the last that used it is gone."""

    def __init__(self, made: Made) -> None:
        self.key = made.key
        self.made = weakref.ref(made)

    def __call__(self, _: Any) -> None:
        rows = [row for row in _by_graph.get(self.key, ()) if row is not self.made()]
        if rows:
            _by_graph[self.key] = rows
        else:
            _by_graph.pop(self.key, None)


class _Gone:
    """Stops keeping what a backend made when the backend is gone: nobody can ask for it any more."""

    def __init__(self, made: Made) -> None:
        self.made = weakref.ref(made)

    def __call__(self, _: Any) -> None:
        made = self.made()
        if made is not None:
            _kept.pop(made, None)


def ticket(user: Any, by: Maker | None, entry: _core.Entry) -> Ticket | None:
    """What finds others with the graph of an entry; None if it is shared with none."""
    if by is None or not entry.codes:
        return None
    key = entry.key()
    if key is None or not all(_is_own(value) or _is_function(value) for value in key[1]):
        return None
    if not is_plain(key[2]):  # modes of the user's
        return None
    return Ticket(user, entry.codes[0], by, key, entry)
