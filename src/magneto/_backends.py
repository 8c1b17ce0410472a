"""Backends: finding them by name, and handing them a graph as `torch.compile` does."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._guards import (
    DuplicateInputs,
    StorageOverlap,
    TracingContext,
    tracing,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import _config as fx_config
from torch.fx.graph import CodeGen
from torch.utils.weak import WeakIdKeyDictionary

from magneto import (
    _aot,
    _background,
    _buckets,
    _control,
    _core,
    _debug,
    _graph,
    _hints,
    _imports,
    _levels,
    _locks,
    _logs,
    _probes,
    _progress,
    _remake,
    _session,
    _shared,
    _subclasses,
    exc,
)
from magneto._config import config
from magneto._counters import counters

if TYPE_CHECKING:
    from magneto._symints import Symbols

log = logging.getLogger("magneto")

Backend = Callable[[fx.GraphModule, list[torch.Tensor]], Callable[..., Any]]


def find(
    backend: str | Backend,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    *,
    name: str | None = None,
    use_aoti: bool = False,
    aot: bool | None = None,
    background: bool | None = None,
) -> Backend | None:
    """The backend of this name, with its options; None for the core's own replay of the graph."""
    if backend == "eager" and not _debug.is_asked():
        if mode not in (None, "default") or options:
            _logs.say(
                log, logging.WARNING, "the backend 'eager' has no use for %s=%r: it has no effect",
                "mode" if mode else "options", mode if mode else options,
            )  # fmt: skip
        return None
    if backend == "inductor":
        try:
            if use_aoti:
                return torch._TorchCompileAOTInductorWrapper(mode, options, dynamic, name)  # type: ignore[no-untyped-call]
            return _Inductor(mode, options, dynamic, name, aot, background)
        except RuntimeError as error:
            raise _wrong_option(error, mode, options) from None
    if background:
        _logs.say(
            log, logging.WARNING, "the backend %r compiles at once: only inductor compiles in the background",
            exc.name_of(backend),
        )  # fmt: skip
    if isinstance(backend, str):
        return _Named(backend, _look_up(backend), mode, options)
    if not callable(backend):
        raise TypeError(f"a backend is a name or a callable, not {backend!r}")
    if mode in (None, "default") and not options:
        return backend
    return _Named(exc.name_of(backend), backend, mode, options)


_imports.when_imported("torch._dynamo.exc", exc.join_torch)  # before anything can be raised


def _wrong_option(error: RuntimeError, mode: str | None, options: dict[str, Any] | None) -> RuntimeError:
    """What inductor says of a wrong mode or option; in place of all its names the one that was meant."""
    from torch._inductor import list_mode_options, list_options

    text = str(error)
    if mode is not None and "mode" in text:
        return RuntimeError(f"{text}{_hints.did_you_mean(mode, list_mode_options())}")
    names = list_options()
    wrong = [name for name in options or () if name.replace("-", "_") not in names]
    if not wrong:
        return error
    near = _hints.did_you_mean(wrong[0], names) or "; torch._inductor.list_options() lists them all"
    return RuntimeError(f"inductor has no option {wrong[0]!r}{near}")


def _note(backend: Any, module: fx.GraphModule, function: Any) -> str:
    """Of which lines the graph is that a backend could not compile, and how backends are called."""
    text = ""
    try:
        inspect.signature(getattr(backend, "compiler_fn", backend)).bind(None, None)
    except TypeError:
        text = "A backend is called as backend(graph_module, example_inputs), and returns a callable.\n"
    except ValueError:  # it has no signature
        pass
    stacks = [node.stack_trace for node in module.graph.nodes if node.stack_trace]
    return (
        f"{text}The graph is of {exc.name_of(function)}, and begins at\n{stacks[0].rstrip()}\n\n"
        if stacks
        else text
    )


def _look_up(name: str) -> Backend:
    from torch._dynamo.backends import registry
    from torch._dynamo.exc import InvalidBackend

    try:
        return registry.lookup_backend(name)
    except InvalidBackend:
        raise exc.InvalidBackend(name, list_backends(None)) from None


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that `backend=` takes, without those of the given tags; `None` for all of them.

    They are torch's own, those of the entry-point group `torch_dynamo_backends`, and `eager`.
    """
    from torch._dynamo.backends import registry

    return sorted({"eager", *registry.list_backends(exclude_tags)})


class _Inductor(torch._TorchCompileInductorWrapper):
    """Inductor; without a mode or options it is not imported before there is something to compile.

    `aot` says whether AOTInductor compiles what it can, `background` whether processes of their own compile; None is
    what the settings say.
    """

    def __init__(
        self,
        mode: str | None,
        options: Any,
        dynamic: bool | None,
        name: str | None,
        aot: bool | None,
        background: bool | None = None,
    ) -> None:
        bisects = "TORCH_BISECT_BACKEND" in os.environ or "torch._inductor.compiler_bisector" in sys.modules
        if mode in (None, "default") and not options and not bisects:
            self.config: dict[str, Any] = {}
            self.dynamic = dynamic
            self.name = name
        else:
            super().__init__(mode, options, dynamic, name)  # type: ignore[no-untyped-call]
        self.aot = aot
        self.background = background


class _Named:
    """A backend with the mode and options that it is to be given."""

    def __init__(self, name: str, backend: Backend, mode: str | None, options: dict[str, Any] | None) -> None:
        self.compiler_name = name
        self.compiler_fn = backend
        self.kwargs: dict[str, Any] = {}
        if mode is not None and mode != "default":
            self.kwargs["mode"] = mode
        if options:
            self.kwargs["options"] = options

    def __call__(self, module: fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        return self.compiler_fn(module, inputs, **self.kwargs)


class _Retry(Exception):
    """AOTInductor can't compile a graph: inductor's JIT does."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Compiler:
    """What the core calls with a new entry: makes the graph and has the backend compile it."""

    def __init__(
        self,
        backend: Backend,
        function: Any = None,
        seen: Callable[[fx.GraphModule], None] | None = None,
        observer: Any = None,
    ) -> None:
        self.backend = backend
        self.seen = seen
        self.function = function
        self.observer = observer

    def _chosen(self) -> Backend:
        """The backend, or the one that the stance asks for."""
        if _control.is_first_by_aot() and self.observer is not None and not self.observer.recompiled:
            return _look_up("aot_eager")
        return self.backend

    def __call__(self, entry: _core.Entry) -> Any:
        """What the backend made, with its guard on the inputs if it has one; None if the core is to run the graph."""
        session = _session.current()
        muted = torch._C.DisableTorchFunctionSubclass() if entry.muted else contextlib.nullcontext()
        with contextlib.nullcontext() if session is None else session.profiled(), muted:
            return self._compile(entry, session)

    def _ticket(self, entry: _core.Entry) -> _shared.Ticket | None:
        """What finds others with the same graph; None if what is made of it is for this entry alone."""
        ticket = None if self.observer is None else self.observer.ticket(entry)
        alone = self._chosen() is not self.backend or _is_freezing(self.backend) or _debug.is_overridden()
        alone = alone or bool(entry.muted) or entry.symbols is not None or _buckets.wanted() is not None
        return None if alone else ticket

    def _compile(self, entry: _core.Entry, session: _session.Session | None) -> Any:
        if entry.operations == 0:  # nothing for a backend
            return None
        if (
            torch._C._functorch.peek_interpreter_stack() is not None
        ):  # backends don't know the tensors of transforms
            return None
        ticket = self._ticket(entry)
        if ticket is not None and (found := ticket.find(entry)) is not None:
            return None if found is _shared.REPLAYED else found
        attempt = _aot.attempt(self.backend, ticket, exc.name_of(self.function), entry)
        if attempt is not None:
            try:
                found = attempt.find(entry)
                if found is None and self._is_sent(entry, ticket):
                    return None
                return self._build(entry, session, ticket, attempt) if found is None else found
            except _Retry as retry:
                found = self._build(entry, session, ticket, None, is_again=True)
                attempt.refuse(retry.error)
                return found
            except _aot.Refused:
                pass  # another process has found out
        if self._is_sent(entry, ticket):
            return None
        return self._build(entry, session, ticket, None)

    # ---- in the background ----

    def _is_sent(self, entry: _core.Entry, ticket: _shared.Ticket | None) -> bool:
        """Whether the graph is compiled in the background, so that it is replayed for now."""
        if not _background.is_asked(self.backend):
            return False
        name = exc.name_of(self.function)
        key = None if ticket is None else _aot.key_of(ticket)
        try:
            if ticket is None or key is None:
                raise _remake.Unsendable("it can't be told from others in another process")

            def made(outcome: str) -> _background.Adopt | None:
                return None if outcome == "failed" else functools.partial(self._adopt, ticket, outcome)

            if _background.outcome_of(key) == "other":
                return False
            describe = functools.partial(_remake.describe, entry, self.backend, key, name)
            if entry.has_symbols:  # its inputs are chosen now: it will be in use
                describe = functools.partial(_graph.identity, describe())
                _locks.compile_lock()
                sizes = _graph.varying(entry, _shapes(), self.function)
                if sizes is not None:
                    sizes.choose_inputs()
            _background.submit(key, describe, entry, made)
            return True
        except _remake.Unsendable as error:
            _logs.say(log, logging.INFO, "the graph of %s is compiled at once: %s", name, error)
            return False

    def _adopt(
        self, ticket: _shared.Ticket, outcome: str, entry: _core.Entry, inputs: tuple[Any, ...]
    ) -> Any:
        """What was compiled in the background, for a call with these inputs; None if the replay stays."""
        muted = torch._C.DisableTorchFunctionSubclass() if entry.muted else contextlib.nullcontext()
        entry.hold_inputs(inputs)
        try:
            with muted:
                found = self._take(ticket, outcome, entry)
        except Exception as error:
            _logs.say(
                log, logging.WARNING, "what was compiled of %s in the background can't be used: %s",
                exc.name_of(self.function), error,
            )  # fmt: skip
            return None
        finally:
            entry.hold_inputs(None)
        return None if found is NotImplemented or isinstance(found, list) else found

    def _take(self, ticket: _shared.Ticket, outcome: str, entry: _core.Entry) -> Any:
        """The same, while the entry holds its inputs."""
        ticket.is_late = True
        found = ticket.find(entry)
        if found is not None:
            return None if found is _shared.REPLAYED else found
        attempt = _aot.attempt(self.backend, ticket, exc.name_of(self.function), entry)
        if attempt is not None:
            try:
                found = attempt.find(entry)
                if found is not None or outcome == "made":
                    return found
            except _aot.Refused:
                pass
        return self._build(entry, None, ticket, None, is_again=True)

    def _build(
        self,
        entry: _core.Entry,
        session: _session.Session | None,
        ticket: _shared.Ticket | None,
        attempt: _aot.Attempt | None,
        is_again: bool = False,
    ) -> Any:
        """Make the graph, and have it compiled: by the backend, or if it may be so by AOTInductor. `is_again` says that
        the inputs are chosen already."""
        _locks.compile_lock()  # what makes graphs imports parts of torch._dynamo
        symbols = entry.symbols
        shapes = _shapes() if symbols is None else functools.partial(_graph.identity, symbols.shape_env)
        sizes = _graph.varying(entry, shapes, self.function)
        if sizes is not None and not is_again:
            sizes.choose_inputs()
        built = _graph.build(
            entry,
            lambda: FakeTensorMode(shape_env=shapes()),
            lazy=config.use_lazy_graph_module,
            function=self.function,
            freezing=_is_freezing(self.backend),
            sizes=sizes,
        )
        module, inputs, frozen = built.module, built.inputs, built.frozen
        constants = (
            symbols is not None or _has_cuda_graphs()
        )  # what is decided by data is not told apart from floats
        if sizes is not None and (sizes.failed or (sizes.floats and constants)):
            return [*sizes.floats] or NotImplemented
        classed = _classed(inputs) if entry.muted else []
        for position in classed:
            inputs[position] = inputs[position].as_subclass(torch.Tensor)
        given = [value for position, value in enumerate(inputs) if position not in frozen]
        if not built.recipe.has_values():
            return None  # it only changes torch's state: nothing for a backend either
        number = None if session is None else session.id
        if session is not None:
            session.shapes = built.shapes
            module.meta["dynamo_compile_id"] = session.id
            module.meta["backend_id"] = f"__compiled_fn_{str(session.id).replace('/', '_')}"
        module.compile_subgraph_reason = None  # type: ignore[assignment]
        if self.seen is not None:
            self.seen(module)
        # a mode of its own for the backend: the graph's example values may have been changed by its operations
        context = _Context(shapes, functools.partial(_contexts, module.graph, given, sizes))
        context.traced_code.extend(entry.codes or ())
        for node, tensor in zip(module.graph.nodes, given if sizes is not None else (), strict=False):
            if sizes is not None and hasattr(tensor, "_dynamo_hint_overrides"):
                sizes.take_hints(tensor, node.meta["example_value"])
        floats = {} if sizes is None else sizes.floats
        if attempt is not None and floats:
            built.let_go()
            raise _Retry(_aot.Refused("an input is a number"))
        state = _core.graph_state(module.graph) if built.is_recording else None
        hits = _cache_hits()
        try:
            with (
                _locks.compile_lock(),
                _right_cache(inputs, bool(floats)),
                _kept_state(entry),
                _levels.left() if built.has_levels else contextlib.nullcontext(),
                _no_restart(inputs),
                contextlib.nullcontext() if session is None else session.backend(),
                _probes.remembered(self.backend),
                _progress.shown(exc.name_of(self.function)),
                torch.compiler._compile_session_context(),
                tracing(context),
            ):
                try:
                    backend = _debug.wrap(self._chosen() if attempt is None else attempt, number)
                    compiled = None
                    ddp = (
                        None
                        if symbols is not None or sizes is not None or frozen or classed
                        else _buckets.wanted()
                    )
                    if ddp is not None and max(_storages(inputs), default=-1) < 0:
                        compiled = _buckets.compile_parts(backend, ddp, module, given, context)
                    if compiled is None:
                        compiled = backend(module, given)
                finally:
                    context.close()
            if not callable(compiled):
                raise TypeError(f"a backend must return a callable, and this one returned {compiled!r}")
        except Exception as error:
            built.let_go()
            if attempt is not None:
                raise _Retry(error) from None
            if floats:  # it may do with constants
                return [*floats]
            if not config.suppress_errors:
                note = _note(self.backend, module, self.function)
                raise exc.BackendCompilerFailed(self.backend, error, note) from error
            _logs.say(
                log, logging.WARNING, "the backend %r failed, and its graph runs without it: %s",
                exc.name_of(self.backend), error, exc_info=error if log.isEnabledFor(logging.DEBUG) else None,
            )  # fmt: skip
            return None
        if sizes is not None and (taken := sizes.taken()):
            _let_go(context, built)
            return taken
        if sizes is not None and not sizes.settle():
            _let_go(context, built)
            return NotImplemented
        if sizes is not None and not config.allow_ignore_mark_dynamic:
            _check_marks(module, given, sizes)
        if _has_views_of_merged_inputs(context, inputs):
            _let_go(context, built)
            return None
        cached = _cache_hits() > hits
        check, apart = _guard_on_inputs(entry, context, inputs, cached)
        _let_go(context, built)
        is_replayed = (
            check is None
            and state is not None
            and not entry.muted
            and (ticket is None or not ticket.maker.by_graph)
            and _is_own_forward(compiled, module, state)
        )
        compiled = _shared.REPLAYED if is_replayed else _not_lazy(compiled)
        if built.has_levels and not is_replayed:
            compiled = _levels.leaving(compiled)
        if ticket is not None and not frozen and not floats:
            order = None if sizes is None else [ticket.nodes.index(node) for node in entry.input_nodes()]
            decisions = (
                entry.size_guards()
            )  # all: settling has dropped weaker ones, of those before the backend too
            ticket.keep(compiled, check, order, apart, decisions)
            if attempt is not None:
                attempt.keep(order, apart, decisions, check is not None)
        if is_replayed:
            return None
        if classed:
            compiled = _without_classes(compiled, classed)
        if frozen:
            compiled, check = _without(compiled, frozen), _same(inputs, frozen, check)
        if sizes is not None and floats:
            places = {id(value): position for position, value in enumerate(inputs)}
            positions = {node: places[id(one.tensor)] for node, one in floats.items()}
            compiled = _with_floats(compiled, [*positions.values()])
            check = _compared([(positions[node], *rest) for node, *rest in sizes.comparisons], check)
        return compiled if check is None else (compiled, check)


def _check_marks(module: fx.GraphModule, given: list[Any], sizes: Symbols) -> None:
    """Raise if the backend has taken a size for a constant that is marked as dynamic."""
    for node, tensor in zip(module.graph.nodes, given, strict=False):
        if isinstance(tensor, torch.Tensor) and getattr(tensor, "_has_dynamo_dim_marking", False):
            error = sizes.violation(tensor, node.meta["example_value"], node._dynamo_source)
            if error is not None:
                raise error


def _is_freezing(backend: Any) -> bool:
    """Whether tensors that modules hold are to be constants of the graph: inductor then folds them."""
    if config.prepare_freezing:
        return True
    if torch.is_grad_enabled():
        return False
    settings = sys.modules.get("torch._inductor.config")  # what is not loaded has not been set
    options = getattr(backend, "config", None)
    chosen = options.get("freezing") if isinstance(options, dict) else None
    return bool(settings is not None and settings.freezing if chosen is None else chosen)


def _has_cuda_graphs() -> bool:
    """Whether inductor makes CUDA graphs, which take no tensors of the CPU: floats are constants then."""
    settings = sys.modules.get("torch._inductor.config")
    return settings is not None and bool(settings.triton.cudagraphs)


def _classed(inputs: Sequence[Any]) -> list[int]:
    """The positions of tensors whose classes override `__torch_function__`: the graph has what they made of it."""
    plain = (torch.Tensor, torch.nn.Parameter)
    return [
        position
        for position, value in enumerate(inputs)
        if isinstance(value, torch.Tensor) and type(value) not in plain and not _subclasses.is_wrapper(value)
    ]


def _without_classes(compiled: Callable[..., Any], classed: list[int]) -> Callable[..., Any]:
    """A compiled graph that is given plain tensors at some positions: AOTAutograd does not take others."""

    def run(*inputs: Any) -> Any:
        plain = list(inputs)
        for position in classed:
            plain[position] = plain[position].as_subclass(torch.Tensor)
        return compiled(*plain)

    return run


def _without(compiled: Callable[..., Any], frozen: list[int]) -> Callable[..., Any]:
    """A compiled graph that is not given the inputs at some positions."""
    left_out = frozenset(frozen)

    def run(*inputs: Any) -> Any:
        return compiled(*(value for position, value in enumerate(inputs) if position not in left_out))

    return run


def _with_floats(compiled: Callable[..., Any], positions: list[int]) -> Callable[..., Any]:
    """A compiled graph that is given floats at some positions, where it takes tensors."""

    def run(*inputs: Any) -> Any:
        given = list(inputs)
        for position in positions:
            given[position] = torch.tensor(given[position], dtype=torch.float64, device="cpu")
        return compiled(*given)

    return run


def _compared(
    comparisons: list[Any], check: Callable[[tuple[Any, ...]], bool] | None
) -> Callable[[tuple[Any, ...]], bool] | None:
    """A guard on the inputs: floats are on the same side of numbers."""
    if not comparisons:
        return check

    def guard(inputs: tuple[Any, ...]) -> bool:
        return all(holds(inputs[position], number) for position, holds, number in comparisons) and (
            check is None or check(inputs)
        )

    return guard


def _same(
    inputs: list[Any], frozen: list[int], check: Callable[[tuple[Any, ...]], bool] | None
) -> Callable[[tuple[Any, ...]], bool]:
    """A guard on the inputs: those that the graph holds are the same tensors."""
    held = [(position, inputs[position]) for position in frozen]

    def guard(inputs: tuple[Any, ...]) -> bool:
        return all(inputs[position] is tensor for position, tensor in held) and (
            check is None or check(inputs)
        )

    return guard


class _Contexts(WeakIdKeyDictionary):
    """What says which sizes of inputs are symbols, by the inputs: found out when somebody looks for the first time.

    Args:
        find: returns it for all inputs.
    """

    def __init__(self, find: Callable[[], Iterator[tuple[torch.Tensor, Any]]]) -> None:
        self._find: Callable[[], Iterator[tuple[torch.Tensor, Any]]] | None = None
        super().__init__()
        self._find = find

    @property
    def data(self) -> dict[Any, Any]:
        """Where `WeakIdKeyDictionary` has it all."""
        find, self._find = self._find, None
        if find is not None:
            for tensor, context in find():
                self[tensor] = context
        return self._data

    @data.setter
    def data(self, value: dict[Any, Any]) -> None:
        self._data = value

    def let_go(self) -> None:
        """Hold no inputs."""
        self._find = None
        self._data.clear()


class _Context(TracingContext):
    """A tracing context with a mode of FakeTensors that is made when it is first asked for.

    Args:
        shapes: returns the `ShapeEnv` of the mode.
        find: returns what `tensor_to_context` has.
    """

    def __init__(
        self, shapes: Callable[[], Any], find: Callable[[], Iterator[tuple[torch.Tensor, Any]]]
    ) -> None:
        self._mode: FakeTensorMode | None = None
        self._shapes: Callable[[], Any] | None = None
        super().__init__(None)
        self._shapes = shapes
        self.tensor_to_context: _Contexts = _Contexts(find)

    @property
    def fake_mode(self) -> FakeTensorMode | None:
        """The mode, which is the backend's alone."""
        shapes, self._shapes = self._shapes, None
        if shapes is not None:
            self._mode = FakeTensorMode(shape_env=shapes())
        return self._mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode | None) -> None:
        self._shapes, self._mode = None, mode

    def close(self) -> None:
        """The backend is done: there is no mode if it had no use for one."""
        self._shapes = None


def _shapes() -> Callable[[], Any]:
    """Returns a `ShapeEnv`, the same each time."""
    found: list[Any] = []

    def shapes() -> Any:
        if not found:
            from torch.fx.experimental.symbolic_shapes import ShapeEnv

            found.append(ShapeEnv(assume_static_by_default=True))
        return found[0]

    return shapes


def _contexts(
    graph: fx.Graph, inputs: list[Any], sizes: Symbols | None
) -> Iterator[tuple[torch.Tensor, Any]]:
    """Which sizes of the inputs are symbols."""
    for node, tensor in zip(graph.nodes, inputs, strict=False):  # the placeholders come first
        if isinstance(tensor, torch.Tensor):
            yield tensor, _shape(tensor, node, sizes)
    for one in () if sizes is None else sizes.floats.values():
        yield one.tensor, one.context()


def _let_go(context: _Context, built: _graph.Built) -> None:
    """Drop the weak references to inputs: programs see them, and `torch.utils.swap_tensors` refuses such tensors."""
    built.let_go()
    if config.invalidate_compile_context_weakrefs is False:
        return
    context.tensor_to_context.let_go()
    if context.fake_mode is not None:
        describer = context.fake_mode.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.clear()
        describer.lookup_storage.clear()


_SETTERS: dict[Any, Callable[..., Any]] = {sys.getrecursionlimit: sys.setrecursionlimit}


def _setter(question: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What sets the setting that a function tells, or None if that is not known."""
    name = getattr(question[0], "__name__", "")
    if question[0] in _SETTERS:
        return _SETTERS[question[0]]
    return getattr(torch._C, f"_set_{name[5:]}", None) if name.startswith("_get_") else None


def _function_modes() -> list[Any]:
    """The torch-function modes that are on, the innermost last."""
    return list(map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack())))


def _default_device() -> tuple[Any, Any]:
    """The mode that `torch.set_default_device` has entered, and the device that such modes note."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context, torch.utils._device.CURRENT_DEVICE


def _set_function_modes(modes: list[Any], device: tuple[Any, Any]) -> None:
    """Put both back, if they are not as they were."""
    now = _function_modes()
    if len(now) != len(modes) or any(one is not other for one, other in zip(now, modes, strict=True)):
        for _ in now:
            torch._C._pop_torch_function_stack()
        for mode in modes:
            torch._C._push_on_torch_function_stack(mode)
    if _default_device()[0] is not device[0]:
        torch._GLOBAL_DEVICE_CONTEXT.device_context = device[0]
    torch.utils._device.CURRENT_DEVICE = device[1]


def _set_filters(entry: _core.Entry, filters: Any, content: list[Any]) -> None:
    """Put back the filters of warnings, if the entry has guards on them.

    If it has none they stay: modules that a backend imports have filters of their own, for as long as they live.
    """
    if warnings.filters is filters and filters == content:
        return
    if any(re.search(r"\.filters\b|\['filters'\]", guard) for guard in entry.guards()):
        filters[:] = content
        warnings.filters = filters
        warnings._filters_mutated()  # type: ignore[attr-defined]


@contextlib.contextmanager
def _kept_state(entry: _core.Entry) -> Iterator[None]:
    """Put back what compiling may change and the program would notice: random numbers, and settings.

    A backend may run the graph, AOTAutograd leaves the grad mode as the graph leaves it, inductor raises the recursion
    limit. What the guards of the entry ask for must be as it was, or it would not fit the call that it was made for.
    """
    cache = torch.is_autocast_cache_enabled()
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    deterministic = torch.get_deterministic_debug_mode()
    casts = [
        (name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in ("cpu", "cuda")
    ]
    modes, device = _function_modes(), _default_device()
    filters = warnings.filters, [*warnings.filters]
    numbers, generator = random.getstate(), torch.get_rng_state()
    settings = [
        (question, setter, question[0](*question[1:]))
        for question in [*entry.questions(), (sys.getrecursionlimit,)]
        if (setter := _setter(question)) is not None
    ]
    try:
        yield
    finally:
        torch.set_rng_state(generator)
        random.setstate(numbers)
        torch.set_autocast_cache_enabled(cache)
        for name, enabled, cast in casts:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, cast)
        torch.set_deterministic_debug_mode(deterministic)
        torch.set_default_dtype(dtype)
        torch._C._set_grad_enabled(grad)
        _set_function_modes(modes, device)
        _set_filters(entry, *filters)
        for (tell, *args), setter, value in settings:
            if tell(*args) != value:
                with contextlib.suppress(Exception):  # it may be out of reach from here
                    setter(*args, value)


class _All(set[str]):
    """A set that has everything in it."""

    def __contains__(self, item: object) -> bool:
        return True


@contextlib.contextmanager
def _no_restart(inputs: Sequence[Any]) -> Iterator[None]:
    """Keep AOTAutograd from asking for another graph.

    It makes a symbol of the number in a float64 input of no dimensions. If no operation can take it as a tensor, it
    wants TorchDynamo to start again, and to make no input of the number. We make none of Python's numbers, and the
    number in a tensor is asked for only where a session guards it: so it goes on with the graph as it is, as it does
    at the second start.
    """
    tensors = [value for value in inputs if not isinstance(value, torch.SymInt)]
    if all(type(value) is torch.Tensor and value.dtype is not torch.float64 for value in tensors):
        yield
        return
    from torch._dynamo.symbolic_convert import TensorifyState

    before = TensorifyState.force_specializations
    TensorifyState.force_specializations = _All()
    try:
        yield
    finally:
        TensorifyState.force_specializations = before


def _shape(tensor: torch.Tensor, node: Any, sizes: Symbols | None) -> Any:
    """Says which sizes of an input are symbols."""
    source = node._dynamo_source
    fake = node.meta["example_value"]
    if sizes is None or not any(isinstance(one, torch.SymInt) for one in (*fake.shape, *fake.stride())):
        return _static_shape(tensor, source)
    base = tensor._base if tensor._is_view() else None
    return sizes.context(tensor, fake, source, None if base is None else _static_shape(base, source))


def _static_shape(tensor: torch.Tensor, source: Any) -> Any:
    """Says that the sizes of a tensor, and of what it is a view of, are plain numbers."""
    from torch._dynamo.source import AttrSource
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        StatefulSymbolicContext,
        SubclassSymbolicContext,
    )

    base = tensor._base if tensor._is_view() else None
    known: dict[str, Any] = {
        "dynamic_sizes": [DimDynamic.STATIC] * tensor.dim(),
        "view_base_context": None if base is None else _static_shape(base, source),
        "tensor_source": source,
    }
    if not _subclasses.is_wrapper(tensor):
        return StatefulSymbolicContext(**known)
    inner = {name: _static_shape(part, AttrSource(source, name)) for name, part in _subclasses.parts(tensor)}
    return SubclassSymbolicContext(**known, inner_contexts=inner)


def _is_own_forward(compiled: Any, module: fx.GraphModule, state: tuple[Any, ...]) -> bool:
    """Whether what a backend returned is the module's `forward`, of which no code was made yet, and nobody has edited
    the graph since it was in this state: then it does what the core's replay does."""
    from torch.fx._lazy_graph_module import _LazyGraphModule

    codegen: Any = module.graph._codegen
    return (
        (compiled is module or getattr(compiled, "__self__", None) is module)
        and isinstance(module, _LazyGraphModule)
        and module._needs_recompile()
        and getattr(module.forward, "__func__", None) is _LazyGraphModule._lazy_forward
        and (compiled is module or compiled == module.forward)
        and type(codegen) is CodeGen
        and codegen._body_transformer is None
        and not fx_config.enrich_profiler_metadata
        and _core.is_same_state(state, _core.graph_state(module.graph))
    )


def _not_lazy(compiled: Any) -> Any:
    """The real forward of a lazy GraphModule."""
    from torch.fx._lazy_graph_module import _LazyGraphModule

    module = compiled if isinstance(compiled, _LazyGraphModule) else getattr(compiled, "__self__", None)
    if (
        isinstance(module, _LazyGraphModule)
        and getattr(compiled, "__name__", "_lazy_forward") == "_lazy_forward"
    ):
        _LazyGraphModule.force_recompile(module)
        return module.forward
    return compiled


def _storages(inputs: Sequence[Any]) -> list[int]:
    """For each input a number that it has in common with those that share its storage; -1 if none does."""
    first: dict[int, int] = {}
    groups = [-1] * len(inputs)
    with torch._C.DisableTorchFunctionSubclass():
        for position, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                other = first.setdefault(value.untyped_storage()._cdata, position)
                if other != position:
                    groups[position] = groups[other] = other
    return groups


def _places(inputs: Sequence[Any], positions: list[int]) -> list[tuple[int, int, int]]:
    """Which of the inputs at these positions share a storage, and where in it they lie."""
    storages = [inputs[position].untyped_storage() for position in positions]
    known = [storage._cdata for storage in storages]
    return [
        (known.index(storage._cdata), storage.nbytes(), inputs[position].storage_offset())
        for position, storage in zip(positions, storages, strict=True)
    ]


def _cache_hits() -> int:
    """How often AOTAutograd has found a graph in its cache."""
    return counters["aot_autograd"]["autograd_cache_hit"] if "aot_autograd" in counters else 0


@contextlib.contextmanager
def _right_cache(inputs: Sequence[Any], has_floats: bool) -> Iterator[None]:
    """Keep AOTAutograd from its cache where inputs share memory: what is there may be for others that do not. The same
    where floats vary: what is there may have one in it as a constant."""
    if not has_floats and all(group < 0 for group in _storages(inputs)):
        yield
        return
    with _without_cache():
        yield


@functools.cache
def _without_cache() -> contextlib.AbstractContextManager[None]:
    """Turns AOTAutograd's cache off. One for all uses: torch leaves a context variable behind for each."""
    from torch._functorch import config as settings

    patch: contextlib.AbstractContextManager[None] = settings.patch(enable_autograd_cache=False)
    return patch


def _written_inputs(context: TracingContext, count: int, cached: bool = False) -> list[bool]:
    """Which inputs AOTAutograd found to be written to, or otherwise changed; all if its cache does not tell."""
    if context.fw_metadata is None:
        return [cached] * count
    infos = context.fw_metadata.input_info
    written = [info.mutates_data or info.mutates_metadata or info.mutates_storage_metadata for info in infos]
    if len(written) != count:  # it left out some that were there twice, or put one in place of several
        return [any(written)] * count
    return written


def _has_views_of_merged_inputs(context: TracingContext, inputs: list[Any]) -> bool:
    """Whether an output is a view of inputs that share memory and are written to.

    AOTAutograd makes such inputs out of one, their common memory, and then makes such outputs as if they were views of
    that: they have the wrong strides, or there is an error.
    """
    written = _written_inputs(context, len(inputs))
    if not any(written) or context.fw_metadata is None:
        return False
    from torch._functorch._aot_autograd.schemas import OutputType

    groups = _storages(inputs)
    merged = {group for group, writes in zip(groups, written, strict=True) if writes and group >= 0}
    views = {OutputType.alias_of_input, OutputType.is_input}
    return bool(merged) and any(info.output_type in views for info in context.fw_metadata.output_info)


def _guard_on_inputs(
    entry: _core.Entry, context: TracingContext, inputs: list[Any], cached: bool
) -> tuple[Callable[[tuple[Any, ...]], bool] | None, tuple[list[bool], list[int]] | None]:
    """What must hold of the graph's inputs for AOTAutograd's result to be right: as a function of them, and as what
    `Entry.keep_apart` was given.

    AOTAutograd says so itself where shapes are dynamic. With static shapes it takes for granted that inputs that share
    memory always do, and those that don't never do: that matters if an input is written to. The core looks at that, but
    for inputs that did share memory: of these the places must be the same.
    """
    guards = context.guards_context.aotautograd_guards
    written = _written_inputs(context, len(inputs), cached)
    own: list[int] = []
    apart = None
    if any(written) and len(inputs) > 1:
        groups = _storages(inputs)
        apart = written, groups
        entry.keep_apart(written, groups)
        changed = {group for group, writes in zip(groups, written, strict=True) if writes and group >= 0}
        own = [position for position, group in enumerate(groups) if group in changed]
    if _are_apart(guards, own):
        own = []
    places = _places(inputs, own)
    same: list[tuple[int, int]] = []
    overlaps: list[tuple[list[int], list[int]]] = []
    for guard in guards:
        if isinstance(guard, DuplicateInputs):
            same.append((_position(guard.input_source_a), _position(guard.input_source_b)))
        elif isinstance(guard, StorageOverlap):
            overlaps.append(
                (
                    [_position(source) for source in guard.overlapping_sources],
                    [_position(source) for source in guard.non_overlapping_sources],
                )
            )
        else:
            raise exc.MagnetoError(f"the backend added a guard of an unknown kind: {guard!r}")
    if not same and not overlaps and not own:
        return None, apart

    def check(inputs: tuple[Any, ...]) -> bool:
        if own and _places(inputs, own) != places:
            return False
        for a, b in same:
            if inputs[a] is not inputs[b]:
                return False
        for with_overlap, without in overlaps:
            from torch._C._dynamo.guards import compute_overlapping_tensors

            tensors = [inputs[i] for i in with_overlap]
            tensors += [inputs[i] for i in without if isinstance(inputs[i], torch.Tensor)]
            if compute_overlapping_tensors(tensors, symbolic=False) != set(range(len(with_overlap))):
                return False
        return True

    return check, apart


def _are_apart(guards: Any, positions: list[int]) -> bool:
    """Whether AOTAutograd asks that these inputs overlap nowhere, which it looks at where shapes are dynamic: then it
    does not matter where in a storage they lie."""
    return any(
        isinstance(guard, StorageOverlap)
        and not guard.overlapping_sources
        and {_position(source) for source in guard.non_overlapping_sources}.issuperset(positions)
        for guard in guards
    )


def _position(source: Any) -> int:
    return int(source.index)
