"""The C extension. Private: use the functions of `magneto` instead."""

from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")

checks: bool
"""Whether this build checks the whole interpreter state before each instruction."""

# Kinds of a node: `MgNodeKind` in csrc/ir/node.h.
NODE_INPUT: int
NODE_FUNCTION: int
NODE_METHOD: int

# Kinds of an outcome: `MgOutcomeKind` in csrc/ir/outcome.h.
OUTCOME_KNOWN: int
OUTCOME_DATA_DEPENDENT: int
OUTCOME_UNSUPPORTED: int
OUTCOME_RAISES: int

# Ways to run guards: `MgGuardMode` in csrc/guard/guard.h.
GUARDS_ALL: int
GUARDS_FAST: int
GUARDS_BOTH: int

# What `overrides` returns: `MgOverrides` in csrc/cpython/aside.h.
OVERRIDES_ON: int
OVERRIDES_MODES_ONLY: int
OVERRIDES_OFF: int

# Flags of metadata: `MG_META_...` in csrc/ir/twin.h.
META_REQUIRES_GRAD: int
META_NON_LEAF: int
META_PARAMETER: int
META_CONJUGATE: int
META_NEGATIVE: int
META_LEAF_VIEW: int
META_MULTI_VIEW: int
META_WRAPPER: int

def interpret(func: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call `func`, with every Python frame below it on this thread executed by magneto's interpreter."""

def uninterrupted(func: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call func; signal handlers and exceptions set by other threads wait until it is over."""

def without_collections(func: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call func; garbage is collected again when it is over."""

def sizes(
    symbols: list[tuple[int, int | None, int | None]], questions: list[Any], values: list[list[int]], /
) -> tuple[list[Any], list[str], list[tuple[int, int]], list[int | None]]:
    """Ask the algebra of sizes; for tests."""

def size(symbols: list[tuple[int, int | None, int | None]], expression: Any, /) -> int | Dim:
    """A size as metadata and recorded arguments hold it; for tests."""

def size_symbol(owner: Entry | None, number: int, /) -> tuple[int, int | None, int | None]:
    """Of a symbol of an entry, or of the capture that is under way: its value, and the range that it always has."""

def size_of(owner: Entry | None, tree: Any, /) -> int | Dim | None:
    """The size that a tree over the symbols of the owner says; `None` if that is too hard."""

def decide(owner: Entry | None, relation: str, left: Any, right: Any, /) -> bool | None:
    """Whether a relation between two trees over the symbols of the owner holds; it becomes a guard, unless it follows
    from what is known. `None` if it is too hard."""

def float_value(object: object, /) -> float | None:
    """The value in this call of a float that is another at other calls; `None` for any other object."""

def interpret_all(enable: bool, /) -> bool:
    """Have every Python frame that starts from now on, on any thread, executed by magneto's interpreter, or
    by CPython again. Returns the former setting."""

def count_opcodes(enable: bool, /) -> bool:
    """Switch the counting of executed opcodes on or off. Returns the former setting."""

def opcode_counts() -> list[int]:
    """How often each opcode was executed while counting was on: 256 counts."""

def handled_opcodes() -> frozenset[int]:
    """The opcodes that the interpreter has a handler for."""

def hook_state() -> dict[str, int]:
    """The state of the frame hook: whether it is `installed`, its `users`, and the `frames` it was given."""

def stack_depths(code: CodeType, /) -> list[int]:
    """The stack depth before each unit of a code object, -1 where no path leads."""

def clear_frames(error: BaseException, /) -> None:
    """Empty the frames of torch's and magneto's code in the traceback of an exception."""

def forget_outcomes() -> None:
    """Empty the cache of what operations give for certain metadata."""

def keep_at_fork(lock: Any, /) -> None:
    """Have a thread that forks wait, for ten seconds at most, until it gets this RLock, and let go of it afterwards; if
    it does not get it, it is free in the child."""

class Meta:
    """What is known of a tensor without its data. Equal metadata is one object."""

    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def sizes(self) -> torch.Size: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def flags(self) -> int: ...
    @property
    def fake(self) -> torch.Tensor | None:
        """The FakeTensor, if a size, a stride or the offset is a symbol."""

class Dim:
    """A size that differs from call to call."""

    @property
    def value(self) -> int:
        """What it is in the call that is captured."""

    @property
    def tree(self) -> Any:
        """The expression: an int, the name of a symbol such as `"s0"`, or (operator, tree, tree)."""

class Ref:
    """Stands for a node of a recording, or for an argument of an operation."""

    @property
    def index(self) -> int: ...

class Subgraph:
    """The graph of a function that an operator is given."""

    @property
    def inputs(self) -> list[int]:
        """The nodes that are its inputs: its own, then those of the graphs around it."""

    @property
    def own(self) -> list[int]: ...
    @property
    def metas(self) -> list[Any]:
        """The metadata of its inputs from the graphs around it."""

    @property
    def nodes(self) -> list[tuple[Any, ...]]:
        """Its nodes, as `Entry.describe()` has them; its own inputs come last."""

    @property
    def outputs(self) -> Any:
        """What it returns, with references in place of tensors: a tuple, a list, or only one."""

    @property
    def values(self) -> tuple[Any, ...]:
        """The metadata of what it returns."""

    @property
    def groups(self) -> tuple[int, int, int] | None:
        """How many inputs of the graphs around both of two subgraphs use, only the first, only the second; `None` for
        one that is alone."""

    @property
    def name(self) -> str:
        """That of the attribute which holds it."""

    notes: dict[str, Any] | None
    """For the `meta` of its module."""

    def module(self) -> Any:
        """The GraphModule that runs it; its nodes have no metadata."""

class NodeMeta(dict[str, Any]):
    """The metadata of a node of a `torch.fx.Graph`: a dict whose values are made when they are first read."""

UNMADE: Any
"""What stands in a `NodeMeta` for a value that was not made yet."""

def node_meta(items: dict[str, Any], make: Callable[[int, str], Any], number: int, /) -> NodeMeta:
    """Metadata of a node with these items; for those that are `UNMADE`, `make(number, key)` is called when they are
    first read. It must return the same object each time: copies share it."""

def made(meta: dict[str, Any], /) -> dict[str, Any]:
    """The items of a node's metadata whose values were made already."""

class GraphWriter:
    """Writes nodes into a `torch.fx.Graph`.

    Args:
        graph: the graph.
        illegal: the names that no node gets.
        no_kwargs: the keyword arguments of a node without any.
        check: `torch._check`.
    """

    def __init__(self, graph: Any, illegal: dict[str, Any], no_kwargs: Any, check: Any) -> None: ...
    def node(self, op: str, target: Any, type: Any, meta: dict[str, Any], /) -> Any:
        """A new node without arguments, at the end."""

    def input(
        self,
        name: str,
        type: Any,
        source: Any,
        marks: dict[str, Any],
        make: Callable[[int, str], Any],
        number: int,
        /,
    ) -> Any:
        """The placeholder of a tensor: its metadata has `marks` as `tensor_dict`, all else is made."""

    def output(self, values: tuple[Any, ...], /) -> Any:
        """The last node."""

    def operations(
        self,
        items: list[tuple[Any, ...]],
        start: int,
        stop: int,
        nodes: list[Any],
        names: list[str | None],
        make: Callable[[int, str], Any],
        /,
    ) -> int:
        """Write what `Entry.describe` says of operations, from one position to another. Returns where it stopped:
        there, or at an operation with an argument that must become a node first (a subgraph, the message of a check).

        The nodes go to `nodes`, by their numbers, where those of their arguments are; and the names that come of their
        targets to `names`, by position. `make` makes metadata, given a position and a key.
        """

    def close(self) -> None:
        """Tell the graph how many nodes it has."""

def input_names(source: str, /) -> tuple[str, str | None]:
    """The name of an input by its source, such as `L_self_modules_lin_parameters_weight_`, and its name in the
    state_dict; `None` if it is no parameter or buffer."""

def graph_state(graph: Any, /) -> tuple[Any, ...]:
    """What decides what a `torch.fx.Graph` computes; see `is_same_state`."""

def is_same_state(one: tuple[Any, ...], other: tuple[Any, ...], /) -> bool:
    """Whether a graph was left alone between two calls of `graph_state`."""

class Outcome:
    """What an operation returns and does, worked out from metadata alone; or, as a refusal, why that is not known. A
    position is that of a tensor among the operation's inputs."""

    @property
    def kind(self) -> int:
        """`OUTCOME_KNOWN`, or the kind of a refusal."""

    @property
    def why(self) -> str | None:
        """The text of a refusal."""

    @property
    def result(self) -> Any:
        """The result, with metadata in place of new tensors, and positions (`Ref`) in place of inputs."""

    @property
    def changes(self) -> tuple[tuple[int, Meta], ...]:
        """Positions of the inputs whose metadata has changed, with what it is now."""

    @property
    def views(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a new tensor's number and the position of what it is a view of; -1 if it shares memory otherwise."""

    @property
    def written(self) -> tuple[int, ...]:
        """The positions of the inputs that were written to."""

class Entry:
    """One captured version of a function."""

    @property
    def hits(self) -> int: ...
    @property
    def compiled(self) -> Any: ...
    @property
    def muted(self) -> int: ...
    @property
    def operations(self) -> int: ...
    @property
    def has_symbols(self) -> bool:
        """Whether sizes or numbers vary that the graph gets."""

    @property
    def needs_grad(self) -> bool: ...
    @property
    def symbols(self) -> Any: ...
    @property
    def guard_count(self) -> int: ...
    @property
    def input_count(self) -> int: ...
    @property
    def node_count(self) -> int: ...
    @property
    def codes(self) -> list[CodeType] | None: ...
    compile_id: str | None
    pending: Callable[[Entry, tuple[Any, ...]], Any] | None
    """Called at the next call, with the inputs: gives what was compiled in the background, or None."""

    def profile(self) -> dict[str, int]:
        """Counts, and times in nanoseconds, from the calls while profiling was on."""

    def live_guards(self) -> list[str]:
        """The guards that are checked on every call, as texts; not those on tensors that are found without looking."""

    def guard_figures(self) -> dict[str, int]:
        """What its guards consist of, and how they are run."""

    def guards(self) -> list[str]:
        """The guards as texts."""

    def modules(self) -> dict[int, str]:
        """The sources of the modules that operations were called in, as texts by the numbers that their stacks have."""

    def set_inputs(self, nodes: list[int], /) -> None:
        """Set which of the inputs that it describes the graph takes, and in which order."""

    def input_nodes(self) -> list[int]:
        """The nodes that are the inputs of the graph, in their order."""

    def hold_inputs(self, inputs: tuple[Any, ...] | None, /) -> None:
        """Hold the inputs of a call as when it was captured; None to hold none."""

    def key(self) -> tuple[bytes, tuple[Any, ...], tuple[Any, ...]] | None:
        """What the graph is: bytes that two graphs have in common if a backend can't tell them apart, the objects that
        it mentions, torch's global state. `None` if it can't be told from others."""

    def size_origins(self) -> list[tuple[str, Any, int, int]]:
        """Where the values of the symbols are found at a call: source, what that starts from, kind (0 a size, 1 a
        stride, 2 an int), dimension."""

    def size_guards(self) -> list[tuple[str, Any, Any]]:
        """What was decided on the symbols: relation, tree, tree."""

    def size_places(self) -> list[tuple[CodeType, int] | None]:
        """The lines that asked for what was decided on the symbols: code and offset."""

    def renew_sizes(self) -> None:
        """Have what was decided since it was captured checked too."""

    def describe(self) -> tuple[list[tuple[Any, ...]], list[int], list[Any]]:
        """The graph: its nodes, the numbers of those that it returns, and the tensors that its inputs stood for.

        A node is (number, kind, target, args, kwargs, value, stack, source, name, root, bindings, in_module): `root` is
        what the source starts from, a name or an object; `bindings` says where symbols come first in its value;
        `in_module` is 1 for an input that an nn.Module leads to.
        """

    def questions(self) -> list[tuple[Any, ...]]:
        """The functions that tell settings which its guards ask for, each with its arguments."""

    def keep_apart(self, written: list[bool], groups: list[int], /) -> None:
        """Have it used only if inputs that are written to share storages with those of their own group alone."""

    def source(self, number: int, /) -> str:
        """A source as text."""

class Library:
    """What AOTInductor has made of a graph."""

    def __new__(
        cls,
        content: bytes | memoryview,
        inputs: tuple[int, ...],
        outputs: tuple[tuple[int, ...], ...],
        written: tuple[int, ...],
        /,
    ) -> Library: ...
    def __call__(self, *inputs: Any) -> tuple[Any, ...]: ...

class Compiled:
    """A callable that captures, compiles and runs a function."""

    def __new__(
        cls,
        function: Callable[..., Any],
        compile: Callable[[Entry], Any] | None,
        stopped: Callable[[str, str, str | None, Any, str], Exception | None],
        missed: Callable[..., bool] | None = None,
        limit: int = -1,
        captured: Callable[[Entry, float], None] | None = None,
        fullgraph: bool = False,
        started: Callable[[CodeType, int], None] | None = None,
        ended: Callable[[Entry | None, BaseException | None], None] | None = None,
        filter: Callable[[], Callable[[list[tuple[Any, ...]]], list[bool]] | None] | None = None,
        strict: int = -1,
    ) -> Compiled: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    @property
    def function(self) -> Any: ...
    @property
    def stopped(self) -> Any: ...
    @property
    def captures(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def fullgraph(self) -> bool: ...
    profiling: int
    limit: int
    breaks: int
    forced: int
    plain: int
    is_object: int
    def entries(self) -> list[Entry]:
        """The entries, the one that was used last first."""

    def reset(self) -> None:
        """Forget all entries and failures."""

class Caller:
    """A base of compiled modules: they are called without a dict of keywords."""

    @classmethod
    def _call_straight(cls) -> None:
        """Have instances of this very class called straight."""

class ModuleCall:
    """How a compiled `nn.Module` is called: straight to its forward where there are no hooks."""

    def __new__(
        cls,
        own: Callable[..., Any] | None,
        slow: Callable[..., Any],
        inlined: Callable[..., Any],
        global_hooks: tuple[dict[Any, Any], ...],
        methods: tuple[Any, Any],
    ) -> ModuleCall: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any: ...
    def __set_name__(self, owner: type, name: str, /) -> None: ...
    @property
    def __name__(self) -> str: ...
    @property
    def __signature__(self) -> Any: ...
    @property
    def inlined(self) -> Any: ...

def configure(tables: dict[str, Any], twin_class: type, propagate: Callable[..., Any], /) -> None:
    """Give the core its tables, the class of twins, and the propagation function. Refuse unknown tables."""

def torch_function(func: Any, types: Any, args: Any = ..., kwargs: Any = ..., /) -> Any:
    """Record a torch function that C code calls on twins."""

def meta(
    dtype: torch.dtype, device: torch.device, sizes: Any, strides: Any, flags: int, fake: Any = None, /
) -> Meta:
    """The metadata of a tensor, interned unless it has symbols: then `fake` has them too."""

def ref(index: int, /) -> Ref:
    """A reference to an argument, for the result of a propagation."""

def shape_outcome(
    kind: int,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    inputs: list[tuple[int, Meta]],
    state: tuple[Any, ...],
    symbols: list[tuple[int, int | None, int | None]] = ...,
    /,
) -> Any:
    """What an operation returns, by its shape function; None if it has none for this. With symbols, which are those of
    size(), a pair of that and the guards that it took."""

def outcome(
    result: Any,
    /,
    changes: tuple[tuple[int, Meta], ...] = (),
    views: tuple[tuple[int, int], ...] = (),
    written: tuple[int, ...] = (),
    *,
    input_fakes: list[torch.Tensor] = ...,
    result_fakes: list[torch.Tensor | None] = ...,
    bindings: Any = None,
) -> Outcome:
    """Return what an operation returns and does. With symbols also the FakeTensors of its inputs and new tensors,
    and where new symbols are in the result."""

def refusal(kind: int, why: str, /) -> Outcome:
    """Return an outcome that is not known, and why."""

def subgraph(action: str, /, *args: Any) -> Any:
    """Record a function that an operator is given as a graph of its own; for captured code alone. See `_higher.py`."""

def starve(first: int = 0, last: int = 0, /) -> tuple[int, int, tuple[int, ...], bool]:
    """For tests, in builds with checks: let the allocations `first` to `last` of those that the core makes on this
    thread fail, counted from 1; with -1 the first one at a place where none has failed yet, and those after it up to
    `last`; with 0 none. Returns how many it has made since the last call, the number of the first that failed (0 if
    none did), the addresses where that was, and whether one failed where CPython itself leaks then."""

def overrides() -> int:
    """Return what the program has made of `__torch_function__`: one of `OVERRIDES_...`."""

def capturing() -> bool:
    """Whether a capture is under way on this thread."""

def guard_mode(mode: int, /) -> int:
    """Set how guards are run, one of `GUARDS_...`; with `GUARDS_BOTH` a difference is an error. Return the former."""

def layout_known() -> tuple[bool, bool]:
    """Whether tensors' metadata, and torch's global state, are read from memory."""

def stance(stance: int = -1, /) -> int:
    """Set magneto's own stance, by its number in csrc/policy/stance.h. Returns the one that is in force."""

def set_dynamic(
    static: bool,
    automatic: bool,
    ints: bool,
    floats: bool,
    strict: bool,
    parameters: bool,
    properties: bool,
    module_ints: bool,
    /,
) -> None: ...
def set_adviser(ask: Callable[..., Any] | None, tell: Callable[..., Any] | None, /) -> None: ...
def allow_symbols(scalars: bool, shapes: bool, /) -> tuple[bool, bool]:
    """Have numbers, and sizes, that depend on data become symbols also in captures that are not fullgraph. Returns the
    former setting."""

def reasons() -> dict[str, tuple[str, str]]:
    """Every reason for which capture stops: its name, what it means, what can be done."""

def direct_calls() -> int:
    """For tests: how many operations of graphs were called in libtorch itself."""

def has_changed(module: ModuleType, /) -> bool:
    """Whether the code that this thread captures has changed an attribute of a module."""

def inject_fault(step: int, /) -> int:
    """For tests: abort captures at their `step`-th instruction."""
