"""The callbacks of `torch._dynamo.callback`, and the hooks that name the context of a recompilation."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.callback import CallbackTrigger, callback_handler, on_compile_end, on_compile_start

import magneto

from .side_by_side import agree, broken, start_again, whole


def told(compiler, function, *calls):
    events = []
    on_compile_start(lambda args: events.append(("start", args.callback_trigger, args.compile_id)))
    on_compile_end(lambda args: events.append(("end", args.callback_trigger, args.compile_id)))

    def backend(module, inputs):
        events.append("backend")
        return module.forward

    compiled = compiler(function, backend=backend)
    for arguments in calls:
        compiled(*arguments)
    return events


def test_start_and_end_of_each_compilation():
    x = torch.ones(3)
    events = agree(lambda compiler: told(compiler, whole, (x,), (x,), (x, "bc")))
    first = CallbackTrigger.DYNAMO, "0/0"
    second = CallbackTrigger.DYNAMO, "0/1"
    assert events == [
        ("start", *first), "backend", ("end", *first), ("start", *second), "backend", ("end", *second),
    ]  # fmt: skip


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
def test_breaks():
    events = agree(lambda compiler: told(compiler, broken, (torch.ones(3),)))
    assert [event[::2] for event in events if event != "backend"] == [
        ("start", "0/0"), ("end", "0/0"), ("start", "1/0"), ("end", "1/0"),
    ]  # fmt: skip


def test_the_backend_of_a_backward_is_told_by_torch_itself():
    def program(compiler):
        events = []
        on_compile_start(lambda args: events.append((args.callback_trigger, args.compile_id)))
        x = torch.ones(3, requires_grad=True)
        compiler(whole, backend="aot_eager")(x).sum().backward()
        return events

    assert agree(program)[0] == (CallbackTrigger.DYNAMO, "0/0")


@pytest.mark.no_leak_hunt("torch.compile keeps what compiled a frame when that failed")
def test_the_end_is_told_where_the_backend_fails():
    def program(compiler):
        events = []
        on_compile_start(lambda args: events.append("start"))
        on_compile_end(lambda args: events.append("end"))

        def backend(module, inputs):
            raise ValueError("no")

        with pytest.raises(Exception, match="no"):
            compiler(whole, backend=backend)(torch.ones(3))
        return events

    assert agree(program) == ["start", "end"]


def test_a_callback_that_raises_ends_the_call_and_leaves_nothing_open():
    start_again()

    @on_compile_start
    def refuse(args):
        raise ValueError("not now")

    compiled = magneto.compile(whole, backend="eager")
    with pytest.raises(ValueError, match="not now"):
        compiled(torch.ones(3))
    callback_handler.remove_start_callback(refuse)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert not torch._dynamo.utils.get_metrics_context().in_progress()
    start_again()


def test_a_callback_that_raises_at_the_end_ends_the_call():
    start_again()

    @on_compile_end
    def refuse(args):
        raise ValueError("not now")

    compiled = magneto.compile(whole, backend="eager")
    with pytest.raises(ValueError, match="not now"):
        compiled(torch.ones(3))
    callback_handler.remove_end_callback(refuse)
    callback_handler._CompilationCallbackHandler__pending_callbacks_counter = 0  # torch counts it as open
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    start_again()


def test_hooks_name_the_context_of_a_recompilation():
    def program(compiler):
        torch._dynamo.utils.register_hook_for_recompile_user_context(lambda: "epoch 7")
        torch._dynamo.utils.register_hook_for_recompile_user_context(lambda: "x" * 300)
        compiler(whole, backend="eager")(torch.ones(3))
        (metrics,) = torch._dynamo.utils.get_compilation_metrics()
        return metrics.recompile_user_contexts

    assert agree(program) == {"epoch 7", "x" * 256}
