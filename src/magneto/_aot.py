"""Graphs that AOTInductor compiles: libraries that the core calls, and that the cache on disk keeps for other
processes.

A new process captures, which takes milliseconds, tells what the graph is (`Entry.key`), and finds the library under
that key: neither `torch._dynamo` nor `torch._inductor` is imported. Guards are always those of the process itself.

Only graphs without gradients on the CPU. AOTAutograd makes the graph that is compiled, and tells what has to be done
around it; what the core does not do there (`Refused`), and what AOTInductor can't compile, is left to inductor's JIT.
That is noted in the cache, so that it is not tried again by each process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from magneto import _background, _config, _core, _diskcache, _logs, _shared

log = logging.getLogger("magneto")

FORMAT = 1
"""To be raised when other libraries are made of the same graphs, or when headers have other fields."""

_VARIABLES = (
    "TORCHINDUCTOR_",
    "AOT_INDUCTOR_",
    "INDUCTOR_",
    "TORCH_LOGS_INDUCTOR",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
)
_HARMLESS = ("_CACHE_DIR", "_CACHE", "_COMPILE_THREADS", "_WORKER_START", "_WORKER_LOGPATH")
_CONFIGS = ("torch._inductor.config", "torch._functorch.config")
_NEW, _INPUT, _VIEW = range(3)


class Refused(Exception):
    """The graph is not for AOTInductor."""


# ---- the key ----


@functools.cache
def machine() -> str:
    """The processor, as far as code that is made for it depends on it."""
    lines = []
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if not line.strip():
                break
            if line.startswith(("vendor_id", "cpu family", "model", "flags", "Features", "CPU part")):
                lines.append(line.strip())
    return "\n".join([platform.machine(), torch.backends.cpu.get_cpu_capability(), *lines])


def _variables() -> list[tuple[str, str]]:
    """What the environment says to inductor and to compilers."""
    return sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(_VARIABLES) and not name.endswith(_HARMLESS)
    )


def _changes(name: str) -> list[tuple[str, str]] | None:
    """Which settings were changed, if they are loaded at all; None if one can't be told by its text."""
    module = sys.modules.get(name)
    found = []
    for key, entry in {} if module is None else module._config.items():
        value = entry.user_override.get()
        default = entry.default
        if key in module._compile_ignored_keys or isinstance(value, type):  # type: ignore[union-attr]
            continue
        if type(value) is object or value == default:  # it is not set
            continue
        if not _shared.is_plain(value):
            return None
        found.append((key, repr(value)))
    return sorted(found)


def _name(value: Any) -> str | None:
    """What an object of torch's or Python's is called in each process; None if that is not known."""
    if isinstance(value, torch._ops.OpOverload):
        return f"operator {value}"
    if isinstance(value, torch._ops.OpOverloadPacket):
        return f"operators {value._qualified_op_name}"
    name = getattr(value, "__qualname__", None)
    owner = getattr(value, "__module__", None) or getattr(
        getattr(value, "__objclass__", None), "__qualname__", None
    )
    if not isinstance(name, str) or not isinstance(owner, str) or "<" in name:
        return None
    return f"{type(value).__name__} {owner}.{name}"


def key_of(ticket: _shared.Ticket) -> str | None:
    """The name of a graph in the cache; None if it has none that is the same in each process."""
    names = [_name(value) for value in ticket.mentions]
    changes = [_changes(name) for name in _CONFIGS]
    if not ticket.is_own or None in names or None in changes:
        return None
    said = (
        FORMAT, sys.modules["magneto"].__version__, torch.__version__, torch.version.git_version, machine(),
        ticket.maker.name, names,
        [read() for read in _shared._FLAGS], changes, _variables(),
    )  # fmt: skip
    return hashlib.sha256(ticket.digest + repr(said).encode()).hexdigest()


# ---- what is found ----


def _tree(value: Any) -> Any:
    """An expression as it was before it went through JSON."""
    return tuple(map(_tree, value)) if isinstance(value, list) else value


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


class Attempt:
    """The graph of a new entry, as AOTInductor may compile it."""

    def __init__(
        self, key: str, ticket: _shared.Ticket, name: str, operations: int, options: dict[str, Any]
    ) -> None:
        self.key = key
        self.ticket = ticket
        self.options = options
        self.header: dict[str, Any] = {"name": name, "operations": operations, "torch": torch.__version__}
        self.refusal: Refused | None = None
        self.content = b""
        self.files: list[Any] = []

    # ---- the cache ----

    def find(self, entry: _core.Entry) -> Any:
        """What another process has compiled, for this entry; None if there is nothing; raises `Refused`."""
        found = _diskcache.find(self.key)
        if found is None:
            return None
        header, content = found
        if "refused" in header:
            raise Refused(header["refused"])
        try:
            library = _core.Library(
                content,
                tuple(header["inputs"]),
                tuple(map(tuple, header["outputs"])),
                tuple(header["written"]),
            )
            decisions = [(one[0], _tree(one[1]), _tree(one[2])) for one in header["decisions"]]
            apart = header["apart"]
            made = self.ticket.keep(
                library, None, header["order"], None if apart is None else (apart[0], apart[1]), decisions
            )
            given = None if made is None else made.give(entry, self.ticket)
        except Exception as error:
            _logs.say(
                log,
                logging.WARNING,
                "a graph of the cache can't be used, and is compiled anew: %s",
                _told(error),
            )
            return None
        if given is not None:
            _logs.say(log, logging.INFO, "the graph of %s was found in the cache", self.header["name"])
        return given

    def keep(
        self, order: list[int] | None, apart: Any, decisions: list[tuple[str, Any, Any]], has_check: bool
    ) -> None:
        """Put what was compiled into the cache; not if more is asked of its inputs than the cache can say."""
        if not has_check:
            self.header.update(order=order, apart=apart, decisions=decisions)
            _diskcache.keep(self.key, self.header, self.content)

    def refuse(self, error: BaseException) -> None:
        """Note that the graph is for inductor's JIT, which could compile it."""
        reason = error if self.refusal is None else self.refusal
        text = str(reason) if isinstance(reason, Refused) else _told(reason)
        where = self.header["name"]
        _logs.say(log, logging.INFO, "the graph of %s is left to inductor's own cache: %s", where, text)
        if not self.content:  # else it was compiled, and could only not be loaded
            _diskcache.keep(self.key, {**self.header, "refused": text}, b"")

    # ---- the backend ----

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Any:
        """Compile a graph, as a backend does."""
        from torch._functorch import config as functorch
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx
        from torch._inductor.virtualized import V

        _check_inputs(inputs)
        module, tensors, positions = _without_symbols(module, inputs)
        with (
            V.set_aot_compilation(True),
            config.patch(
                {"enable_autograd_for_aot": True, "fx_graph_cache": False, "aot_inductor.metadata": {}}
            ),  # it writes to the last
            functorch.patch(enable_autograd_cache=False),
        ):
            compile_fx(
                module,
                tensors,
                inner_compile=self._inner,
                config_patches={**self.options, "cpp_wrapper": True},
            )
        if len(self.files) != 1 or not isinstance(self.files[0], str):
            raise self._refused("AOTInductor did not give one library")
        content = _stripped(self.files[0])
        if b"aoti_torch_proxy_executor_call_function" in content:
            raise self._refused("an operation has no kernel that a library can call")
        self.header["inputs"] = positions
        self.header["outputs"] = [[kind, positions[index]] for kind, index in self.header["outputs"]]
        self.header["written"] = [positions[index] for index in self.header["written"]]
        outputs = tuple(map(tuple, self.header["outputs"]))
        self.content = content
        return _core.Library(self.content, tuple(positions), outputs, tuple(self.header["written"]))

    def _refused(self, reason: str) -> Refused:
        self.refusal = Refused(reason)
        return self.refusal

    def _inner(self, module: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        """Inductor's own part: the graph that AOTAutograd has made."""
        from torch._inductor.compile_fx import compile_fx_inner

        metadata = torch._guards.TracingContext.get().fw_metadata
        if not kwargs.get("is_inference") or metadata is None:
            raise self._refused("gradients flow through it")
        outputs, written = self._plan(metadata)
        self.header.update(outputs=outputs, written=written)
        compiled = compile_fx_inner(module, inputs, **kwargs)
        self.files.append(getattr(compiled, "filename", None))
        return compiled

    def _plan(self, metadata: Any) -> tuple[list[tuple[int, int]], list[int]]:
        """What the core has to do with the outputs, and which inputs are written to."""
        from torch._functorch._aot_autograd.schemas import MutationType, OutputType

        if (
            metadata.num_intermediate_bases
            or metadata.tokens
            or metadata.grad_enabled_mutation is not None
            or getattr(metadata, "is_rng_op_functionalized", False)
        ):
            raise self._refused("more has to be done around the graph than to call it")
        if torch._guards.TracingContext.get().guards_context.aotautograd_guards:
            raise self._refused("inputs share memory")
        written = []
        for index, info in enumerate(metadata.input_info):
            if info.mutation_type is MutationType.MUTATED_IN_GRAPH and not info.mutates_metadata:
                written.append(index)
            elif info.mutation_type is not MutationType.NOT_MUTATED:
                raise self._refused("an input is changed in a way that only Python code can follow")
        outputs = []
        for info in metadata.output_info:
            if info.output_type in (OutputType.non_alias, OutputType.unsafe_view_alias):
                outputs.append((_NEW, 0))
            elif info.output_type is OutputType.is_input:
                outputs.append((_INPUT, int(info.base_idx)))
            elif info.output_type is OutputType.alias_of_input:
                outputs.append((_VIEW, int(info.base_idx)))
            else:
                raise self._refused("an output is a view of what is not an input")
            if not issubclass(info.raw_type, torch.Tensor):
                raise self._refused("an output is no tensor")
        return outputs, written


def attempt(backend: Any, ticket: _shared.Ticket | None, name: str, entry: _core.Entry) -> Attempt | None:
    """How AOTInductor compiles the graph of an entry, if it may and was asked to."""
    asked = getattr(backend, "aot", False)
    asked = _config.get("aot") or _background.is_asked(backend) if asked is None else asked
    if ticket is None or not asked:
        return None
    if torch._C._is_any_autocast_enabled() or (torch.is_grad_enabled() and entry.needs_grad):
        return None
    key = key_of(ticket)
    return None if key is None else Attempt(key, ticket, name, entry.operations, backend.config)


def _check_inputs(inputs: list[Any]) -> None:
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if any(value.device.type != "cpu" or value.layout is not torch.strided for value in tensors):
        raise Refused("an input is not in the memory of the CPU")
    if not tensors:
        raise Refused("it has no tensors as inputs")


def _without_symbols(
    module: fx.GraphModule, inputs: list[Any]
) -> tuple[fx.GraphModule, list[Any], list[int]]:
    """The graph with sizes of inputs in place of inputs that are sizes; its inputs, and which of all they are."""
    positions = [index for index, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    if len(positions) == len(inputs):
        return module, inputs, positions
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    output = graph.graph_copy(module.graph, copies)
    olds = list(module.graph.find_nodes(op="placeholder"))
    for old in olds:
        copies[old]._dynamo_source = old._dynamo_source
    sizes: dict[Any, tuple[fx.Node, int]] = {}
    for index in positions:
        for dim, size in enumerate(olds[index].meta["example_value"].shape):
            if isinstance(size, torch.SymInt):
                sizes.setdefault(size.node.expr, (copies[olds[index]], dim))
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for index, old in enumerate(olds):
        if index in positions:
            continue
        example, node = old.meta["example_value"], copies[old]
        if node.users:
            found = sizes.get(example.node.expr) if isinstance(example, torch.SymInt) else None
            if found is None:
                raise Refused("an input is a number")
            with graph.inserting_after(last):
                size = graph.call_function(torch.ops.aten.sym_size.int, found)
            size.meta["example_value"] = example
            node.replace_all_uses_with(size)
    for index, old in enumerate(olds):
        if index not in positions:
            graph.erase_node(copies[old])
    graph.output(output)
    return fx.GraphModule(module, graph), [inputs[index] for index in positions], positions


def _stripped(path: str) -> bytes:
    """The content of a library, without what only debuggers read."""
    tool = shutil.which("strip")
    if tool is not None:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.suppress(OSError, subprocess.SubprocessError),
        ):
            target = os.path.join(folder, "library")
            subprocess.run([tool, "-o", target, path], check=True, capture_output=True, timeout=60)
            with open(target, "rb") as file:
                return file.read()
    with open(path, "rb") as file:
        return file.read()
