"""What an operation returns, from metadata alone: the slow path behind the core's propagation cache."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._C._autograd import CreationMeta, _get_creation_meta, _set_creation_meta
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)

from magneto import _core, _subclasses

if TYPE_CHECKING:
    from magneto._sizes import Session

DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)
"""What FakeTensorMode raises for an operation whose result depends on data."""


class _Quiet(threading.local):
    """Torch writes down each operation that fails, but the program does with that what it wants: not on this thread."""

    on = False

    def filter(self, _: logging.LogRecord) -> bool:
        """As a filter of torch's logger."""
        return not self.on


quiet = _Quiet()
logging.getLogger("torch._subclasses.fake_tensor").addFilter(quiet.filter)

_mode: FakeTensorMode | None = None
_lenient: FakeTensorMode | None = None


def fake_mode() -> FakeTensorMode:
    """The mode in which all propagation happens, by one thread at a time (`_locks`)."""
    global _mode
    if _mode is None:
        _mode = FakeTensorMode(allow_non_fake_inputs=False)
    return _mode


def _mode_for(target: Any) -> FakeTensorMode:
    """The mode in which an operation is propagated."""
    global _lenient
    if isinstance(target, torch._ops.HigherOrderOperator):  # some of them ask for it
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=False)
    if getattr(target, "__module__", None) not in ("magneto._higher", "magneto._transforms"):
        return fake_mode()
    if _lenient is None:  # forward-mode autograd makes zeros that are no FakeTensors
        _lenient = FakeTensorMode(allow_non_fake_inputs=True)
    return _lenient


def _forget_mode() -> None:
    """After an interrupt or a fork: it may have been in use."""
    global _mode, _lenient
    _mode = _lenient = None
    quiet.on = False


os.register_at_fork(after_in_child=_forget_mode)


def _with_history(fake: torch.Tensor) -> torch.Tensor:
    """The same tensor as the result of an operation: it requires grad and is no leaf, nor a view of one."""
    leaf = torch.empty((), dtype=fake.dtype, device=fake.device, requires_grad=True)
    if 0 not in fake.stride() or fake.numel() <= 1:
        return fake.copy_(leaf)
    # expanded: nothing can be written to all of it
    last = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride(), strict=True))
    memory = torch.empty(last + 1, dtype=fake.dtype, device=fake.device).copy_(leaf)
    made = memory.as_strided(fake.shape, fake.stride())
    made = made.conj() if fake.is_conj() else made
    return torch._neg_view(made) if fake.is_neg() else made


def make_fake(meta: Any, mode: FakeTensorMode, sizes: Any = None, strides: Any = None) -> torch.Tensor:
    """A FakeTensor with this metadata, or with other sizes and strides."""
    sizes, strides = (meta.sizes, meta.strides) if sizes is None else (sizes, strides)
    with mode, torch.inference_mode(False), torch.enable_grad():
        fake = torch.empty_strided(sizes, strides, dtype=meta.dtype, device=meta.device)
        if meta.flags & _core.META_LEAF_VIEW:
            fake = fake.requires_grad_(True)[...]
        if meta.flags & _core.META_CONJUGATE:
            fake = fake.conj()
        if meta.flags & _core.META_NEGATIVE:
            fake = torch._neg_view(fake)
        if meta.flags & _core.META_REQUIRES_GRAD and not meta.flags & _core.META_LEAF_VIEW:
            if meta.flags & _core.META_NON_LEAF:
                fake = _with_history(fake)
            else:
                fake.requires_grad_(True)
        if meta.flags & _core.META_MULTI_VIEW:
            fake = fake[...]
            _set_creation_meta(fake, CreationMeta.MULTI_OUTPUT_NODE)
        if meta.flags & _core.META_PARAMETER:
            fake._is_param = True
    return fake


def flags_of(tensor: torch.Tensor) -> int:
    """The flags of the core's metadata for a tensor."""
    flags: int = 0
    if tensor.requires_grad:
        flags |= _core.META_REQUIRES_GRAD
        if not tensor.is_leaf:
            flags |= _core.META_NON_LEAF
            base = tensor._base
            if base is not None and base.is_leaf:
                flags |= _core.META_LEAF_VIEW
            if base is not None and _get_creation_meta(tensor) == CreationMeta.MULTI_OUTPUT_NODE:
                flags |= _core.META_MULTI_VIEW
    if getattr(tensor, "_is_param", False):
        flags |= _core.META_PARAMETER
    if tensor.is_conj():
        flags |= _core.META_CONJUGATE
    if tensor.is_neg():
        flags |= _core.META_NEGATIVE
    if tensor.layout != torch.strided:
        raise Unsupported(f"layout {tensor.layout}")
    return flags


def meta_of(tensor: torch.Tensor) -> Any:
    """The core's metadata for a tensor."""
    flags = flags_of(tensor)
    fake = tensor if is_symbolic(tensor) else None
    if _subclasses.is_wrapper(tensor):
        if fake is not None:
            raise Unsupported(f"a {type(tensor).__name__} whose sizes depend on data")
        flags, fake = flags | _core.META_WRAPPER, tensor
    return _core.meta(tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride(), flags, fake)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether several elements of a tensor are at one place in memory, or may be."""
    return any(
        type(stride) is int and stride == 0 and (type(size) is not int or size > 1)
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def changed_in_place(fakes: list[torch.Tensor], before: list[int]) -> tuple[int, ...]:
    """The positions of the tensors that were written to since they had these versions."""
    written = tuple(i for i, fake in enumerate(fakes) if version(fake) != before[i])
    if any(_overlaps(fakes[i]) for i in written):
        raise RuntimeError("an expanded tensor is changed in place")  # FakeTensors never complain
    return written


def is_symbolic(tensor: torch.Tensor) -> bool:
    """Whether a size, a stride or the offset of a tensor is a symbol."""
    return (
        not all(type(size) is int for size in tensor.shape)
        or not all(type(stride) is int for stride in tensor.stride())
        or type(tensor.storage_offset()) is not int
    )


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was written to."""
    return -1 if tensor.is_inference() else tensor._version


class _Here(threading.local):
    """Where the warnings of this thread go: a list, or None for where they always go."""

    caught: list[Any] | None = None


_here = _Here()
_show: Any = warnings._showwarnmsg  # type: ignore[attr-defined]
"""What shows the warnings that nobody collects."""


def _collecting() -> list[Any] | None:
    """The list that warnings of this thread go to now, or None: an interrupt may have kept `propagate` from its end."""
    caught, frame = _here.caught, sys._getframe()
    while caught is not None and frame.f_code is not propagate.__code__:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return caught


def _take(message: Any) -> None:
    """In place of what shows a warning."""
    caught = _collecting()
    if caught is None:
        _show(message)
    else:
        caught.append(message)


class _Always:
    """As the pattern for the text of a warning in a filter: it fits those that are collected."""

    def match(self, _: str) -> bool:
        return _collecting() is not None


_FILTER: Any = ("always", _Always(), Warning, None, 0)


class _CaughtWarnings:
    """Collects the warnings of this thread and shows none. Without `warnings.catch_warnings`, which has Python forget
    what it has shown once already, and is the whole process's. What an interrupt leaves behind has no effect."""

    def __enter__(self) -> list[Any]:
        global _show
        self.outer, self.filters, caught = _here.caught, warnings.filters, list[Any]()
        if warnings._showwarnmsg is not _take:  # type: ignore[attr-defined]
            _show = warnings._showwarnmsg  # type: ignore[attr-defined]
            warnings._showwarnmsg = _take  # type: ignore[attr-defined]
        # in the list that is there: other threads may change it, or put another in its place
        self.filters.insert(0, _FILTER)  # type: ignore[attr-defined]
        _here.caught = caught
        return caught

    def __exit__(self, *_: object) -> None:
        _here.caught = self.outer
        with contextlib.suppress(ValueError):  # somebody has removed all filters
            self.filters.remove(_FILTER)  # type: ignore[attr-defined]
        if self.outer is None and warnings._showwarnmsg is _take:  # type: ignore[attr-defined]
            warnings._showwarnmsg = _show  # type: ignore[attr-defined]


def _is_resized(
    changes: dict[int, Any], inputs: list[tuple[int, Any]], fakes: list[torch.Tensor], out: list[torch.Tensor]
) -> bool:
    """Whether `out=` came to have another shape, where FakeTensors do not know which strides it gets."""
    resized, plain = False, True
    for index, (fake, (_, meta)) in enumerate(zip(fakes, inputs, strict=True)):
        if any(fake is tensor for tensor in out):
            resized = resized or tuple(changes.get(index, meta).sizes) != tuple(meta.sizes)
        else:
            plain = plain and fake.is_contiguous()
    return resized and not plain


class Unsupported(Exception):
    """The result of an operation can't be held by a graph."""


class _DataDependent(Exception):
    pass


_PLAIN = (
    int, float, bool, complex, str, bytes, torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format,
    type(None), type(NotImplemented),
)  # fmt: skip


_QUANTISED = frozenset((torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4))
"""Dtypes of which a FakeTensor does not have the metadata: it is taken for the tensor that was quantised."""


class Results:
    """Takes a result apart, given the tensors that went into the operation."""

    def __init__(
        self, fakes: list[torch.Tensor], symbolic: bool = False, sizes: Session | None = None
    ) -> None:
        self.fakes = fakes
        self.symbolic = symbolic
        self.sizes = sizes
        self.fresh: list[torch.Tensor] = []

    def wrap(self, value: Any) -> Any:
        """The result with metadata in place of new tensors, and references in place of old ones."""
        if isinstance(value, torch.Tensor):
            for index, fake in enumerate(self.fakes):
                if value is fake:
                    return _core.ref(index)
            if not isinstance(value, FakeTensor) and not _subclasses.is_fake(value):
                raise Unsupported("a tensor with data")
            for other in self.fresh:
                if value is other:
                    raise Unsupported("one tensor twice")
            self.fresh.append(value)
            return meta_of(value) if self.sizes is None else self.sizes.meta_of(value)
        if type(value) in _PLAIN:
            if self.sizes is not None and type(value) is torch.Size:
                return type(value)(map(self.sizes.constant, value))
            return value
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            if self.sizes is not None:
                return self.sizes.plain(value)
            if not self.symbolic:
                raise _DataDependent("a value that depends on data")
            return value
        if type(value) is list:
            return [self.wrap(item) for item in value]
        if isinstance(value, tuple):
            items = [self.wrap(item) for item in value]
            if type(value) is tuple:
                return tuple(items)
            if hasattr(value, "_make"):
                return type(value)._make(items)
            return type(value)(items)
        raise Unsupported(f"a result of type {type(value).__name__}")

    def views(self) -> tuple[tuple[int, int], ...]:
        """Which new tensors are views of which old ones; -1 if one shares memory in another way, as `x.data` does."""
        found = []
        for number, tensor in enumerate(self.fresh):
            base = tensor._base
            for index, fake in enumerate(self.fakes):
                if base is not None and (base is fake or base is fake._base):
                    found.append((number, index))
                    break
            else:
                memory = _subclasses.storages(tensor)
                if any(memory & _subclasses.storages(fake) for fake in self.fakes):
                    found.append((number, -1))
        return tuple(found)


def _same(left: Any, right: Any) -> bool:
    """Whether two outcomes say the same."""
    if type(left) is not type(right):
        return False
    if isinstance(left, _core.Outcome):
        fields = ("kind", "why", "result", "changes", "views", "written")
        return all(_same(getattr(left, field), getattr(right, field)) for field in fields)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    if type(left) is _core.Ref:
        return bool(left.index == right.index)
    return bool(left == right) or (left != left and right != right)


def propagate(
    kind: int,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    inputs: list[tuple[int, Any]],
    expected: _core.Outcome | None,
    sizes: Session | None = None,
) -> _core.Outcome:
    """Run an operation on FakeTensors.

    Args:
        kind: `_core.NODE_METHOD` if `target` is the name of a method, else `_core.NODE_FUNCTION`.
        target: what to call.
        args: the arguments, with references to nodes in place of tensors.
        kwargs: the same by keyword.
        inputs: pairs of a node and its metadata, for all references.
        expected: an outcome that should come again, or None.
        sizes: what knows the sizes that vary, if there are any among the arguments.

    Returns:
        What it returns and does, or a refusal.
    """
    was_quiet = quiet.on
    try:
        quiet.on = True
        with _CaughtWarnings() as caught:
            outcome = _propagate(kind, target, args, kwargs or {}, inputs, sizes)
        if caught and outcome.kind == _core.OUTCOME_KNOWN:
            outcome = _with_warnings(caught, outcome, kind, target, args, kwargs or {}, inputs, sizes)
    except BaseException:
        _forget_mode()
        raise
    finally:
        quiet.on = was_quiet
    constants = (fake_mode() if sizes is None else sizes.mode).fake_tensor_converter.constant_storage_mapping
    if constants:  # torch never forgets one, and each is of this operation alone
        constants.clear()
    if expected is not None and not _same(outcome, expected):
        raise AssertionError(
            f"{target} with {inputs}, {args}, {kwargs}: {outcome}, but the cache has {expected}"
        )
    return outcome


def _are_warnings_seen() -> bool:
    """Whether code may look for warnings: they are collected, or captured code has changed what becomes of them."""
    shown = getattr(warnings._showwarnmsg_impl, "__module__", None) == "warnings"  # type: ignore[attr-defined]
    plain = warnings.showwarning is warnings._showwarning_orig  # type: ignore[attr-defined]
    return not (shown and plain) or _core.has_changed(warnings)


def _with_warnings(caught: list[Any], outcome: _core.Outcome, *operation: Any) -> _core.Outcome:
    """The outcome of an operation that has warned. If it does so each time, so it does when the graph runs; but where
    somebody may look for the warning the graph ends before it. What is said once in a process is said now."""
    with _CaughtWarnings() as again:
        _propagate(*operation)
    if again and _are_warnings_seen():
        return _core.refusal(_core.OUTCOME_UNSUPPORTED, f"a warning: {again[0].message}")
    if again:
        return outcome
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return outcome


def _nothing(saved: Any) -> None:
    """In place of the tensor itself: a result that is saved would hold itself for good."""


def _no_more(saved: Any) -> torch.Tensor:
    raise AssertionError("nothing is run backward on FakeTensors")


@contextlib.contextmanager
def _hidden_hooks() -> Iterator[None]:
    """Hooks that get what is saved for backward, as those of `torch.utils.checkpoint`, do not get FakeTensors."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        yield
        return
    torch._C._autograd._push_saved_tensors_default_hooks(_nothing, _no_more)
    try:
        yield
    finally:
        torch._C._autograd._pop_saved_tensors_default_hooks()


def call(
    kind: int,
    target: Any,
    args: Any,
    kwargs: Any,
    values: dict[int, Any],
    mode: FakeTensorMode,
    number: Callable[[Any], Any] | None = None,
) -> Any:
    """Call an operation with values in place of references, and what `number` makes of other arguments."""

    def convert(value: Any) -> Any:
        kind = type(value)
        if kind is _core.Ref:
            return values[value.index]
        if kind is torch.dtype and value in _QUANTISED:
            raise Unsupported("a quantised tensor")
        if kind is list:
            return [convert(item) for item in value]
        if isinstance(value, tuple) and kind is not torch.Size:
            items = [convert(item) for item in value]
            return kind._make(items) if hasattr(value, "_make") else tuple(items)
        if kind is dict:
            return {key: convert(item) for key, item in value.items()}
        if kind is slice:
            return slice(convert(value.start), convert(value.stop), convert(value.step))
        if kind is _core.Subgraph:
            return value.module()
        return value if number is None else number(value)

    fake_args = convert(args)
    fake_kwargs = convert(kwargs)
    with mode, _hidden_hooks():
        if kind == _core.NODE_METHOD:
            return getattr(fake_args[0], target)(*fake_args[1:], **fake_kwargs)
        return target(*fake_args, **fake_kwargs)


def _is_effect(target: Any) -> bool:
    """Whether an operator that somebody has added returns nothing, writes to no argument, and has no fake kernel: its
    own kernel, which does something else, would run now and once more in the graph."""
    if type(target) is torch._ops.OpOverloadPacket:
        return any(_is_effect(getattr(target, name)) for name in target._overload_names)
    if type(target) is not torch._ops.OpOverload or target.namespace in ("aten", "prim", "prims"):
        return False
    schema = target._schema
    returns = any(str(one.type) != "NoneType" for one in schema.returns)
    if returns or any(one.alias_info is not None and one.alias_info.is_write for one in schema.arguments):
        return False
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    fake = torch._library.simple_registry.singleton.find(schema.name).fake_impl
    return fake.kernel is None and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta")


_INDEXED_WRITES = frozenset(("setitem", "__setitem__", "index_put", "index_put_"))


def _writes_by_bytes(kind: int, target: Any, args: tuple[Any, ...], fakes: dict[int, Any]) -> bool:
    """Whether an operation writes to items by a mask of uint8: its kernel warns of that, and FakeTensors do not."""
    name = target if kind == _core.NODE_METHOD else getattr(target, "__name__", "").partition(".")[0]
    if name not in _INDEXED_WRITES or len(args) < 2:
        return False
    keys = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
    return any(type(key) is _core.Ref and fakes[key.index].dtype is torch.uint8 for key in keys)


# Operations whose kernels want one dtype, which FakeTensors do not check.
_ONE_DTYPE = frozenset((
    "matmul", "__matmul__", "__rmatmul__", "imatmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "chain_matmul",
    "multi_dot", "tensordot", "einsum", "addmm", "addmm_", "addmv", "addmv_", "addbmm", "addbmm_", "baddbmm",
    "baddbmm_", "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "convolution",
))  # fmt: skip


def _has_one_dtype(kind: int, target: Any, fakes: list[torch.Tensor]) -> bool:
    """Whether an operation that wants it gets tensors of one dtype, or casts them."""
    name = target if kind == _core.NODE_METHOD else getattr(target, "__name__", "").partition(".")[0]
    return (
        name not in _ONE_DTYPE
        or len({fake.dtype for fake in fakes}) < 2
        or torch._C._is_any_autocast_enabled()
    )


# Operations that make floats of integers, and of which FakeTensors say float32 whatever the default dtype is.
_FLOATS = frozenset(("ldexp",))


def _has_known_dtype(kind: int, target: Any) -> bool:
    """Whether FakeTensors know the dtype of what an operation returns."""
    name = target if kind == _core.NODE_METHOD else getattr(target, "__name__", "").partition(".")[0]
    return name not in _FLOATS or torch.get_default_dtype() is torch.float32


def _propagate(
    kind: int,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: list[tuple[int, Any]],
    sizes: Session | None = None,
) -> _core.Outcome:
    raised: list[Exception] = []
    while True:
        outcome, error = _try(kind, target, args, kwargs, inputs, sizes)
        if error is None and not raised:
            return outcome
        # is it the operation that raises, or was it a signal handler? An operation does so again
        others = [one for one in raised if error is None or type(one) is not type(error)]
        if error is None or len(others) < len(raised) or len(raised) > 4:
            if others:
                raise others[0]
            return outcome
        raised.append(error)


def _changes(
    fakes: dict[int, torch.Tensor], inputs: list[tuple[int, Any]], sizes: Session | None, states: list[Any]
) -> tuple[tuple[int, Any], ...]:
    """Which tensors have come to have other metadata, and which. `states` are what those with sizes that vary were."""
    changes = []
    for index, (fake, (_, meta)) in enumerate(zip(fakes.values(), inputs, strict=True)):
        if sizes is not None and state_of(fake) == states[index]:
            continue
        now = meta_of(fake) if sizes is None else sizes.meta_of(fake)
        if now is not meta:
            changes.append((index, now))
    return tuple(changes)


def state_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What of a FakeTensor's metadata an operation may change, with expressions as torch has made them."""
    numbers = (*tensor.shape, *tensor.stride())
    exprs = tuple(one if type(one) is int else one.node._expr for one in numbers)
    return (tensor.dtype, tensor.device, flags_of(tensor), tensor.dim(), exprs)


def _run_operation(
    kind: int,
    target: Any,
    args: Any,
    kwargs: Any,
    fakes: dict[int, Any],
    sizes: Session | None,
    mode: FakeTensorMode,
) -> Any:
    if sizes is None:
        return call(kind, target, args, kwargs, fakes, mode)
    with enable_python_dispatcher():  # as TorchDynamo does: decompositions that know symbols
        result = call(kind, target, args, kwargs, fakes, sizes.mode, sizes.number)
    sizes.settle()
    return result


def _try(
    kind: int,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: list[tuple[int, Any]],
    sizes: Session | None,
) -> tuple[_core.Outcome, Exception | None]:
    """The outcome, and what the operation raised."""
    try:
        mode = _mode_for(target)
        make = functools.partial(make_fake, mode=mode) if sizes is None else sizes.make_fake
        fakes = {node: make(meta) for node, meta in inputs}
        states = [] if sizes is None else [state_of(fake) for fake in fakes.values()]
        before = [version(fake) for fake in fakes.values()]
        if not _has_one_dtype(kind, target, list(fakes.values())):
            why = "RuntimeError: tensors of different dtypes"
            return _core.refusal(_core.OUTCOME_RAISES, why), None
        if not _has_known_dtype(kind, target):
            raise Unsupported("a result of the default dtype")
        if kind != _core.NODE_METHOD and _is_effect(target):
            raise Unsupported("an operator that returns nothing")
        if _writes_by_bytes(kind, target, args, fakes):
            raise Unsupported("a warning: a mask of uint8")
        result = _run_operation(kind, target, args, kwargs, fakes, sizes, mode)
        results = Results(list(fakes.values()), sizes=sizes)
        wrapped = results.wrap(result)
        changes = _changes(fakes, inputs, sizes, states)
        written = changed_in_place(list(fakes.values()), before)
        out = kwargs.get("out")
        if out is not None:
            refs = out if isinstance(out, (tuple, list)) else [out]
            given = [fakes[ref.index] for ref in refs if type(ref) is _core.Ref]
            if _is_resized(dict(changes), inputs, list(fakes.values()), given):
                raise Unsupported("a tensor that is given as `out` and gets another shape")
        if sizes is not None:
            sizes.settle()
        return _core.outcome(wrapped, changes, results.views(), written), None
    except (*DATA_DEPENDENT, _DataDependent) as error:
        return _core.refusal(_core.OUTCOME_DATA_DEPENDENT, str(error)), None
    except Unsupported as error:
        return _core.refusal(_core.OUTCOME_UNSUPPORTED, str(error)), None
    except Exception as error:  # whatever it is, the program gets it by running the operation for real
        _core.clear_frames(error)  # if it was interrupted: contexts are left now, and not later
        depends = isinstance(error, RuntimeError) and "its data is not allocated yet" in str(error)
        reason = _core.OUTCOME_DATA_DEPENDENT if depends else _core.OUTCOME_RAISES
        return _core.refusal(reason, f"{type(error).__name__}: {error}"), None if depends else error
