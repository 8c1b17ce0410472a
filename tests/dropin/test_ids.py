"""Compile ids count as torch.compile's do."""

from __future__ import annotations

import gc
import logging

import pytest
import torch
from torch._guards import CompileContext

import magneto

from .side_by_side import agree, broken, start_again, whole


def ids_seen_by_a_backend(compiler, function, *calls):
    seen = []

    def backend(module, inputs):
        seen.append(str(CompileContext.current_compile_id()))
        assert module.meta["dynamo_compile_id"] == CompileContext.current_compile_id()
        return module.forward

    compiled = compiler(function, backend=backend)
    for arguments in calls:
        compiled(*arguments)
    assert CompileContext.current_compile_id() is None
    return seen


def test_recompilations_of_a_frame():
    x = torch.ones(3)
    calls = [(x,), (x, "bc"), (x, "def"), (x,)]
    assert agree(lambda compiler: ids_seen_by_a_backend(compiler, whole, *calls)) == ["0/0", "0/1", "0/2"]


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
def test_resume_points_are_frames():
    x = torch.ones(3)
    calls = [(x,), (torch.ones(2, 2, dtype=torch.float64),)]
    assert agree(lambda compiler: ids_seen_by_a_backend(compiler, broken, *calls)) == [
        "0/0",
        "1/0",
        "0/1",
        "1/1",
    ]


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
def test_several_functions():
    def program(compiler):
        x = torch.ones(3)
        return [
            ids_seen_by_a_backend(compiler, whole, (x,)),
            ids_seen_by_a_backend(compiler, broken, (x,)),
            ids_seen_by_a_backend(compiler, lambda x: x + 1, (x,), (x.double(),)),
        ]

    assert agree(program) == [["0/0"], ["1/0", "2/0"], ["3/0", "3/1"]]


def test_a_function_that_is_compiled_twice_is_one_frame():
    def program(compiler):
        x = torch.ones(3)
        return [ids_seen_by_a_backend(compiler, whole, (x,)) for _ in range(2)]

    assert agree(program) == [["0/0"], ["0/1"]]


def test_a_reset_of_torch_dynamo_starts_again():
    start_again()
    x = torch.ones(3)
    assert ids_seen_by_a_backend(magneto.compile, whole, (x,)) == ["0/0"]
    torch._dynamo.reset()
    assert ids_seen_by_a_backend(magneto.compile, broken, (x,)) == ["0/0", "1/0"]
    start_again()


def test_backends_see_that_something_is_compiled():
    def program(compiler):
        seen = []

        def backend(module, inputs):
            seen.append(torch.compiler.is_compiling())
            return module.forward

        compiler(whole, backend=backend)(torch.ones(3))
        return seen, torch.compiler.is_compiling()

    assert agree(program) == ([True], False)


def test_captured_code_does_not_see_the_id():
    def function(x):
        return x + (1 if CompileContext.current_compile_id() is None else 2)

    compiled = magneto.compile(function, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.zeros(2)), torch.ones(2))


@pytest.mark.no_leak_hunt("the hunt runs without pytest's capture of logs")
def test_entries_and_logs_have_the_id(caplog):
    start_again()
    compiled = magneto.compile(whole, backend="eager")
    logger = logging.getLogger("torch._dynamo.magneto.__recompiles")
    torch._logging.set_logs(recompiles=True)
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append((str(CompileContext.current_compile_id()), record.getMessage()))

    handler = Handler()
    logger.addHandler(handler)
    try:
        compiled(torch.ones(3))
        compiled(torch.ones(3), "bc")
    finally:
        logger.removeHandler(handler)
        torch._logging.set_logs()
    assert [entry.entry.compile_id for entry in magneto.cache_entries(compiled)] == ["0/1", "0/0"]
    assert len(seen) == 1 and seen[0][0] == "0/1"
    assert "- 0/0: " in seen[0][1]
    start_again()


def test_the_count_of_a_frame_goes_with_its_code():
    from torch._dynamo import convert_frame, utils

    def some(count):
        for _ in range(count):
            names: dict[str, object] = {}
            exec("def f(x): return x + 1", names)
            magneto.compile(names["f"], backend="eager")(torch.ones(3))
            del names
        utils.clear_compilation_metrics()  # the last 64 know their codes
        gc.collect()
        return len(convert_frame.FRAME_COMPILE_COUNTER)

    start_again()
    assert some(5) == some(20)
