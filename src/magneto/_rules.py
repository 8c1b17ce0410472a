"""The tables behind capture: which callables are recorded, run as they are, or looked into.

The core (csrc/policy) decides with them. A callable that no table names is inlined if it is written in Python, unless
`judge` has the functions of its module called whole, or its user has marked it. If it is written in C, it ends the
capture.
Here are also the functions that read torch's global state, and put it back.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import abc
import builtins
import collections
import copyreg
import enum
import functools
import gc
import inspect
import itertools
import operator
import os
import re
import struct
import sys
import sysconfig
import types
import typing
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._C import _TorchDispatchModeKey as TorchDispatchModeKey
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder
from torch.nn import attention
from torch.utils._device import DeviceContext

from magneto import _collectives, _control, _core, _higher, _optimizers, _polyfills, _scripts, _transforms
from magneto._config import config


def _words(text: str) -> list[str]:
    return text.split()


# Rules by name; see csrc/policy/rules.def.
_BUILTINS = {
    "isinstance": "isinstance",
    "issubclass": "issubclass",
    "type": "type",
    "getattr": "getattr",
    "setattr": "setattr",
    "delattr": "delattr",
    "hasattr": "hasattr",
    "len": "len",
    "iter": "iter",
    "next": "next",
    "vars": "vars",
    "callable": "callable",
    "bool": "bool",
    "super": "super",
    "id": "id",
}

_NATIVE_BUILTINS = _words(
    "all any ascii bin chr divmod format hash hex max min oct ord pow repr round sorted"
)

# Functions of the module operator that are recorded when a tensor is among their arguments.
_OPERATORS = _words(
    "abs add and_ floordiv getitem iadd iand ifloordiv ilshift imatmul imod imul invert inv ior ipow irshift isub "
    "itruediv ixor lshift matmul mod mul neg or_ pos pow rshift setitem sub truediv xor lt le eq ne ge gt"
)

# What C code that works with operators, such as sum(), calls on a tensor, and what it is in a graph.
_OPERATOR_METHODS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "matmul": operator.matmul,
    "pow": operator.pow, "remainder": operator.mod, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip

# Attributes of a tensor that follow from its metadata. Others can't be read in a capture, but for those that
# csrc/record/record.c knows.
_TENSOR_ATTRIBUTES = _words(
    "T mT H mH real imag is_leaf layout itemsize nbytes is_cuda is_cpu is_xpu is_mps is_meta is_sparse is_sparse_csr "
    "is_quantized is_mkldnn is_nested is_vulkan is_ipu is_xla is_maia is_mtia is_hpu"
)


def _before_autocast(device: str, *_: Any) -> dict[str, Any]:
    """What autocast's __enter__ notes for its __exit__."""
    return {
        "prev_cache_enabled": torch.is_autocast_cache_enabled(),
        "prev": torch.is_autocast_enabled(device),
        "prev_fastdtype": torch.get_autocast_dtype(device),
    }


def _before_inference_mode(_: bool) -> dict[str, Any]:
    return {}


# Context managers that become two nodes: __enter__ -> (__exit__, what enters, what leaves, arguments of the former,
# what it notes on the manager, its arguments as the graph shows them).
_MANAGERS: dict[
    Any, tuple[Any, Any, Any, tuple[str, ...], Callable[..., dict[str, Any]], Callable[..., Any]]
] = {
    torch.autocast.__enter__: (
        torch.autocast.__exit__,
        torch.amp.autocast_mode._enter_autocast,
        torch.amp.autocast_mode._exit_autocast,
        ("device", "fast_dtype", "_enabled", "_cache_enabled"),
        _before_autocast,
        lambda args: (*args[:3], None if args[3] == torch.is_autocast_cache_enabled() else args[3]),
    ),
    torch.inference_mode.__enter__: (
        torch.inference_mode.__exit__,
        torch.autograd.grad_mode._enter_inference_mode,
        torch.autograd.grad_mode._exit_inference_mode,
        ("mode",),
        _before_inference_mode,
        lambda args: args,
    ),
}

# Functions that change settings: what tells them, the arguments that set what is set now, and for the graph what makes
# an item of the first argument, of which texts.
_SETTERS: dict[Any, tuple[Any, ...]] = {
    attention._sdpa_kernel: (
        tuple(getattr(torch._C, f"_get_{name}_sdp_enabled") for name in attention._backend_names),
        lambda: (attention._cur_sdpa_kernel_backends(), False),
        attention._backend_from_string,
        lambda backends: [backend.name for backend in backends],
    ),
}

_HARMLESS_TYPES: tuple[type, ...] = (
    object, int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice,
    enumerate, zip, map, filter, reversed, property, staticmethod, classmethod, type(None), type(Ellipsis),
    collections.OrderedDict, collections.defaultdict, collections.deque,
    type({}.keys()), type({}.values()), type({}.items()), type(iter({})), type(iter({}.values())),
    type(iter({}.items())), type(iter([])), type(iter(())), type(iter(set())), type(iter(range(0))), type(iter("")),
    type(reversed([])), types.GeneratorType, types.MethodType, types.SimpleNamespace, functools.partial,
    types.GenericAlias, types.UnionType, types.MappingProxyType, operator.attrgetter, operator.itemgetter,
    operator.methodcaller, re.Pattern, re.Match, torch.Size, torch.dtype, torch.device, torch.finfo, torch.iinfo,
    torch.layout, torch.memory_format, attention.SDPBackend,
)  # fmt: skip

_CONSTANT_TYPES: tuple[type, ...] = (
    enum.EnumMeta, types.BuiltinFunctionType, types.GenericAlias, types.UnionType, torch.finfo, torch.iinfo,
    functools.partial, torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator,
    operator.attrgetter, operator.itemgetter, operator.methodcaller,
    torch._ops._OpNamespace, torch._ops._Ops, range, slice, property, types.MappingProxyType,
    weakref.ReferenceType, type(torch._C._VariableFunctions), re.Pattern, re.Match, attention.SDPBackend,
)  # fmt: skip

# Functions of Python code in torch that are one node of the graph, as they are for torch.compile.
_RECORDED_MODULES = (
    "torch.functional", "torch.nn.functional", "torch.nn.grad", "torch._lowrank", "torch._linalg_utils",
    "torch.masked._ops", "torch.signal.windows.windows",
)  # fmt: skip

# Single functions of other modules.
_RECORDED_FUNCTIONS = _words(
    "torch._utils._flatten_dense_tensors torch._utils._unflatten_dense_tensors torch.sparse.sum "
    "torch._C._log_api_usage_once"
)

_NOT_RECORDED = {
    "torch.nn.functional": {
        "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "handle_torch_function",
        "boolean_dispatch", "assert_int_or_pair", "_verify_batch_size", "_list_with_default", "_unwrap_optional",
        "pad", "_mha_shape_check", "_in_projection", "_in_projection_packed", "_canonical_mask", "_none_or_dtype",
        "_fractional_max_pool2d", "_fractional_max_pool3d", "_max_pool1d", "_max_pool2d", "_max_pool3d",
        "_check_unpool_output_size", "_unpool_output_size", "lp_pool3d", "_adaptive_max_pool1d", "_adaptive_max_pool2d",
        "_adaptive_max_pool3d", "_threshold", "_get_softmax_dim", "_no_grad_embedding_renorm_", "_verify_spatial_size",
        "rms_norm", "linear_cross_entropy", "_is_integer", "triplet_margin_with_distance_loss",
        "_check_key_padding_mask", "grouped_mm", "_expand_single_value", "_list_or_empty", "_enum_list_as_int_list",
        "scaled_mm", "scaled_grouped_mm",
    },
    "torch.functional": {
        "broadcast_shapes", "_unique_torch_function", "_unique_consecutive_torch_function",
        "_return_inverse_and_counts", "_consecutive_return_inverse_and_counts",
    },
    "torch._linalg_utils": {"is_sparse", "get_floating_dtype"},
    "torch.signal.windows.windows": {"_add_docstr", "_window_function_checks"},
    "torch.masked._ops": {"_apply_docstring_templates", "_generate_docstring", "_canonical_dim"},
}  # fmt: skip

# Methods of torch.Tensor that need its data, or that change what a graph can't express.
_BROKEN_METHODS = _words(
    "numpy __array__ __bool__ __int__ __float__ __complex__ __index__ __repr__ __str__ __format__ backward "
    "register_hook register_post_accumulate_grad_hook data_ptr storage untyped_storage _typed_storage share_memory_ "
    "is_shared __reduce_ex__ __deepcopy__ __dlpack__ __contains__ retain_grad set_ __setstate__ __dir__ "
    "storage_offset is_pinned is_inference is_set_to _is_view _is_zerotensor is_coalesced dim_order "
    "storage_type const_data_ptr __hash__ _use_count _view_func _view_func_unsafe _rev_view_func_unsafe"
)

# Those of them that need its data.
_VALUE_METHODS = _words(
    "numpy __array__ __bool__ __int__ __float__ __complex__ __index__ __repr__ __str__ __format__ "
    "__contains__ __dlpack__"
)

# Methods that give the data of a tensor as numbers, and the rules for them.
_NUMBER_METHODS = {"item": "item", "tolist": "tolist"}

# Facts about this process, and settings that are part of the state that every entry is guarded by.
_CONSTANT_FUNCTIONS = _words(
    "torch.is_grad_enabled torch.is_inference_mode_enabled torch.get_default_dtype torch.get_default_device "
    "torch.are_deterministic_algorithms_enabled torch.cuda.is_available torch.cuda.device_count "
    "torch.jit.is_scripting torch._jit_internal.is_scripting torch.onnx.is_in_onnx_export "
    "torch.backends.cudnn.is_available torch.backends.mps.is_available torch.distributed.is_available "
    "torch._C._is_torch_function_mode_enabled torch._C._len_torch_function_stack torch.xpu.is_available "
    "torch._C._len_torch_dispatch_stack "
    "torch.promote_types torch.result_type torch.can_cast torch._C._get_privateuse1_backend_name "
    "torch.accelerator.is_available torch.functional.broadcast_shapes torch.broadcast_shapes "
    "torch._C._functorch.peek_interpreter_stack torch._C._functorch.get_unwrapped "
    "torch._C._get_deterministic_algorithms torch.amp.autocast_mode.is_autocast_available "
    "torch._C._is_any_autocast_enabled torch._C._is_torch_function_enabled "
    "torch._C._is_torch_function_all_disabled torch.compiler.is_exporting torch._C._get_accelerator "
    "torch._C._is_autocast_available torch.backends.cudnn.version torch.backends.mkl.is_available "
    "torch.backends.openmp.is_available torch.backends.mkldnn.is_available torch.cpu.is_available "
    "torch.cpu.device_count torch._C._accelerator_getAccelerator "
    "torch._C._get_tracing_state torch._C._is_tracing"  # under a tracer nothing is captured, and no entry is used
)


def _queries() -> dict[Any, str]:
    """C functions that tell a setting of torch's, or of Python's: they are asked again before an entry is used."""
    left_out = (
        "model",
        "_tls",
        "trace",
        "tracing",
        "graph_exec",
        "exception",
        "stack_at",
        "_mode",
        "function",
    )
    found: dict[Any, str] = {}
    for name, value in vars(torch._C).items():
        tells = type(value) is types.BuiltinFunctionType and name.startswith(("_get_", "_is_", "get_", "is_"))
        if tells and not any(part in name for part in left_out):
            found[value] = "query"
    found[_abc.get_cache_token] = "query"
    found[torch._C._autograd._profiler_enabled] = "query"
    found[torch._C._are_functorch_transforms_active] = "query"
    found[torch.autograd._is_checkpoint_valid] = "query"
    found[sys.getrecursionlimit] = "query"
    return found


_OVERRIDE_FUNCTIONS = _words(
    "torch.overrides.has_torch_function torch.overrides.has_torch_function_unary "
    "torch.overrides.has_torch_function_variadic torch._C._has_torch_function torch._C._has_torch_function_unary "
    "torch._C._has_torch_function_variadic"
)

_STATE_FUNCTIONS = ["torch._C._set_grad_enabled"]

_COMPILING_FUNCTIONS = _words(
    "torch.compiler.is_compiling torch.compiler.is_dynamo_compiling torch._utils.is_compiling "
    "torch.nn.modules.activation._is_make_fx_tracing"
)

_OUTPUT_FUNCTIONS = _words("builtins.print builtins.open builtins.input builtins.breakpoint")

_BREAKING_FUNCTIONS = _words(
    "builtins.exec builtins.eval builtins.globals builtins.locals builtins.dir builtins.__import__ builtins.compile "
    "torch.compile torch.nn.Module.compile torch.is_inference torch._is_zerotensor torch.autograd.backward "
    "torch.autograd.grad "
    "torch.random.fork_rng torch._nested_tensor_from_mask_left_aligned torch._add_batch_dim torch._remove_batch_dim "
    # they talk to a reducer in C++, and compute nothing: one break each
    "torch.nn.parallel.DistributedDataParallel._pre_forward torch.nn.parallel.DistributedDataParallel._post_forward"
)

_FOLDED_OF_RE = _words("search match fullmatch compile sub subn split findall escape")

_BREAKING_OF_INSPECT = _words(
    "stack trace currentframe getsource getsourcelines getsourcefile getmodule getframeinfo getouterframes "
    "getinnerframes"
)

# Modules and packages whose functions and classes are called whole, at a break: what they do is no tensor computation,
# and looking into them would only move the break to their innards. What is below them counts too.
_SKIPPED_MODULES = frozenset(_words(
    "logging warnings traceback pdb bdb cmd code codeop importlib _frozen_importlib _frozen_importlib_external "
    "threading _threading_local queue subprocess tempfile shutil socket socketserver selectors ssl asyncio "
    "concurrent multiprocessing signal io _io _pyio os glob pathlib pickle json csv random re "
    "linecache tokenize argparse timeit cProfile profile pstats unittest doctest platform getpass locale textwrap "
    "pprint http urllib email xml html zipfile tarfile gzip bz2 lzma sqlite3 ctypes secrets uuid configparser "
    "optparse smtplib ftplib zoneinfo sched tracemalloc numpy pandas scipy sklearn networkx hypothesis onnx "
    "onnxruntime onnx_tf tensorflow tensorrt tvm xarray tabulate tqdm torch2trt matplotlib seaborn PIL requests "
    "yaml wandb mlflow tensorboard tensorboardX IPython _pytest pytest rich loguru absl colorlog fsspec h5py psutil "
    "torch.random torch.serialization torch.hub torch.jit torch.onnx torch.package torch.multiprocessing "
    "torch._inductor torch._logging torch._lazy torch.export torch._export torch._compile torch.compiler "
    "torch._tensor_str torch.utils.data torch.utils.tensorboard torch.utils.cpp_extension torch.utils.benchmark "
    "torch.utils.bottleneck torch.cuda.random torch._strobelight torch.profiler torch.autograd.profiler "
    "torch.autograd.functional magneto"
))  # fmt: skip

# Modules with transforms of functions, and operators that are given functions.
_TRANSFORMING_MODULES = frozenset(_words("torch._functorch torch._higher_order_ops"))

# Modules inside of those that are looked into all the same.
_INLINED_MODULES = frozenset(_words(
    "importlib._abc magneto._module magneto._collectives magneto._higher magneto._optimizers magneto._polyfills "
    "magneto._transforms "
    "magneto._wrappers "
    "torch.jit._trace "
    "torch._dynamo.external_utils torch._dynamo.polyfills torch._functorch.functional_call torch._functorch.utils "
    "torch._functorch.apis torch._functorch.eager_transforms "
    "torch._functorch.vmap torch._functorch.pyfunctorch torch._higher_order_ops.associative_scan "
    "torch._higher_order_ops.invoke_subgraph "
    "torch._higher_order_ops.map torch._higher_order_ops.scan torch._higher_order_ops.utils "
    "torch._higher_order_ops.while_loop"
))  # fmt: skip


def judge(name: str) -> str:
    """What becomes of calls of functions that a module of this name has: "inline", "skip" or "transform"."""
    free = config.dont_skip_tracing and name.partition(".")[0] != "magneto"
    if name == "torch.nn.attention.flex_attention":
        _name_attention()
    parts = name.split(".")
    prefixes = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    for prefix in prefixes:  # the longest first
        if prefix in _INLINED_MODULES:
            return "inline"
        if not free and (prefix in _SKIPPED_MODULES or prefix in config.skip_modules):
            return "skip"
        if prefix in _TRANSFORMING_MODULES:
            return "transform"
        if prefix == "torch._dynamo":
            _name_dynamo()
            return "inline" if name == "torch._dynamo.mutation_guard" else "skip"  # it wraps Module.__init__
    return "inline"


def _name_dynamo() -> None:
    """Rules for single functions of TorchDynamo's, now that it is loaded."""
    found: dict[Any, str] = {}
    modules = [
        sys.modules.get(f"torch._dynamo.{name}") for name in ("decorators", "utils", "eval_frame", "comptime")
    ]
    decorators, utils, eval_frame, comptime = modules
    if decorators is not None:
        for name in ("graph_break", "skip_frame", "step_unsupported"):
            found[getattr(decorators, name)] = "user_break"
        for function in (
            decorators.mark_static,
            decorators.error_on_graph_break,
            decorators.override_cudagraphs,
        ):
            found[function] = "inline"
        for cls in (
            decorators.ErrorOnGraphBreakDecoratorContextManager,
            decorators.CudagraphOverrideContextManager,
        ):
            found[cls] = "inline"
            found.update(dict.fromkeys(filter(inspect.isfunction, vars(cls).values()), "inline"))
    wrapped = sys.modules.get("torch._dynamo._trace_wrapped_higher_order_op")
    if wrapped is not None:
        found[wrapped.TransformGetItemToIndex] = "polyfill"
        _polyfill_table[wrapped.TransformGetItemToIndex] = _higher.Indexing
    guard = sys.modules.get("torch._dynamo.mutation_guard")
    if guard is not None:  # numbers modules, for TorchDynamo alone
        found[guard.GenerationTracker.tag.__func__] = "constant"
    if utils is not None:
        found[utils._get_error_on_graph_break] = found[utils._set_error_on_graph_break] = "inline"
    if eval_frame is not None:
        methods = vars(eval_frame.OptimizedModule).values()
        found.update(dict.fromkeys(filter(inspect.isfunction, methods), "inline"))
    if comptime is not None:  # code for TorchDynamo's compile time
        functions = [getattr(value, "__func__", value) for value in vars(type(comptime.comptime)).values()]
        found.update(dict.fromkeys(filter(inspect.isfunction, functions), "nothing"))
        found[comptime.comptime.graph_break] = "user_break"
    from magneto import _runtime

    _core.configure({"calls": found}, _runtime.Twin, _runtime.propagate)


def _name_attention() -> None:
    """Rules for functions of flex_attention's, now that it is loaded."""
    module = sys.modules["torch.nn.attention.flex_attention"]
    whole = (module.flex_attention, module.create_mask, module.create_block_mask)
    found = dict.fromkeys(whole, "whole")
    from magneto import _runtime

    _core.configure({"calls": found}, _runtime.Twin, _runtime.propagate)


_POLYFILLS: dict[Any, Callable[..., Any]] = {
    builtins.sum: _polyfills.sum,
    functools.reduce: _polyfills.reduce,
    inspect.unwrap: _polyfills.unwrap,
    operator.call: _polyfills.call,
    torch._C._group_tensors_by_device_and_dtype: _polyfills.group_tensors,
    object.__reduce_ex__: _polyfills.reduce_ex,
    object.__getstate__: _polyfills.getstate,
    torch.profiler.record_function: _polyfills.Unrecorded,
    torch.autograd.Function.apply.__func__: _higher.apply_function,  # type: ignore[attr-defined]
}


_polyfill_table: dict[Any, Callable[..., Any]] = {}  # all of them: the core has it, and it may grow


# Operators that are given functions, and what captured code is led through in place of them.
_GIVEN: dict[Any, Callable[..., Any]] = {
    torch.cond: _higher.cond,
    torch.utils.checkpoint.checkpoint: _higher.checkpoint,
    torch.ops.higher_order.wrap: _higher.wrap,
    torch._functorch.vmap.vmap_impl: _higher.vmap_impl,
    torch._functorch.vmap._flat_vmap: _higher.flat_vmap,
    torch._functorch.eager_transforms.grad_and_value_impl: _transforms.grad_and_value_impl,
    torch._functorch.eager_transforms._vjp_with_argnums: _transforms.vjp_with_argnums,
    torch._functorch.eager_transforms._jvp_with_argnums: _transforms.jvp_with_argnums,
    torch.ops.higher_order.cond: _higher.cond,
    torch.ops.higher_order.while_loop: _higher.while_loop,
    torch.ops.higher_order.map_impl: _higher.map,
    torch.ops.higher_order.scan: _higher.scan,
    torch.ops.higher_order.associative_scan: _higher.associative_scan,
    torch.ops.higher_order.flex_attention: _higher.flex_attention,
    invoke_subgraph_placeholder: _higher.region,
}

# Transforms of functions. Where what they return can't be captured, it is called whole.
_TRANSFORMS: tuple[Any, ...] = (
    torch.vmap, torch.func.grad, torch.func.grad_and_value, torch.func.jacrev, torch.func.jacfwd, torch.func.hessian,
)  # fmt: skip


def take_functional_collectives(module: types.ModuleType) -> None:
    """Adds what the functional collectives of torch.distributed ask about groups, once they are imported."""
    from magneto import _runtime

    _polyfill_table[module._group_or_group_name] = _collectives.group_name
    _core.configure({"calls": {module._group_or_group_name: "polyfill"}}, _runtime.Twin, _runtime.propagate)


# Functions that lead to an operator which is given functions: where that can't be captured, they are called whole.
_WHOLE_FUNCTIONS: tuple[Any, ...] = (
    torch._higher_order_ops.while_loop, torch._higher_order_ops.map, torch._higher_order_ops.scan,
    torch._higher_order_ops.associative_scan, torch.func.vjp, torch.func.jvp,
)  # fmt: skip

# Transforms that are never captured: one break each.
_REFUSED_TRANSFORMS: tuple[Any, ...] = (
    torch.func.linearize,
    torch.func.functionalize,
    torch.func.debug_unwrap,
)


def _resolve(path: str) -> Any:
    """The object at a dotted path, or None. Imports nothing."""
    module: Any = builtins if path.startswith("builtins.") else torch
    for name in path.split(".")[1:]:
        plain = type(module) is types.ModuleType  # of which getattr would import what torch imports lazily
        module = vars(module).get(name) if plain else getattr(module, name, None)
        if module is None:
            return None
    return module


def _named(paths: Iterable[str], rule: str) -> dict[Any, str]:
    found = {}
    for path in paths:
        value = _resolve(path)
        if callable(value):
            found[value] = rule
    return found


def _recorded_functions() -> dict[Any, str]:
    """Python functions of torch that become one node."""
    found: dict[Any, str] = {}
    for name in _RECORDED_MODULES:
        module = _resolve(name)
        for value in vars(module).values():
            left_out = _NOT_RECORDED.get(name, ())
            if inspect.isfunction(value) and value.__module__ == name and value.__name__ not in left_out:
                found[value] = "record"
    found.update(_named(_RECORDED_FUNCTIONS, "record"))
    # max_pool1d and its kin are closures made by boolean_dispatch: one node under the public name
    for value in vars(torch.nn.functional).values():
        if inspect.isfunction(value) and value.__qualname__.startswith("boolean_dispatch.<locals>"):
            found[value] = "record"
    return found


def _inlined_functions() -> list[Any]:
    """Functions of skipped modules that are looked into all the same."""
    manager = _control.error_on_graph_break
    inner = [
        value for value in manager.__call__.__code__.co_consts if inspect.iscode(value)
    ]  # what it returns
    environ = type(os.environ)
    return [
        *inner,
        manager, manager.__init__, manager.__call__, manager.__enter__, manager.__exit__, _control.mark_static,
        torch.jit.annotate, torch.jit._script._unwrap_optional,
        os.getenv, environ.__getitem__, environ.__iter__, environ.__len__, os.environ.encodekey, os.environ.decodevalue,
    ]  # fmt: skip


def _tensor_methods() -> dict[Any, str]:
    """Methods of torch.Tensor that are written in Python: call_method nodes, like the others."""
    found: dict[Any, str] = {}
    for name, value in vars(torch.Tensor).items():
        if inspect.isfunction(value):
            found[value] = _broken_rule(name) if name in _BROKEN_METHODS else "method"
    for name in _BROKEN_METHODS:
        for cls in (torch.Tensor, torch._C.TensorBase):
            value = vars(cls).get(name)
            if value is not None and callable(value):
                found[value] = _broken_rule(name)
    for name, rule in _NUMBER_METHODS.items():
        found[getattr(torch._C.TensorBase, name)] = rule
    return found


def _broken_rule(name: str) -> str:
    return "value" if name in _VALUE_METHODS else "break"


def _autocast() -> Any:
    """All that autocast depends on, or None while it is off."""
    if not torch._C._is_any_autocast_enabled():
        return None
    devices = tuple(
        (name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in ("cpu", "cuda")
    )
    return torch.is_autocast_cache_enabled(), devices


def _set_autocast(state: Any) -> None:
    cache, devices = state or (True, (("cpu", False, None), ("cuda", False, None)))
    torch.set_autocast_cache_enabled(cache)
    for name, enabled, dtype in devices:
        torch.set_autocast_enabled(name, enabled)
        if dtype is not None:
            torch.set_autocast_dtype(name, dtype)


def _function_modes() -> Any:
    """The torch-function modes that are on, such as the one that sets the default device."""
    modes = list(map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack())))
    for index, mode in enumerate(modes):
        if type(mode) is DeviceContext:
            modes[index] = mode.device
    return tuple(modes)


def _pop_modes(count: int) -> None:
    """Leave the dispatch modes that an interrupt has left open: there may be no more than `count`."""
    keys = (TorchDispatchModeKey.FAKE, TorchDispatchModeKey.PROXY, TorchDispatchModeKey.FUNCTIONAL)
    for key in keys:
        if torch._C._len_torch_dispatch_stack() > count:
            torch._C._unset_dispatch_mode(key)
    while torch._C._len_torch_dispatch_stack() > count:
        torch._C._pop_torch_dispatch_stack()


_READERS: list[tuple[Callable[[], Any], Callable[[Any], None] | None]] = [
    (torch.is_grad_enabled, torch._C._set_grad_enabled),
    (torch.is_inference_mode_enabled, None),
    (torch.get_default_dtype, torch.set_default_dtype),
    (_autocast, _set_autocast),
    (torch._C._get_deterministic_algorithms, None),
    (_function_modes, None),
    (torch._C._len_torch_dispatch_stack, _pop_modes),  # so far in the order that shape.c knows
    (_core.overrides, None),
]


# What the core reads in machine words (layout.c): always, or only as long as it has the one value given here. Readers
# that are not named here are asked on every call.
_WORDS: dict[Any, tuple[Any, ...]] = {
    torch.is_grad_enabled: (),
    torch.is_inference_mode_enabled: (),
    torch.get_default_dtype: (),
    _autocast: (None,),
    torch._C._get_deterministic_algorithms: (),
    _core.overrides: (),
    _function_modes: ((),),
    torch._C._len_torch_dispatch_stack: (0,),
}


# What reasons for recompiles call them.
_NAMES: dict[Any, str] = {
    torch.is_grad_enabled: "torch.is_grad_enabled()",
    torch.is_inference_mode_enabled: "torch.is_inference_mode_enabled()",
    torch.get_default_dtype: "torch.get_default_dtype()",
    _autocast: "torch.autocast, by device,",
    torch._C._get_deterministic_algorithms: "torch.are_deterministic_algorithms_enabled()",
    _function_modes: "the modes of __torch_function__, such as the default device,",
    torch._C._len_torch_dispatch_stack: "the number of modes of __torch_dispatch__",
    _core.overrides: "the state of DisableTorchFunction",
}


def _hold_casts(hold: bool) -> None:
    """Keep what autocast has cast while a graph leaves it and it is entered anew."""
    if hold:
        torch.autocast_increment_nesting()
    elif torch.autocast_decrement_nesting() == 0:
        torch.clear_autocast_cache()


def _origins() -> list[tuple[str, int]]:
    """Prefixes of file names, and whose code is there; see the enum MgPlace in csrc/capture/origin.h."""
    user, library, torchs, modules, own = range(5)
    paths = sysconfig.get_paths()
    torch_folder = os.path.dirname(torch.__file__) + os.sep
    return [
        (os.path.join(os.path.dirname(__file__), "_wrappers.py"), user),
        (os.path.dirname(__file__) + os.sep, own),
        (os.path.join(torch_folder, "nn", "modules", ""), modules),
        (torch_folder, torchs),
        *((os.path.join(paths[name], ""), user) for name in ("purelib", "platlib")),
        *((os.path.join(paths["stdlib"], name, ""), user) for name in ("site-packages", "dist-packages")),
        *((os.path.join(paths[name], ""), library) for name in ("stdlib", "platstdlib")),
        ("<frozen ", library),
    ]


def _module_getattr() -> dict[str, Any]:
    """`torch.nn.Module.__getattr__` and its code, unless somebody has put another in its place."""
    function = torch.nn.Module.__getattr__
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != torch.nn.modules.module.__file__:
        return {}
    return {"module_getattr": function, "module_code": code}


def _typing_types() -> set[type]:
    """Classes of what the module typing has and returns: `List`, `Optional[int]`, type variables."""
    final = vars(typing)["_Final"]
    return {value for value in vars(typing).values() if isinstance(value, type) and issubclass(value, final)}


def _numpy_information() -> dict[Any, str]:
    """What tells of numpy's types, if numpy is there: `dtype`, and `iinfo`, which is written in Python."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return {}
    parts = (getattr(value, "fget", value) for value in vars(numpy.iinfo).values())
    inlined = [numpy.iinfo, *filter(inspect.isfunction, parts)]
    return {numpy.dtype: "fold", **dict.fromkeys(inlined, "inline")}


def _numpy_scalars() -> set[type]:
    """Classes of numpy's numbers, if numpy is there."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return set()
    return {
        kind
        for kind in vars(numpy).values()
        if isinstance(kind, type) and issubclass(kind, (numpy.number, numpy.bool_))
    }


def _kinds() -> dict[str, type]:
    """Single types that the core knows by their identity; see csrc/torch/kinds.h."""
    cached = functools.lru_cache(maxsize=1)(lambda: None)
    cached()
    links = [type(held[()]) for held in gc.get_referents(cached) if type(held) is dict and () in held]
    return {
        "partial": functools.partial,
        "lru_cache": type(cached),
        "lru_link": links[0],
        "key_wrapper": type(functools.cmp_to_key(lambda a, b: 0)),
        "attrgetter": operator.attrgetter,
        "itemgetter": operator.itemgetter,
        "methodcaller": operator.methodcaller,
        "tuple_getter": type(vars(collections.namedtuple("_Row", "item"))["item"]),
        "cached_property": functools.cached_property,
        "union_type": types.UnionType,
        "tensor_type": type(torch.FloatTensor),
        "device_context": DeviceContext,
        "qscheme": torch.qscheme,
        "autograd_node": torch._C._functions.AccumulateGrad,  # type: ignore[attr-defined]
    }


def _plain_keys() -> int:
    """The dispatch keys that a plain tensor may have, as bits: others tell of transforms, or of another layout."""
    backends = _words(
        "CPU CUDA HIP XLA MPS MTIA IPU XPU HPU VE Lazy Meta MAIA PrivateUse1 PrivateUse2 PrivateUse3"
    )
    names = [*backends, *(f"Autograd{name}" for name in backends), *(f"Autocast{name}" for name in backends)]
    keys = 0
    wrappers = ("Python", "PythonTLSSnapshot")  # which have classes of their own
    for name in (*names, *wrappers, "ADInplaceOrView", "Conjugate", "Negative"):
        key = getattr(torch._C.DispatchKey, name, None)
        if key is not None:
            keys |= torch._C.DispatchKeySet(key).raw_repr()
    return keys


def tables() -> dict[str, Any]:
    """All tables, for `_core.configure`."""
    calls: dict[Any, str] = {}
    for name, rule in _BUILTINS.items():
        calls[getattr(builtins, name)] = rule
    for name in _NATIVE_BUILTINS:
        calls[getattr(builtins, name)] = "native"
    for name in _OPERATORS:
        calls[getattr(operator, name)] = "operator"
    calls[abs] = "abs"
    calls[torch._C.TensorBase.__getitem__] = "getitem"
    calls[torch._C.TensorBase.__setitem__] = "setitem"
    for enter, (leave, *_) in _MANAGERS.items():
        calls[enter] = "enter"
        calls[leave] = "exit"
    switch: Any = torch._C.DisableTorchFunctionSubclass
    calls[switch] = "native"
    calls[switch.__enter__] = "mute"
    calls[switch.__exit__] = "unmute"
    calls[torch.overrides.handle_torch_function] = "handle"
    calls[torch.Tensor.__torch_function__.__func__] = "torch_function"  # type: ignore[attr-defined]
    calls[torch._C._disabled_torch_function_impl] = "disabled_function"
    calls[torch.Tensor.__new__] = "new_tensor"
    calls[object.__getattribute__] = "object_getattr"
    calls[object.__setattr__] = "object_setattr"
    calls[object.__delattr__] = "object_delattr"
    calls[operator.length_hint] = "native"
    calls[struct.pack] = calls[struct.unpack] = calls[struct.calcsize] = "native"
    calls[sys.exc_info] = calls[sys.exception] = "exc_info"
    calls[os.fspath] = "native"
    calls[types.FunctionType.__get__] = "native"
    calls[type.__subclasses__] = "subclasses"
    calls[copyreg._slotnames] = "constant"  # type: ignore[attr-defined]
    calls[_abc._abc_instancecheck] = "instancecheck"
    calls[_abc._abc_subclasscheck] = "native"
    calls[type.__instancecheck__] = "instancecheck"
    calls[type.__subclasscheck__] = "native"
    calls.update(_recorded_functions())
    calls.update(_tensor_methods())
    calls[torch.Tensor.as_subclass] = "as_subclass"
    calls[torch.Tensor._make_subclass] = "make_subclass"
    calls.update(_queries())
    calls.update(_named(_CONSTANT_FUNCTIONS, "constant"))
    calls.update(dict.fromkeys(_POLYFILLS, "polyfill"))
    calls[_core.subgraph] = "subgraph"
    calls.update(dict.fromkeys(_GIVEN, "given"))
    calls.update(dict.fromkeys(_WHOLE_FUNCTIONS, "whole"))
    calls.update(dict.fromkeys(_TRANSFORMS, "inline"))
    for transform in _TRANSFORMS:
        calls.update((inner, "whole") for inner in transform.__code__.co_consts if inspect.iscode(inner))
    for transform in _REFUSED_TRANSFORMS:
        calls[transform] = "break"
        calls.update((inner, "break") for inner in transform.__code__.co_consts if inspect.iscode(inner))
    calls.update(dict.fromkeys(_optimizers.CAPTURABLE, "stand_in"))
    calls.update(dict.fromkeys(_collectives.COLLECTIVES, "stand_in"))
    calls.update(dict.fromkeys(_collectives.CONSTANTS, "constant"))
    calls.update(dict.fromkeys(_optimizers.REFUSED, "break"))
    calls.update(dict.fromkeys(_optimizers.SCALED, "scaled"))
    calls.update(dict.fromkeys(_optimizers.EACH, "each"))
    calls.update(dict.fromkeys(_optimizers.RATED, "rated"))
    calls[builtins.sum] = "sum"
    calls[builtins.reversed] = "reversed"
    for inner in functools.singledispatch.__code__.co_consts:
        if isinstance(inner, types.CodeType) and inner.co_name == "dispatch":
            calls[inner] = "dispatch"
    calls[_polyfills.is_plain] = "constant"
    calls[_polyfills.give_up] = calls[_polyfills.leave_graph] = "break"
    hooks = torch.autograd.graph.saved_tensors_hooks  # code may look at what they have done
    calls[hooks.__enter__] = calls[hooks.__exit__] = "break"
    calls.update(_named(_STATE_FUNCTIONS, "state"))
    calls.update(_named(_OVERRIDE_FUNCTIONS, "overrides"))
    calls.update(_named(_COMPILING_FUNCTIONS, "is_compiling"))
    calls.update(_named(_BREAKING_FUNCTIONS, "break"))
    calls.update(dict.fromkeys(_SETTERS, "setting"))
    numpy_types = _numpy_scalars()
    numpy_dtypes = {sys.modules["numpy"].dtype} if numpy_types else set()
    limits = {sys.modules["numpy"].finfo} if numpy_types else set()  # it gives one object for each class
    calls.update(dict.fromkeys(limits, "fold"))
    calls.update(_numpy_information())
    for table in (
        _POLYFILLS,
        _GIVEN,
        _optimizers.CAPTURABLE,
        _optimizers.SCALED,
        _optimizers.EACH,
        _optimizers.RATED,
        _collectives.COLLECTIVES,
    ):
        _polyfill_table.update(table)
    calls.update(_named(_OUTPUT_FUNCTIONS, "output"))
    calls.update((getattr(re, name), "fold") for name in _FOLDED_OF_RE)
    calls.update((getattr(inspect, name), "break") for name in _BREAKING_OF_INSPECT)
    calls.update((function, "inline") for function in _inlined_functions())
    calls.update({torch.device.__enter__: "break", torch.device.__exit__: "break"})
    harmless = set(_HARMLESS_TYPES)
    harmless.update(value for value in vars(itertools).values() if isinstance(value, type))
    harmless.update(numpy_types)
    harmless.update(base for cls in numpy_types for base in cls.__mro__)
    harmless.update(value for value in vars(torch.return_types).values() if isinstance(value, type))
    return {
        "calls": calls,
        "harmless_types": harmless,
        "constant_types": {
            *_CONSTANT_TYPES, *_collectives.GROUP_TYPES, *_typing_types(), *limits, *map(type, numpy_dtypes),
        },
        "value_types": numpy_types,
        "arithmetic": {sys.modules["numpy"].ufunc} if numpy_types else set(),
        "kept_types": {re.Pattern, re.Match},
        "tensor_types": {torch.nn.Buffer},
        "graph_types": {range},
        "record_types": {torch._ops.OpOverload, torch._ops.OpOverloadPacket, type(torch.FloatTensor)},
        "record_owners": {
            type(torch._C._VariableFunctions), torch._C._VariableFunctions,
            *(getattr(torch._C, name) for name in ("_nn", "_linalg", "_fft", "_special")),
        },
        "owner_names": {"torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special"},
        "native_modules": {
            "math", "cmath", "_operator", "_functools", "itertools", "_collections", "_bisect", "_heapq",
        },
        "state_readers": [read for read, _ in _READERS],
        "state_names": [_NAMES[read] for read, _ in _READERS],
        "state_words": [_WORDS.get(read) for read, _ in _READERS],
        "state_writers": [write for _, write in _READERS],
        "hold_casts": _hold_casts,
        "managers": {enter: parts[1:] for enter, parts in _MANAGERS.items()},
        "setters": _SETTERS,
        "polyfills": _polyfill_table,
        "scripted": torch.jit.ScriptFunction,
        "is_as_written": _scripts.is_as_written,
        "stand_ins": {
            int: torch.int64, float: torch.float64, bool: torch.bool, complex: torch.complex128,
            **{cls: cls.__module__ + "." + cls.__name__ for cls in torch._tensor_classes},
        },
        "iterator_types": {
            itertools.chain, itertools.combinations, itertools.combinations_with_replacement, itertools.compress,
            itertools.count, itertools.cycle, itertools.dropwhile, itertools.filterfalse, itertools.islice,
            itertools.permutations, itertools.product, itertools.repeat, itertools.starmap, itertools.takewhile,
            itertools.zip_longest,
        },
        "kinds": _kinds(),
        "plain_keys": _plain_keys(),
        "abc_check": abc.ABCMeta.__instancecheck__,
        "no_override": torch._C._disabled_torch_function_impl,
        "module": torch.nn.Module,
        **_module_getattr(),
        "prepared": _optimizers.PREPARED,
        "call_code": getattr(torch.nn.Module._call_impl, "__code__", None),
        "apart": {copyreg._slotnames},  # type: ignore[attr-defined]
        "operator_abs": operator.abs,
        "operators": _OPERATOR_METHODS,
        "attributes": set(_TENSOR_ATTRIBUTES),
        "origins": _origins(),
    }  # fmt: skip
