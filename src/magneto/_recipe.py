"""The metadata of a graph's nodes, made when it is first read: texts, modules, FakeTensors."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import GuardSource, Source
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConfig, FakeTensorMode

from magneto import _core, _propagate, _stack

if TYPE_CHECKING:
    from magneto._symints import Float, Symbols


class InputSource(Source):
    """Where a graph's input comes from, as text such as `L['self']._parameters['weight']`."""

    text: str
    index: int

    def __init__(self, text: str, index: int) -> None:
        self.__dict__["text"] = text  # torch's class has a slow way of its own to set attributes
        self.__dict__["index"] = index

    @property
    def name(self) -> str:
        """The text."""
        return self.text

    @property
    def guard_source(self) -> GuardSource:
        """All inputs are guarded alike."""
        return GuardSource.LOCAL

    @property
    def _name_template(self) -> str:
        return self.text

    def __reduce__(self) -> Any:
        return InputSource, (self.text, self.index)  # inductor's cache keeps it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSource) and (other.text, other.index) == (self.text, self.index)

    def __hash__(self) -> int:
        return hash((self.text, self.index))

    def __repr__(self) -> str:
        return f"InputSource({self.text!r})"


MODULE = re.compile(r"(?:\._modules\['([^']*)'\])")
"""A step of a source from a module to one that it holds."""

FLOATS: dict[Any, Any] = {
    float: torch.sym_float,
    **{
        getattr(math, name): getattr(torch, f"_sym_{name}")
        for name in ("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "log2")
    },
}
"""Functions that return floats, and those that stand for them in graphs."""

_KNOWN = frozenset((*FLOATS.values(), torch.sym_min, torch.sym_max))

# What a node is described by, see `Entry.describe`.
INDEX, KIND, TARGET, ARGS, KWARGS, VALUE, STACK = range(7)
BINDINGS = 10


def _is_plain() -> bool:
    """Whether a tensor that is made now is a plain one, which nobody else gets to see."""
    return (
        torch._C._len_torch_dispatch_stack() == 0
        and torch._C._len_torch_function_stack() == 0
        and not torch.is_inference_mode_enabled()
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch._C._get_tracing_state()
    )


@contextlib.contextmanager
def _aside() -> Any:
    """Have a tensor that is made be a plain one, whatever is going on: metadata may be read in the midst of a trace."""
    from torch.utils._python_dispatch import _disable_current_modes

    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    try:
        with (
            torch._C._DisableFuncTorch(),
            torch._C.DisableTorchFunction(),
            _disable_current_modes(),
            torch.inference_mode(False),
        ):
            yield
    finally:
        torch._C._set_tracing_state(state)  # type: ignore[attr-defined]


class _Fakes:
    """Makes FakeTensors of a mode. What all of one device have in common is copied from the first."""

    def __init__(self, mode: FakeTensorMode, symbols: Symbols | None) -> None:
        self.mode = mode
        self.symbols = symbols
        self.common: dict[torch.device, dict[str, Any]] = {}

    def __call__(self, meta: _core.Meta) -> FakeTensor:
        """A FakeTensor with this metadata."""
        sizes, strides = (meta.sizes, meta.strides) if self.symbols is None else self.symbols.shape(meta)
        flags = meta.flags
        if flags & (_core.META_CONJUGATE | _core.META_NEGATIVE):
            return _core.uninterrupted(_propagate.make_fake, meta, self.mode, sizes, strides)  # type: ignore[return-value]
        device = meta.device
        elem = torch.empty_strided(sizes, strides, dtype=meta.dtype, device="meta")
        common = self.common.get(device)
        grad = bool(flags & _core.META_REQUIRES_GRAD)
        if common is None or FakeTensorConfig.debug:
            fake = FakeTensor(self.mode, elem, device, requires_grad=grad)
            self.common[device] = dict(fake.__dict__)
        else:
            fake = torch.Tensor._make_subclass(
                FakeTensor, elem, grad, dispatch_device=True, device_for_backend_keys=device
            )
            torch._C._set_throw_on_mutable_data_ptr(fake)
            fake.__dict__.update(common)
        if flags & _core.META_PARAMETER:
            fake._is_param = True
        return fake


_Modules = dict[str, tuple[str, type]]


class Recipe:
    """Makes the metadata of a graph's nodes, given the position of a node among those that are described, and a key.

    What it has made it returns again: copies of a graph share their metadata. It holds neither the entry nor, once the
    backend has compiled the graph, its inputs.

    Args:
        items: how the entry describes its nodes.
        modules: the sources of modules, by the numbers that stacks have.
        mode: returns the mode of FakeTensors.
        symbols: the sizes that vary, if there are any.
        inputs: what the inputs of the graph were when it was captured.
    """

    def __init__(
        self,
        items: list[tuple[Any, ...]],
        modules: dict[int, str],
        mode: Callable[[], FakeTensorMode],
        symbols: Symbols | None,
        inputs: list[Any],
    ) -> None:
        self.items = items
        self.modules = modules
        self.mode = mode
        self.symbols = symbols
        self.inputs: list[Any] | None = inputs
        self.sources: list[Source] = []
        """Of the inputs."""
        self.names: list[str | None] = [None] * len(items)
        """The names of operations by their targets, before they got those of variables."""
        self._made: dict[tuple[int, str], Any] = {}
        self._texts = _stack.Formatter()
        self._fakes: _Fakes | None = None
        self._shared: dict[_core.Meta, FakeTensor] = {}
        self._positions: dict[int, int] | None = None
        self._first_uses: dict[int, Any] | None = None
        self._stacks: dict[tuple[Any, ...], _Modules] = {}

    def __call__(self, position: int, key: str) -> Any:
        """The value at a key of the metadata of a node."""
        found = self._made.get((position, key), self)
        if found is self:
            value = _MAKERS[key](self, position)
            found = self._made.setdefault((position, key), value)
        return found

    def shapes(self, nodes: list[Any]) -> Shapes:
        """The sizes of the tensors that nodes stand for; `nodes` are found by their numbers."""
        sizes = [
            (nodes[item[INDEX]].name, item[VALUE].sizes)
            for item in self.items
            if type(item[VALUE]) is _core.Meta and not item[VALUE].flags & _core.META_WRAPPER
        ]
        return Shapes(sizes, [] if self.symbols is None else self.symbols.symints)

    def has_values(self) -> bool:
        """Whether there is an input or an operation that returns something."""
        return any(item[VALUE] is not None for item in self.items)

    def let_go(self) -> None:
        """Hold the inputs no more: what is made of them from now on is what is left when a graph was compiled."""
        self.inputs = None
        for (_, key), value in self._made.items():
            if key == "grapharg":
                value.erase()  # as TorchDynamo does

    def float_of(self, index: int) -> Float | None:
        """The float that varies at a node, if it is one."""
        return None if self.symbols is None else self.symbols.floats.get(index)

    # ---- texts and modules ----

    def _stack_trace(self, position: int) -> str:
        item = self.items[position]
        if item[KIND] != "placeholder":
            return self._texts.format(item[STACK])
        if self._first_uses is None:
            first: dict[int, Any] = {}
            for one in self.items:
                if one[KIND] != "placeholder":
                    _note_uses((one[ARGS], one[KWARGS]), one[STACK], first)
            self._first_uses = first
        stack = self._first_uses.get(item[INDEX])
        return "" if stack is None else self._texts.format(stack)

    def _modules_in(self, stack: _stack.Stack | None) -> _Modules:
        """The modules within which an operation was called, outermost first."""
        key = tuple([frame[2:4] for frame in stack or () if len(frame) > 2])
        found = self._stacks.get(key)
        if found is None:
            found = self._stacks[key] = {}
            for number, cls in key:
                text = self.modules[number]
                found[text] = (MODULE.sub(r".\1", text), cls)
        return found

    def _module_stack(self, position: int) -> _Modules:
        return dict(self._modules_in(self.items[position][STACK]))

    def _source_functions(self, position: int) -> list[Any]:
        item = self.items[position]
        return [(self.names[position], _source_function(item[TARGET], self._modules_in(item[STACK])))]

    # ---- values ----

    def _example_value(self, position: int) -> Any:
        item = self.items[position]
        value = item[VALUE]
        if item[KIND] == "placeholder":
            if (one := self.float_of(item[INDEX])) is not None:
                with _aside():
                    return one.fake(self.mode())
            return self._fake(value) if type(value) is _core.Meta else self._number(value)
        if self.symbols is not None and type(value) in (float, _core.Dim):
            args = [self._of(arg) if type(arg) is _core.Ref else arg for arg in item[ARGS]]
            return self._computed(self.symbols, item[TARGET], args, value)
        return self._example(value)

    def _fake(self, meta: _core.Meta) -> FakeTensor:
        if meta.flags & _core.META_WRAPPER:
            return meta.fake  # type: ignore[return-value]
        if self._fakes is None:
            self._fakes = _Fakes(self.mode(), self.symbols)
        if _is_plain():
            return self._fakes(meta)
        with _aside():
            return self._fakes(meta)

    def _example(self, value: Any) -> Any:
        """What stands for a result, given its metadata."""
        if type(value) is _core.Meta:
            if value.fake is not None:
                return value.fake
            if self.symbols is None:
                return self._fake(value)
            found = self._shared.get(value)  # one with symbols in it takes long to make
            if found is None:
                found = self._shared[value] = self._fake(value)
            return found
        if type(value) is _core.Dim:
            return self._number(value)
        if type(value) is list:
            return [self._example(item) for item in value]
        if isinstance(value, tuple) and type(value) is not torch.Size:
            items = [self._example(item) for item in value]
            if type(value) is tuple:
                return tuple(items)
            return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
        return None if type(value) is _core.Ref else value

    def _number(self, value: Any) -> Any:
        if type(value) is not _core.Dim:
            return value
        return value.value if self.symbols is None else self.symbols.value(value)

    def _computed(self, symbols: Symbols, target: Any, args: list[Any], value: Any) -> Any:
        """A number that is computed from others, as torch computes it; what it is if torch has no symbol for it."""
        if target in _KNOWN or getattr(target, "__module__", None) == "_operator":
            try:
                return target(*args)
            except Exception:  # torch has no powers of negative floats
                symbols.failed = True
        return self._number(value)

    def _of(self, ref: _core.Ref) -> Any:
        """The example value of a node that an operation uses."""
        if (one := self.float_of(ref.index)) is not None:
            return one.number
        if self._positions is None:
            self._positions = {item[INDEX]: position for position, item in enumerate(self.items)}
        return self(self._positions[ref.index], "example_value")

    # ---- nodes of subgraphs ----

    def inner(
        self, item: tuple[Any, ...], op: str, name: str, args: list[Any], source: Callable[[int], str]
    ) -> dict[str, Any]:
        """The metadata of a node of a subgraph, all of it; `args` are the example values of its arguments, and `source`
        returns the text of a source."""
        meta: dict[str, Any] = {}
        target, value, stack, bindings = item[TARGET], item[VALUE], item[STACK], item[BINDINGS]
        if value is not None:
            is_number = type(value) in (float, _core.Dim) and op != "placeholder"
            meta["example_value"] = (
                self._computed(self.symbols, target, args, value)
                if is_number and self.symbols is not None
                else self._example(value)
            )
        if op != "placeholder":
            for frame in stack or ():
                if len(frame) > 2 and frame[2] not in self.modules:
                    self.modules[frame[2]] = source(frame[2])
            modules = self._modules_in(stack)
            if modules:
                meta["nn_module_stack"] = dict(modules)
            meta["source_fn_stack"] = [(name, _source_function(target, modules))]
            meta["stack_trace"] = self._texts.format(stack)
        if bindings is not None:
            meta["unbacked_bindings"] = bindings
        return meta

    # ---- inputs ----

    def _graph_argument(self, position: int) -> Any:
        """What TorchDynamo notes about an input."""
        from torch._dynamo.variables.builder import GraphArg  # FakeTensorMode has imported it long since

        source, value = self.sources[position], self(position, "example_value")
        if (one := self.float_of(self.items[position][INDEX])) is not None:
            tensor = None if self.inputs is None else one.tensor
            return GraphArg(source, tensor, True, value, False, tensor)
        if type(self.items[position][VALUE]) is not _core.Meta:
            return GraphArg(source, value, False, None, False)  # a number
        if self.inputs is None:
            argument = GraphArg(source, None, False, value)
        elif self.inputs[position] is None:  # the tensor that the capture saw is gone
            argument = GraphArg(source, value, False, value, example_strong_ref=value)
        else:
            argument = GraphArg(source, self.inputs[position], False, value)
        return argument


class Shapes:
    """The sizes of the tensors of a graph, by the names of its nodes, as text. It holds nothing of the program.

    Args:
        sizes: pairs of a name and sizes.
        symbols: those that the sizes are in terms of, if they vary.
    """

    def __init__(self, sizes: list[tuple[str, Any]], symbols: list[Any]) -> None:
        self.sizes = sizes
        self.symbols = symbols

    def __str__(self) -> str:
        return str({name: list(map(self._size, sizes)) for name, sizes in self.sizes})

    def _size(self, size: Any) -> int | str:
        if type(size) is _core.Dim:
            from magneto._sizes import evaluate

            size = evaluate(size.tree, self.symbols.__getitem__)
        return size if isinstance(size, int) else repr(size)


def _source_function(target: Any, modules: _Modules) -> Any:
    """What the user called: the operation itself, or the module of torch.nn that it is part of."""
    if modules:
        cls = next(reversed(modules.values()))[1]
        if cls.__module__.startswith("torch.nn."):
            return cls
    return target


_MAKERS: dict[str, Callable[[Recipe, int], Any]] = {
    "stack_trace": Recipe._stack_trace,
    "nn_module_stack": Recipe._module_stack,
    "source_fn_stack": Recipe._source_functions,
    "example_value": Recipe._example_value,
    "grapharg": Recipe._graph_argument,
}


def _note_uses(value: Any, stack: Any, found: dict[int, Any]) -> None:
    """Notes for each node that occurs in a value, and was not met before, where it is used."""
    kind = type(value)
    if kind is _core.Ref:
        found.setdefault(value.index, stack)
    elif kind is dict:
        for item in value.values():
            _note_uses(item, stack, found)
    elif kind is slice:
        _note_uses((value.start, value.stop, value.step), stack, found)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _note_uses(item, stack, found)
