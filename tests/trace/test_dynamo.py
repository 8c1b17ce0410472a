"""The frame hook beside TorchDynamo's, in every order of coming and going."""

from __future__ import annotations

import threading

import pytest

from magneto import _core

torch = pytest.importorskip("torch")
set_eval_frame = pytest.importorskip("torch._C._dynamo.eval_frame").set_eval_frame


def callee(x):
    return x + 1


def caller(n):
    return [callee(i) for i in range(n)]


def model(x):
    return torch.relu(x) + len(caller(3))


def run_only(f):
    """Call f with Dynamo's hook on, and nothing to be compiled."""
    before = set_eval_frame(False)
    try:
        return f()
    finally:
        set_eval_frame(before)


@pytest.fixture(autouse=True)
def nobody_is_left():
    """Both are gone afterwards: a frame that runs finds no hook of ours."""
    former = _core.interpret_all(False)
    yield
    callee(1)
    state = _core.hook_state()
    _core.interpret_all(former)
    assert state["users"] == 0
    assert not state["installed"]


def test_dynamo_inside_interpret():
    assert _core.interpret(lambda: (run_only(lambda: caller(3)), caller(2))) == ([1, 2, 3], [1, 2])


def test_interpret_inside_dynamo():
    assert run_only(lambda: (_core.interpret(caller, 3), caller(2))) == ([1, 2, 3], [1, 2])


def test_interpret_inside_dynamo_inside_interpret():
    assert _core.interpret(
        run_only, lambda: _core.interpret(run_only, lambda: _core.interpret(caller, 2))
    ) == [1, 2]


def test_dynamo_comes_during_interpret_and_stays():
    def come():
        before = set_eval_frame(False)
        return before, caller(2)

    before, result = _core.interpret(come)
    after = caller(2)
    set_eval_frame(before)
    assert result == after == [1, 2]


def test_dynamo_goes_during_interpret():
    before = set_eval_frame(False)

    def go():
        set_eval_frame(before)
        return caller(2)

    assert _core.interpret(go) == [1, 2]


def test_both_swap_places_again_and_again():
    results = []
    former = set_eval_frame(False)
    for i in range(10):
        _core.interpret_all(True)
        results.append(caller(2))
        set_eval_frame(former if i % 2 == 0 else False)
        results.append(caller(2))
        _core.interpret_all(False)
        results.append(caller(2))
        set_eval_frame(False if i % 2 == 0 else former)
        results.append(caller(2))
    set_eval_frame(former)
    assert results == [[1, 2]] * 40


def test_other_thread_uses_dynamo_meanwhile():
    results = []

    def body():
        for _ in range(20):
            results.append(run_only(lambda: caller(2)))

    def work():
        threads = [threading.Thread(target=body) for _ in range(3)]
        for thread in threads:
            thread.start()
        mine = [caller(2) for _ in range(50)]
        for thread in threads:
            thread.join()
        return mine

    assert _core.interpret(work) == [[1, 2]] * 50
    assert results == [[1, 2]] * 60


def test_compiled_function_inside_interpret():
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    x = torch.tensor([-1.0, 2.0])
    assert _core.interpret(lambda: compiled(x)).tolist() == [3.0, 5.0]
    assert _core.interpret(lambda: compiled(x)).tolist() == [3.0, 5.0]
    assert compiled(x).tolist() == [3.0, 5.0]


def test_interpret_inside_a_compiled_function():
    torch._dynamo.reset()

    @torch._dynamo.disable
    def interpreted_part(x):
        return _core.interpret(model, x)

    @torch.compile(backend="eager")
    def whole(x):
        return interpreted_part(x * 2) - 1

    for _ in range(3):
        assert whole(torch.tensor([-1.0, 2.0])).tolist() == [2.0, 6.0]


def test_interpreted_frames_are_not_compiled():
    torch._dynamo.reset()
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    @torch.compile(backend=backend)
    def whole(x):
        return x + 1

    _core.interpret(whole, torch.ones(2))
    whole(torch.ones(2))
    assert len(compiled) == 1
