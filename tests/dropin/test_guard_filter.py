"""Guards that are dropped: `options={"guard_filter_fn": ...}`, `torch.compiler.skip_guard_on_...`; what stays safe."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

import magneto

X = torch.ones(2, 3)
SCALE = 2
ITEMS = [1, 2]


def filtered(function, keep, **more):
    return magneto.compile(function, backend="eager", options={"guard_filter_fn": keep}, **more)


def entries(compiled) -> int:
    return len(magneto.cache_entries(compiled))


def helper(x):
    return x.sin()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.inner = Inner()
        self.count = 2

    def forward(self, x, n=1):
        return self.inner(self.linear(x)) * self.count + n + SCALE + len(ITEMS) + helper(x)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 3

    def forward(self, x):
        return x * self.factor


# --- what a filter sees ---


def seen_by(compile, model, *args):
    """The guards that a filter is shown."""
    shown = []

    def note(guards):
        shown.extend(guards)
        return [True] * len(guards)

    compile(model, backend="eager", options={"guard_filter_fn": note})(*args)
    return shown


def test_entries_are_those_of_torch():
    model = Model()
    theirs, ours = seen_by(torch.compile, model, X), seen_by(magneto.compile, model, X)
    assert {type(guard) for guard in ours} == {type(guard) for guard in theirs}
    wanted = {
        (guard.guard_type, guard.orig_guard.source, guard.is_global)
        for guard in theirs
        if guard.guard_type
        in ("TENSOR_MATCH", "TYPE_MATCH", "GRAD_MODE", "GLOBAL_STATE", "SHAPE_ENV", "CONSTANT_MATCH")
    }
    assert wanted - {(guard.guard_type, guard.orig_guard.source, guard.is_global) for guard in ours} == set()
    for guard in ours:
        assert guard.orig_guard.create_fn_name() == guard.guard_type
        assert guard.name == "" or guard.has_value or guard.guard_type == "NOT_PRESENT_IN_GENERIC_DICT"


def test_names_and_values():
    def f(x, n):
        return x * n + SCALE

    shown = {(guard.name, guard.guard_type): guard for guard in seen_by(magneto.compile, f, X, 3)}
    assert shown["n", "CONSTANT_MATCH"].value == 3
    assert shown["x", "TENSOR_MATCH"].value is X
    assert shown["x", "TENSOR_MATCH"].orig_guard.name == "L['x']"
    assert shown["G['SCALE']", "CONSTANT_MATCH"].is_global
    assert not shown["n", "CONSTANT_MATCH"].is_global


# --- what is dropped ---


def test_a_value_that_is_not_guarded_stays_what_it_was():
    def f(x, n):
        return x * n

    compiled = filtered(f, lambda guards: [guard.name != "n" for guard in guards])
    assert torch.equal(compiled(X, 3), X * 3)
    assert torch.equal(compiled(X, 4), X * 3)
    assert entries(compiled) == 1
    compiled(torch.ones(4), 4)
    assert entries(compiled) == 2


def test_skip_guard_on_globals(monkeypatch):
    def f(x):
        return x * SCALE

    compiled = filtered(f, torch.compiler.skip_guard_on_globals_unsafe)
    compiled(X)
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert torch.equal(compiled(X), X * 2) and entries(compiled) == 1
    compiled(torch.ones(5))
    assert entries(compiled) == 2


def test_skip_guard_on_modules():
    model = Model()
    all_of_them = filtered(model, torch.compiler.skip_guard_on_all_nn_modules_unsafe)
    builtin = filtered(model, torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe)
    before = model(X)
    assert torch.equal(all_of_them(X), before) and torch.equal(builtin(X), before)
    model.linear.training = False
    all_of_them(X), builtin(X)
    assert (entries(all_of_them), entries(builtin)) == (1, 1)
    model.inner.factor = 4
    assert torch.equal(all_of_them(X), before) and entries(all_of_them) == 1
    assert torch.equal(builtin(X), model(X)) and entries(builtin) == 2
    assert torch.equal(all_of_them(X, 9), model(X, 9)) and entries(all_of_them) == 2


def test_guard_nn_modules_is_a_setting():
    model = Model()
    with torch._dynamo.config.patch(guard_nn_modules=False):
        compiled = magneto.compile(model, backend="eager")
        before = compiled(X)
    model.inner.factor = 4
    assert torch.equal(compiled(X), before) and entries(compiled) == 1
    compiled(X, 2)
    assert entries(compiled) == 2


def test_keep_tensor_guards():
    model = Model()
    compiled = filtered(model, torch.compiler.keep_tensor_guards_unsafe)
    before = compiled(X)
    model.count = 7
    assert torch.equal(compiled(X, 5), before) and entries(compiled) == 1
    compiled(torch.ones(4, 3))
    assert entries(compiled) == 2


def test_weights_that_are_replaced_are_used_all_the_same():
    model = Model()
    compiled = filtered(model, torch.compiler.skip_all_guards_unsafe)
    compiled(X)
    model.linear.weight = nn.Parameter(torch.zeros(3, 3))
    model.linear.bias = nn.Parameter(torch.ones(3))
    assert torch.equal(compiled(X), model(X)) and entries(compiled) == 1


def test_all_guards_dropped_and_recompiles_that_fail():
    model = Model()
    compiled = filtered(model, torch.compiler.skip_all_guards_unsafe, fullgraph=True)
    assert torch.equal(compiled(X), model(X))
    with torch.compiler.set_stance("fail_on_recompile"):
        for size in (2, 5, 7):
            assert torch.equal(compiled(torch.ones(size, 3)), model(torch.ones(size, 3)))
        with torch.no_grad():
            assert torch.equal(compiled(X), model(X))
        with torch.inference_mode():
            assert torch.equal(compiled(X), model(X))
    assert entries(compiled) == 1


def test_global_state():
    def f(x):
        return x + 1

    keeps = filtered(f, lambda guards: [guard.guard_type == "GLOBAL_STATE" for guard in guards])
    drops = filtered(f, lambda guards: [guard.guard_type != "GLOBAL_STATE" for guard in guards])
    for compiled in (keeps, drops):
        compiled(X)
        with torch.no_grad():
            assert torch.equal(compiled(X), X + 1)
    assert (entries(keeps), entries(drops)) == (2, 1)


def test_resume_points_are_filtered_too():
    def f(x, n):
        x = x + 1
        eval("x")
        return x * n

    compiled = filtered(f, torch.compiler.skip_all_guards_unsafe)
    assert torch.equal(compiled(X, 2), (X + 1) * 2)
    assert torch.equal(compiled(X, 3), (X + 1) * 2)
    assert entries(compiled) == 2


@pytest.mark.parametrize("wrong", [lambda guards: [True], lambda guards: [1] * len(guards)])
def test_a_filter_that_says_something_else_is_an_error(wrong):
    with pytest.raises(AssertionError, match="guard_filter_fn"):
        filtered(lambda x: x + 1, wrong)(X)


def test_what_a_filter_raises_is_raised():
    def raises(guards):
        raise ZeroDivisionError("in a filter")

    compiled = filtered(lambda x: x + 1, raises)
    with pytest.raises(ZeroDivisionError):
        compiled(X)


# --- what is safe whatever is dropped ---


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor
        self.log = []


class Slots:
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor


OTHERS = [
    None,
    3,
    "text",
    [],
    (),
    {},
    object(),
    Holder,
    Holder(X),
    Holder(3),
    Slots(X),
    nn.Linear(1, 1),
    torch.ones(4),
    len,
]


@pytest.mark.parametrize(
    "function",
    [
        lambda h: h.tensor + 1,
        lambda h: (h, h.tensor * 2),
        lambda h: h.log.append(1) or h.tensor + len(h.log),
        lambda h: setattr(h, "seen", h.tensor + 1) or h.tensor,
        lambda h: [h.tensor, type(h).__name__, isinstance(h, Holder)],
    ],
)
@pytest.mark.parametrize(
    "keep", [torch.compiler.skip_all_guards_unsafe, torch.compiler.keep_tensor_guards_unsafe]
)
def test_objects_of_other_types(function, keep):
    compiled = filtered(function, keep)
    for given in (Holder(X), Holder(X), *OTHERS, Holder(X)):
        try:
            expected = function(given)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(given)
        else:
            compiled(given)
            del expected
    gc.collect()


@pytest.mark.parametrize(
    "given", [None, 3, [], X.double(), X.to_sparse(), torch.ones(0), nn.Parameter(X), X.to("meta")]
)
def test_tensors_of_other_kinds(given):
    def f(x):
        return x * 2 + 1

    compiled = filtered(f, torch.compiler.skip_all_guards_unsafe)
    compiled(X)
    try:
        expected = f(given)
    except Exception as error:
        with pytest.raises(type(error)):
            compiled(given)
    else:
        result = compiled(given)
        assert type(result) is type(expected)
        if isinstance(result, torch.Tensor):
            assert (result.dtype, result.shape, result.requires_grad) == (
                expected.dtype, expected.shape, expected.requires_grad,
            )  # fmt: skip


def test_an_operation_that_fails_raises_its_own_error():
    def f(x, y):
        return x @ y

    compiled = filtered(f, torch.compiler.skip_all_guards_unsafe)
    compiled(torch.ones(2, 3), torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        compiled(torch.ones(2, 3), torch.ones(2, 2))
    assert compiled(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)


def test_gradients_are_read_of_leaves_only():
    def f(x, p):
        return x if p.grad is None else x + p.grad

    p = torch.ones(3, requires_grad=True)
    compiled = filtered(f, torch.compiler.skip_all_guards_unsafe)
    compiled(torch.ones(3), p)
    p.sum().backward()
    compiled(torch.ones(3), p)
    compiled(torch.ones(3), p * 2)


def test_functions_at_a_break_are_the_same_ones():
    def make(n):
        if n:

            def f(x):
                x = x + n
                eval("x")
                return x * n
        else:

            def f(x):
                x = x - 1
                eval("x")
                return x

        return f

    def call(f, x):
        return f(x) + 1

    compiled = filtered(call, torch.compiler.skip_all_guards_unsafe)
    for n in (2, 0, 3, 0, 2):
        compiled(make(n), X)
    gc.collect()
