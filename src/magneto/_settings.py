"""The settings of `torch._dynamo.config` and `torch.compiler.config`, and what each is to magneto.

`docs/settings.md` is made from these tables, by `python -c 'from magneto import _settings; _settings.write()'` in the
source tree. A test goes over the names of the installed torch both ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

HONOURED = "honoured"
TORCH = "read by torch"  # by code of torch's that runs under magneto too
NOTHING = "nothing to say"
LATER = "not yet"


class Setting(NamedTuple):
    """One name of torch's configuration."""

    default: Any
    status: str
    text: str
    """What it does; or why it has nothing to say; or what it belongs to."""
    variable: str = ""
    """The environment variable that it is read from."""
    read: Callable[[str], Any] = lambda text: text == "1"


def _is_given(text: str) -> bool:
    return bool(text)


_SHAPES = "dynamic shapes"
_SUBGRAPHS = "subgraphs"
_TRAINING = "captured backward passes"
_SAVED = "saving what was compiled"
_REMOVED = "torch itself does not read it any more"
_EXPORT = "only torch.export asks for it"
_GUARD_SPEED = "a short cut of TorchDynamo's guards; magneto's fast path checks all guards and needs none"
_REPRO = "torch's minifier, which `repro_after` switches on"

SETTINGS: dict[str, Setting] = {
    # what is captured again
    "recompile_limit": Setting(8, HONOURED, "how many entries a compiled callable, or a resume point, may have"),
    "accumulated_recompile_limit": Setting(256, HONOURED, "the same limit again; the smaller one counts"),
    "fail_on_recompile_limit_hit": Setting(False, HONOURED, "raise at the limit"),
    "error_on_recompile": Setting(False, HONOURED, "raise where a second entry would be made"),
    "skip_code_recursive_on_recompile_limit_hit": Setting(True, NOTHING, _REMOVED),
    # whether and how
    "disable": Setting(
        False, HONOURED, "nothing more is captured: calls that fit no entry run in CPython", "TORCH_COMPILE_DISABLE"
    ),
    "suppress_errors": Setting(
        False, HONOURED, "if the backend fails, its graph runs without it", "TORCHDYNAMO_SUPPRESS_ERRORS", _is_given
    ),
    "verbose": Setting(
        False, HONOURED, "log each break and recompile with the whole stack, as warnings", "TORCHDYNAMO_VERBOSE"
    ),
    "dont_skip_tracing": Setting(
        False, HONOURED, "look into the modules that are else called whole (`logging`, `re`, `skip_modules`, ...)"
    ),
    "capture_scalar_outputs": Setting(
        False, HONOURED, "capture `x.item()` and the like; with `fullgraph` that is always done",
        "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",
    ),
    "capture_dynamic_output_shape_ops": Setting(
        False, HONOURED, "capture `nonzero()` and the like; with `fullgraph` that is always done",
        "TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS",
    ),
    "ignore_logging_functions": Setting(set(), HONOURED, "functions whose calls captured code leaves out"),
    "reorderable_logging_functions": Setting(
        set(), NOTHING, "a call that prints is a break, and prints where eager does; the graphs around it are captured"
    ),
    "error_on_nested_fx_trace": Setting(
        True, HONOURED, "raise if a compiled callable is called while FX traces symbolically; else run in CPython"
    ),
    "force_compile_during_fx_trace": Setting(False, HONOURED, "capture even then"),
    "guard_nn_modules": Setting(
        True, HONOURED, "False drops the guards on what is reached through an `nn.Module`; as unsafe as in torch"
    ),
    "side_effect_replay_policy": Setting(
        "info", LATER, "reports of what entries write to"
    ),
    # the backend
    "verify_correctness": Setting(
        False, HONOURED, "compare what the backend made with the graph, once, on the example inputs"
    ),
    "repro_after": Setting(
        None, HONOURED, 'the backend runs under torch\'s minifier, after "dynamo" or "aot"',
        "TORCHDYNAMO_REPRO_AFTER", str,
    ),
    "repro_level": Setting(2, TORCH, _REPRO, "TORCHDYNAMO_REPRO_LEVEL", int),
    "repro_forward_only": Setting(False, TORCH, _REPRO, "TORCHDYNAMO_REPRO_FORWARD_ONLY"),
    "repro_tolerance": Setting(1e-3, TORCH, _REPRO),
    "repro_ignore_non_fp": Setting(False, TORCH, _REPRO, "TORCHDYNAMO_REPRO_IGNORE_NON_FP"),
    "same_two_models_use_fp64": Setting(True, TORCH, _REPRO),
    "debug_dir_root": Setting(
        None, TORCH, "where the minifier and inductor write to", "TORCH_COMPILE_DEBUG_DIR",
        lambda text: os.path.join(text, "torch_compile_debug"),
    ),
    "debug_backend_override": Setting(
        "", HONOURED, 'another backend for some graphs, as in ">10:eager"', "TORCH_COMPILE_OVERRIDE_BACKENDS", str
    ),
    "debug_inductor_config_override": Setting(
        "", HONOURED, "another configuration of inductor for some graphs",
        "TORCH_COMPILE_OVERRIDE_INDUCTOR_CONFIGS", str,
    ),
    "debug_dynamo_config_override": Setting(
        "", HONOURED, 'other settings for some captures, as in ">10:verbose=True"',
        "TORCH_COMPILE_OVERRIDE_DYNAMO_CONFIGS", str,
    ),
    "use_lazy_graph_module": Setting(
        True, HONOURED, "the code of a `GraphModule` is made when it is first run",
        "TORCH_COMPILE_USE_LAZY_GRAPH_MODULE",
    ),
    "invalidate_compile_context_weakrefs": Setting(
        None, HONOURED, "False keeps weak references to inputs after a compilation; else they go, whatever the backend"
    ),
    "run_gc_after_compile": Setting(
        True, NOTHING, "a capture leaves no garbage in cycles; Python's collector sees to that of backends",
        "TORCH_DYNAMO_RUN_GC_AFTER_COMPILE",
    ),
    "raise_on_unsafe_aot_autograd": Setting(False, TORCH, "AOTAutograd asks for it"),
    "fake_tensor_cache_enabled": Setting(
        True, TORCH, "`FakeTensorMode` asks for it", "TORCH_FAKE_TENSOR_DISPATCH_CACHE"
    ),
    "fake_tensor_cache_crosscheck_enabled": Setting(
        False, TORCH, "`FakeTensorMode` asks for it", "TORCH_FAKE_TENSOR_DISPATCH_CACHE_CROSSCHECK"
    ),
    "fake_tensor_disable_inference_mode": Setting(
        True, NOTHING, "what operations return is worked out by shape functions, in whatever mode is on"
    ),
    "cudagraph_backend_keep_input_mutation": Setting(False, TORCH, "the backend `cudagraphs` asks for it"),
    "cudagraph_backend_support_input_mutation": Setting(False, TORCH, "the backend `cudagraphs` asks for it"),
    "debug_disable_compile_counter": Setting(False, TORCH, "`torch._dynamo.testing.CompileCounter` asks for it"),
    "prepare_freezing": Setting(
        False, HONOURED, "graphs hold the tensors of modules, as with inductor's `freezing`",
        "TORCHDYNAMO_PREPARE_FREEZING",
    ),
    "optimize_ddp": Setting(
        True, HONOURED, "graphs inside DistributedDataParallel are cut by its buckets, if True or `ddp_optimizer`"
    ),
    "only_allow_pt2_compliant_ops": Setting(False, LATER, "operators that say what they support"),
    # logs and records
    "log_file_name": Setting(None, TORCH, "the handlers of torch's loggers, which magneto's records go to"),
    "cprofile": Setting(
        False, HONOURED, "a profile of each compilation in a file, in which the capture is one row",
        "TORCH_COMPILE_CPROFILE", lambda text: text or False,
    ),
    "log_compilation_metrics": Setting(True, TORCH, "whether its records of compilations go to those who listen"),
    "record_runtime_overhead": Setting(True, NOTHING, "there is no bytecode before a graph that could be timed"),
    "pt2_compile_id_prefix": Setting(
        None, TORCH, "a prefix of compile ids in its chromium events", "PT2_COMPILE_ID_PREFIX", str
    ),
    "dynamo_profiler": Setting(
        False, LATER, "the time of a capture by function; `cprofile` has it as one row",
        "TORCH_COMPILE_DYNAMO_PROFILER", lambda text: text or False,
    ),
    "record_compile_time_instruction_count": Setting(False, NOTHING, "a benchmark of TorchDynamo's own"),
    "log_graph_in_out_metadata": Setting(False, NOTHING, _EXPORT),
    "replay_record_enabled": Setting(
        False, NOTHING, "replays TorchDynamo's own interpreter", "TORCH_COMPILE_REPLAY_RECORD"
    ),
    "generate_pycode": Setting(False, NOTHING, "there is no bytecode that is generated"),
    "report_guard_failures": Setting(True, NOTHING, _REMOVED),
    # shapes
    "assume_static_by_default": Setting(True, HONOURED, "which sizes become symbols"),
    "automatic_dynamic_shapes": Setting(
        True, HONOURED, "which sizes become symbols", "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES"
    ),
    "automatic_dynamic_shapes_mark_as": Setting("dynamic", NOTHING, "there is one kind of symbols for what varies"),
    "automatic_dynamic_exclusion_guard": Setting(False, LATER, _SHAPES),
    "automatic_dynamic_local_pgo": Setting(
        True, HONOURED, "under a job id, what varied is written to inductor's cache folder, and read there",
        "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO",
    ),
    "automatic_dynamic_remote_pgo": Setting(
        None, HONOURED, "the same with torch's cache on another machine", "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO"
    ),
    "enable_compiler_collectives": Setting(False, LATER, _SHAPES, "TORCH_COMPILER_COLLECTIVES"),
    "specialize_int": Setting(False, HONOURED, "which sizes become symbols"),
    "specialize_float": Setting(False, HONOURED, "which sizes become symbols"),
    "allow_unspec_int_on_nn_module": Setting(False, HONOURED, "whether ints that modules hold may vary"),
    "force_parameter_static_shapes": Setting(True, HONOURED, "whether sizes of parameters and buffers are constants"),
    "force_nn_module_property_static_shapes": Setting(
        True, HONOURED, "whether sizes of what torch's own modules hold are constants"
    ),
    "force_unspec_int_unbacked_size_like_on_torchrec_kjt": Setting(False, LATER, _SHAPES),
    "allow_ignore_mark_dynamic": Setting(False, HONOURED, "which sizes become symbols"),
    "prefer_deferred_runtime_asserts_over_guards": Setting(False, LATER, _SHAPES),
    "do_not_emit_runtime_asserts": Setting(
        False, HONOURED, "backends get no checks of values that depend on data",
        "TORCH_DYNAMO_DO_NOT_EMIT_RUNTIME_ASSERTS",
    ),
    "enable_cpp_symbolic_shape_guards": Setting(False, NOTHING, "guards on sizes are always a program in C"),
    "_shapes_spec": Setting(None, NOTHING, "what torch.compile notes of its argument"),
    "dynamic_shapes": Setting(True, NOTHING, _REMOVED),
    # guards
    "skip_nnmodule_hook_guards": Setting(True, NOTHING, "hooks are guarded: it costs a word, and is right"),
    "skip_no_tensor_aliasing_guards_on_parameters": Setting(True, NOTHING, _GUARD_SPEED),
    "skip_tensor_guards_with_matching_dict_tags": Setting(True, NOTHING, _GUARD_SPEED),
    "skip_guards_on_constant_func_defaults": Setting(False, NOTHING, _GUARD_SPEED),
    "skip_fsdp_guards": Setting(True, NOTHING, _GUARD_SPEED),
    "_unsafe_skip_fsdp_module_guards": Setting(False, NOTHING, _GUARD_SPEED, "UNSAFE_SKIP_FSDP_MODULE_GUARDS"),
    "assume_dunder_attributes_remain_unchanged": Setting(True, NOTHING, _GUARD_SPEED),
    "guard_nn_modules_using_dict_tags": Setting(True, NOTHING, _GUARD_SPEED),
    "use_recursive_dict_tags_for_guards": Setting(False, NOTHING, _GUARD_SPEED),
    "max_saved_pointers_for_recursive_dict_tags_check": Setting(256, NOTHING, _GUARD_SPEED),
    "use_lamba_guard_for_object_aliasing": Setting(True, NOTHING, _GUARD_SPEED),
    "enable_cpp_guard_manager": Setting(True, NOTHING, _REMOVED),
    "enable_cpp_framelocals_guard_eval": Setting(True, NOTHING, _REMOVED),
    # what TorchDynamo can trace
    "nested_graph_breaks": Setting(False, NOTHING, "frames at any depth go on after a break, always"),
    "enable_trace_contextlib": Setting(True, NOTHING, "context managers are captured as any code is"),
    "enable_trace_unittest": Setting(False, NOTHING, "`unittest` is called whole; `dont_skip_tracing` looks into it"),
    "enable_trace_load_build_class": Setting(False, NOTHING, "classes that captured code makes are real ones"),
    "enable_faithful_generator_behavior": Setting(True, NOTHING, "generators are real ones, always"),
    "inline_inbuilt_nn_modules": Setting(True, NOTHING, _REMOVED),
    "wrap_top_frame": Setting(False, NOTHING, "hooks of a compiled module are captured with it, always"),
    "rewrite_assert_with_torch_assert": Setting(
        True, NOTHING,
        "an `assert` on a tensor is what eager makes of it: a break, or with `fullgraph` a check of the graph",
    ),
    "allow_rnn": Setting(False, NOTHING, "recurrent layers are captured, always"),
    "allow_empty_graphs": Setting(False, NOTHING, "an entry without operations needs no backend, and is kept"),
    "capture_profiler_record_function": Setting(False, LATER, "regions of the profiler as nodes of the graph"),
    "constant_fold_autograd_profiler_enabled": Setting(False, NOTHING, "whether a profiler is on is guarded"),
    "capture_sparse_compute": Setting(True, LATER, "tensors whose layout is not strided"),
    "trace_numpy": Setting(True, LATER, "numpy as operations of torch"),
    "numpy_default_float": Setting("float64", LATER, "numpy as operations of torch"),
    "numpy_default_complex": Setting("complex128", LATER, "numpy as operations of torch"),
    "numpy_default_int": Setting("int64", LATER, "numpy as operations of torch"),
    "use_numpy_random_stream": Setting(False, LATER, "numpy as operations of torch"),
    "graph_break_on_nn_param_ctor": Setting(True, NOTHING, "`nn.Parameter(...)` in captured code does what eager does"),
    "enable_dynamo_decompositions": Setting(True, NOTHING, "operations are recorded as they are called"),
    "allowed_functions_module_string_ignorelist": Setting(
        {"torch.distributions", "torch.testing", "torch._refs", "torch._prims", "torch._decomp"}, NOTHING,
        "which functions of torch are nodes is in magneto's own rules",
    ),
    "traceable_tensor_subclasses": Setting(set(), NOTHING, _REMOVED),
    "nontraceable_tensor_subclasses": Setting(
        set(), HONOURED, "classes whose tensors end a graph"
    ),
    "inline_torch_dispatch_torch_compile": Setting(
        True, NOTHING, "under a dispatch mode of the program's nothing is captured, in its handlers as elsewhere"
    ),
    "leaf_function_validate_outputs": Setting(False, LATER, "leaf functions"),
    "leaf_function_check_escaped_gradients": Setting(False, LATER, "leaf functions"),
    "skip_torchrec": Setting(True, NOTHING, "torchrec is captured as any package is; `skip_modules` can name it"),
    "error_on_dynamo_callback_in_fullgraph_compiled_code": Setting(
        False, NOTHING, "nothing that a graph runs is captured"
    ),
    "replay_side_effects": Setting(True, NOTHING, _EXPORT),
    # training
    "compiled_autograd": Setting(False, LATER, _TRAINING),
    "compiled_autograd_kwargs_override": Setting({}, LATER, _TRAINING),
    "trace_autograd_ops": Setting(False, LATER, _TRAINING),
    "skip_fwd_side_effects_in_bwd_under_checkpoint": Setting(False, LATER, _TRAINING),
    "_autograd_backward_strict_mode_banned_ops": Setting(
        ["layout", "is_neg", "is_conj", "is_pinned"], LATER, _TRAINING
    ),
    "_autograd_backward_strict_mode_conditional_banned_ops": Setting(
        ["stride", "storage_offset", "is_contiguous"], LATER, _TRAINING
    ),
    "enable_p2p_compilation": Setting(
        False, LATER, "point-to-point communication in graphs", "TORCHDYNAMO_ENABLE_P2P_COMPILATION"
    ),
    # subgraphs
    "use_graph_deduplication": Setting(False, LATER, _SUBGRAPHS),
    "track_nodes_for_deduplication": Setting(False, LATER, _SUBGRAPHS),
    "graph_deduplication_lint": Setting(False, LATER, _SUBGRAPHS),
    "enable_invoke_subgraph_regional_compile": Setting(False, LATER, _SUBGRAPHS),
    "inline_invoke_subgraph": Setting(False, LATER, _SUBGRAPHS),
    "inline_single_use_invoke_subgraph": Setting(True, LATER, _SUBGRAPHS),
    # saving
    "caching_precompile": Setting(False, LATER, _SAVED, "TORCH_CACHING_PRECOMPILE"),
    "strict_precompile": Setting(False, LATER, _SAVED, "TORCH_STRICT_PRECOMPILE"),
    "enable_aot_compile": Setting(True, LATER, _SAVED),
    # export
    "install_free_tensors": Setting(False, NOTHING, _EXPORT),
    "install_free_tensors_for_export": Setting(True, NOTHING, _EXPORT),
    # other
    "raise_on_ctx_manager_usage": Setting(
        True, NOTHING, "what `torch._dynamo.optimize` returns is no context manager here, always"
    ),
    "debug_force_nested_calls": Setting(False, NOTHING, "a test of TorchDynamo's own"),
    "debug_force_graph_break_on_leaf_return": Setting(False, NOTHING, "a test of TorchDynamo's own"),
    "inject_BUILD_SET_unimplemented_TESTING_ONLY": Setting(False, NOTHING, "a test of TorchDynamo's own"),
    "_custom_ops_profile": Setting(None, NOTHING, "a test of TorchDynamo's own"),
    "_save_config_ignore": Setting(
        {"repro_after", "repro_level", "constant_functions", "skipfiles_inline_module_allowlist"}, TORCH,
        "which settings `save_config` leaves out",
    ),
    "issue_3_13_0_warning": Setting(True, NOTHING, "of CPython 3.13"),
    "base_dir": Setting(None, NOTHING, "where torch is installed"),
    "TYPE_CHECKING": Setting(False, NOTHING, "no setting: a name that its module imports"),
    "minimum_call_count": Setting(1, NOTHING, _REMOVED),
    "dead_code_elimination": Setting(None, NOTHING, _REMOVED),
    "optimize_ddp_lazy_compile": Setting(False, NOTHING, _REMOVED),
    "skipfiles_inline_module_allowlist": Setting({}, NOTHING, _REMOVED),
    "capture_autograd_function": Setting(True, NOTHING, _REMOVED),
    "capture_func_transforms": Setting(True, NOTHING, _REMOVED),
    "error_on_nested_jit_trace": Setting(True, NOTHING, _REMOVED),
}  # fmt: skip

ALIASES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
    "skip_code_recursive_on_cache_limit_hit": "skip_code_recursive_on_recompile_limit_hit",
    "ignore_logger_methods": "ignore_logging_functions",
}
"""Other names of the same settings."""

COMPILER_SETTINGS: dict[str, Setting] = {
    "job_id": Setting(
        None, HONOURED, "under which name what varied is remembered for later processes", "TORCH_COMPILE_JOB_ID", str
    ),
    "pgo_extra_read_key": Setting(
        None, HONOURED, "another name, where the job has nothing yet", "TORCH_COMPILE_STICKY_PGO_READ", str
    ),
    "pgo_extra_write_key": Setting(
        None, HONOURED, "another name under which the same is written", "TORCH_COMPILE_STICKY_PGO_WRITE", str
    ),
    "dynamic_sources": Setting(
        "", HONOURED, "sources whose sizes and ints are symbols from the first capture on",
        "TORCH_COMPILE_DYNAMIC_SOURCES", str,
    ),
    "dynamic_values": Setting(
        "", HONOURED, "sizes and ints of these values are symbols from the first capture on",
        "TORCH_COMPILE_DYNAMIC_VALUES", str,
    ),
    "unbacked_sources": Setting(
        "", HONOURED, "as `dynamic_sources`", "TORCH_COMPILE_UNBACKED_SOURCES", str
    ),
    "cache_key_tag": Setting("", TORCH, "inductor's caches ask for it", "TORCH_COMPILE_CACHE_KEY_TAG", str),
    "force_disable_caches": Setting(
        False, TORCH, "inductor's caches ask for it", "TORCH_COMPILE_FORCE_DISABLE_CACHES"
    ),
    "force_cudagraph_gc": Setting(False, TORCH, "CUDA graphs ask for it", "TORCH_CUDAGRAPH_GC"),
}  # fmt: skip
"""The names of `torch.compiler.config` that are not other names for settings of `torch._dynamo.config`."""

COMPILER_ALIASES = (
    "dynamic_shapes", "assume_static_by_default", "automatic_dynamic_shapes", "recompile_limit",
    "accumulated_recompile_limit", "verbose", "capture_scalar_outputs", "capture_dynamic_output_shape_ops",
    "log_file_name", "fail_on_recompile_limit_hit", "allow_unspec_int_on_nn_module",
    "skip_tensor_guards_with_matching_dict_tags", "enable_cpp_symbolic_shape_guards", "wrap_top_frame",
    "reorderable_logging_functions",
)  # fmt: skip
"""The others: the same under both names."""

OWN: dict[str, Setting] = {
    "aot": Setting(
        False,
        HONOURED,
        "whether inductor's graphs without gradients are compiled to libraries for the cache on disk",
        "MAGNETO_AOT",
    ),
    "background": Setting(
        False,
        HONOURED,
        "whether inductor compiles in the background: calls run without it until it is done",
        "MAGNETO_BACKGROUND",
    ),
    "background_workers": Setting(
        0,
        HONOURED,
        "how many processes compile in the background at once; 0: half as many as there are processors, at most 4",
        "MAGNETO_BACKGROUND_WORKERS",
    ),
    "skip_modules": Setting(
        (),
        HONOURED,
        "names of modules and packages whose functions captures don't look into: calls of them are breaks",
    ),
}
"""Settings that only magneto has."""

_HEAD = """\
# Settings

`magneto.config` and `torch._dynamo.config` are the same settings under two names: what is set through one is read
through the other, and by whatever was compiled before as well. A setting is looked at when a call fits no entry and
when a capture starts, never on a hit. Where `torch._dynamo` has not been imported, magneto does not import it to read
a setting: the variables of the environment are read as torch reads them, and what was set through `magneto.config` is
carried over if `torch._dynamo` comes to be imported.

As in torch, `config.patch` changes settings for a `with` block, or for each call of a function. What is set through
`torch._dynamo.config` holds for the thread that sets it; what is set through `magneto.config` holds for all threads
that have not set the same name themselves.

This page is made from the tables of `src/magneto/_settings.py`: *honoured* has the meaning that it has in torch;
*read by torch* is read by code of torch's that runs under magneto as well; *nothing to say* has a reason; *not yet*
names what it belongs to.
"""


def _rows(settings: dict[str, Setting]) -> list[str]:
    lines = ["| setting | environment variable | | |", "|---|---|---|---|"]
    order = (HONOURED, TORCH, LATER, NOTHING)
    for name, one in sorted(settings.items(), key=lambda item: (order.index(item[1].status), item[0])):
        variable = f"`{one.variable}`" if one.variable else ""
        lines.append(f"| `{name}` | {variable} | {one.status} | {one.text} |")
    return lines


def page() -> str:
    """The text of docs/settings.md."""
    lines = [_HEAD, "## Of torch._dynamo.config", "", *_rows(SETTINGS)]
    lines += ["", "Other names of the same settings:", ""]
    lines += [f"- `{alias}`: `{name}`" for alias, name in ALIASES.items()]
    lines += ["", "## Of torch.compiler.config", "", *_rows(COMPILER_SETTINGS)]
    same = ", ".join(f"`{name}`" for name in COMPILER_ALIASES)
    lines += ["", f"These are settings of `torch._dynamo.config` under the same name: {same}."]
    lines += ["", "## Of magneto alone", "", *_rows(OWN)]
    lines += [
        "",
        "`TORCHDYNAMO_DISABLE=1` in the environment has `magneto.compile` return what it was given, as `disable=True`",
        "does.",
    ]
    return "\n".join(lines) + "\n"


def write() -> None:
    """Make docs/settings.md anew."""
    with open("docs/settings.md", "w") as file:
        file.write(page())
