"""`torch._dynamo.utils.get_compilation_metrics`, `compile_times` and the like know of magneto's compilations."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
import torch
import torch._dynamo.utils as utils

import magneto

from .side_by_side import agree, both, broken, start_again, whole

SAME = (
    "compile_id", "frame_key", "co_name", "co_filename", "co_firstlineno", "cache_size", "accumulated_cache_size",
    "shape_env_guard_count", "graph_op_count", "graph_node_count", "graph_input_count", "fail_type", "fail_reason",
    "non_compliant_ops", "compliant_custom_ops", "has_guarded_code", "config_suppress_errors", "specialize_float",
    "dynamo_config", "inductor_config", "compiler_config", "functorch_config", "is_forward", "is_runtime",
    "python_version", "pytorch_version", "cuda_version", "triton_version", "log_format_version",
)  # fmt: skip


def fields(metrics):
    return {name: getattr(metrics, name) for name in SAME}


def test_a_record_for_each_compilation():
    def program(compiler):
        compiled = compiler(whole, backend="eager")
        compiled(torch.ones(3))
        compiled(torch.ones(3))
        compiled(torch.ones(3), "bc")
        return [fields(metrics) for metrics in utils.get_compilation_metrics()]

    first, second = agree(program)
    assert (first["compile_id"], second["compile_id"]) == ("0/0", "0/1")


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
def test_breaks_and_resume_points():
    def program(compiler):
        compiler(broken, backend="eager")(torch.ones(3))
        return [fields(metrics) for metrics in utils.get_compilation_metrics()]

    assert [one["co_name"][:23] for one in agree(program)] == ["broken", "torch_dynamo_resume_in_"]


def test_which_fields_are_filled():
    def program(compiler):
        x = torch.ones(3, requires_grad=True)
        compiler(whole, backend="aot_eager")(x).sum().backward()
        return [
            {name for name, value in dataclasses.asdict(metrics).items() if value is not None}
            for metrics in utils.get_compilation_metrics()
        ]

    theirs, ours = both(program)
    of_torch_alone = {
        "gc_time_us",  # nothing is collected
        "guard_latency_us",  # guards are not timed when they are made
        "ir_count",  # no instructions are rewritten
        "structured_logging_overhead_s",  # nobody reads the trace
        "structured_logging_overhead_us",
    }
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert other - mine <= of_torch_alone
        assert mine - other <= {"stack_trace"}


def test_times():
    def program(compiler):
        compiler(whole, backend="aot_eager")(torch.ones(3))
        (metrics,) = utils.get_compilation_metrics()
        assert metrics.start_time_us + metrics.dynamo_cumulative_compile_time_us <= metrics.end_time_us + 1000
        assert (
            metrics.dynamo_cumulative_compile_time_us >= metrics.aot_autograd_cumulative_compile_time_us > 0
        )
        assert metrics.duration_us == metrics.dynamo_cumulative_compile_time_us
        spent = utils.calculate_time_spent()
        assert spent["total_wall_time"] == spent["entire_frame_compile"] >= spent["backend_compile"] > 0
        headers, values = utils.compile_times(repr="csv", aggregate=True)
        assert len(headers) == len(values)
        return {
            "_compile.compile_inner", "bytecode_tracing", "OutputGraph.call_user_compiler",
            "create_aot_dispatcher_function",
        } - set(headers)  # fmt: skip

    assert agree(program) == set()


def test_the_reason_of_a_recompilation():
    def program(compiler):
        compiled = compiler(whole, backend="eager")
        compiled(torch.ones(3))
        compiled(torch.ones(3), "bc")
        first, second = utils.get_compilation_metrics()
        return first.recompile_reason, second.recompile_reason[:5]

    assert agree(program) == (None, "0/0: ")


@pytest.mark.no_leak_hunt("torch.compile keeps what compiled a frame when that failed")
def test_the_reason_of_a_failure():
    def program(compiler):
        with pytest.raises(Exception, match="graph_break|graph break"):
            compiler(broken, backend="eager", fullgraph=True)(torch.ones(3))
        (metrics,) = utils.get_compilation_metrics()
        assert metrics.fail_reason and metrics.exception_stack_trace
        return (
            metrics.fail_type, metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno,
            metrics.has_guarded_code, metrics.graph_op_count,
        )  # fmt: skip

    assert agree(program)[:2] == ("Unsupported", __file__.replace("test_metrics", "side_by_side"))


@pytest.mark.no_leak_hunt("torch.compile keeps what compiled a frame when that failed")
def test_a_backend_that_fails():
    def backend(module, inputs):
        raise ValueError("no")

    def program(compiler):
        with pytest.raises(Exception, match="no"):
            compiler(whole, backend=backend)(torch.ones(3))
        (metrics,) = utils.get_compilation_metrics()
        return metrics.fail_type, metrics.has_guarded_code

    assert agree(program) == ("BackendCompilerFailed", False)


def test_records_are_dataclasses_of_torch():
    start_again()
    magneto.compile(whole, backend="eager")(torch.ones(3))
    (metrics,) = utils.get_compilation_metrics()
    assert isinstance(metrics, utils.CompilationMetrics)
    assert dataclasses.asdict(metrics)["co_name"] == "whole"
    assert "co_name='whole'" in repr(metrics)
    copy = pickle.loads(pickle.dumps(metrics))
    assert type(copy) is utils.CompilationMetrics and metrics == copy
    metrics.co_name = "other"
    assert metrics.co_name == "other"
    assert "test_metrics.py" in metrics.stack_trace[-2] and "Name: whole" in metrics.stack_trace[-1]
    start_again()


def test_what_is_set_before_a_record_is_read_stays():
    start_again()
    magneto.compile(whole, backend="eager")(torch.ones(3))
    (metrics,) = utils.get_compilation_metrics()
    metrics.co_name = "other"
    assert (metrics.co_name, metrics.compile_id) == ("other", "0/0")
    start_again()


def test_the_limit_of_records_holds():
    start_again()
    utils.set_compilation_metrics_limit(2)
    try:
        compiled = magneto.compile(whole, backend="eager")
        for text in "a", "bc", "def":
            compiled(torch.ones(3), text)
        assert [metrics.compile_id for metrics in utils.get_compilation_metrics()] == ["0/1", "0/2"]
    finally:
        utils.set_compilation_metrics_limit(utils.DEFAULT_COMPILATION_METRICS_LIMIT)
        start_again()


def test_a_compilation_within_another_leaves_no_record():
    start_again()
    inner = magneto.compile(lambda x: x - 1, backend="eager")

    def backend(module, inputs):
        assert torch.equal(inner(torch.ones(2)), torch.zeros(2))
        return module.forward

    magneto.compile(whole, backend=backend)(torch.ones(3))
    assert [metrics.compile_id for metrics in utils.get_compilation_metrics()] == ["0/0"]
    assert not utils.get_metrics_context().in_progress()
    start_again()
