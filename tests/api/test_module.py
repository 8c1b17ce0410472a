"""Compiled modules: the wrapper stands for the module in all but its calls."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import io
import pickle
import weakref

import pytest
import torch
from torch import nn

import magneto

eager = functools.partial(magneto.compile, backend="eager", fullgraph=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))
        self.scale = 2

    def forward(self, x, *, shift=0):
        return self.drop(self.lin(x)) * self.scale + shift

    def helper(self):
        return "helped"


@pytest.fixture
def net():
    return Net().eval()


@pytest.fixture
def x():
    return torch.randn(3, 4)


def test_truth_of_a_compiled_module_is_that_of_the_module():
    assert magneto.compile(nn.Linear(3, 3), backend="eager")
    assert magneto.compile(nn.Sequential(nn.ReLU()), backend="eager")
    assert not magneto.compile(nn.Sequential(), backend="eager")
    module = magneto.compile(nn.Linear(3, 3), backend="eager")
    compiled = magneto.compile(lambda x: x + 1 if module else x, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2) + 1)


def test_compiled_module_has_a_signature():
    module = magneto.compile(torch.nn.Linear(3, 3), backend="eager")
    for function in (module, module.forward):
        parameters = inspect.signature(function).parameters
        assert [parameter.kind.name for parameter in parameters.values()] == ["VAR_POSITIONAL", "VAR_KEYWORD"]
    assert module.forward.__name__ == "forward"
    assert module.__call__.__name__ == "__call__"


def count(module):
    return len(magneto.cache_entries(module))


def test_is_a_module(net):
    compiled = eager(net)
    assert isinstance(compiled, nn.Module)
    assert isinstance(compiled, magneto.OptimizedModule)
    assert compiled._orig_mod is net


def test_call(net, x):
    compiled = eager(net)
    for _ in range(3):
        assert torch.equal(compiled(x), net(x))
    assert torch.equal(compiled(x, shift=1), net(x, shift=1))
    assert torch.equal(compiled.forward(x), net(x))
    assert count(compiled) == 2


def test_call_forms(net, x):
    compiled, keywords = eager(net), {"shift": 2}
    expected = net(x, shift=2)
    for found in (
        compiled(x, shift=2), compiled(x, **keywords), compiled(*(x,), **keywords), compiled(x=x, shift=2),
        compiled.__call__(x, shift=2), type(compiled).__call__(compiled, x, shift=2),
        functools.partial(compiled, x)(shift=2),
        next(map(functools.partial(compiled, shift=2), [x])),
    ):  # fmt: skip
        torch.testing.assert_close(found, expected)
    for args, kwargs in [((), {}), ((x, x), {}), ((x,), {"wrong": 1}), ((x,), {"x": x})]:
        with pytest.raises(TypeError) as ours:
            compiled(*args, **kwargs)
        with pytest.raises(TypeError) as theirs:
            net(*args, **kwargs)
        assert str(ours.value) == str(theirs.value)


def test_many_arguments(x):
    class Sum(nn.Module):
        def forward(self, *args, **kwargs):
            return sum(args) + sum(kwargs.values())

    compiled, names = eager(Sum()), {f"a{i}": x * i for i in range(30)}
    torch.testing.assert_close(compiled(*[x] * 20, **names), Sum()(*[x] * 20, **names))
    compiled.register_forward_hook(
        lambda module, args, output: output + 1
    )  # its own: nn.Module's __call__ gets all
    torch.testing.assert_close(compiled(*[x] * 20, **names), Sum()(*[x] * 20, **names) + 1)


def test_call_replaced_on_the_wrapper_class(net, x, monkeypatch):
    compiled = eager(net)
    compiled(x)
    own = type(compiled).__call__
    monkeypatch.setattr(type(compiled), "__call__", lambda self, *args, **kwargs: (own(self, *args), kwargs))
    torch.testing.assert_close(compiled(x, shift=3), (net(x), {"shift": 3}))
    monkeypatch.setattr(type(compiled), "__call__", staticmethod(lambda *args: args))
    assert compiled(1, 2) == (1, 2)
    monkeypatch.undo()
    torch.testing.assert_close(compiled(x, shift=3), net(x, shift=3))
    monkeypatch.delattr(type(compiled), "__call__")
    torch.testing.assert_close(
        compiled(x, shift=3), net(x, shift=3)
    )  # nn.Module's own, and forward is compiled


@pytest.mark.parametrize("way", ["itself", "its forward", "a partial", "two", "of the class"])
def test_module_that_calls_itself_for_good(way, x, monkeypatch):
    net, other = nn.Linear(4, 4), nn.Linear(4, 4)
    compiled, second = magneto.compile(net, backend="eager"), magneto.compile(other, backend="eager")
    if way == "of the class":
        monkeypatch.setattr(type(compiled), "__call__", compiled)
    else:
        net.__dict__["forward"] = {
            "itself": compiled, "its forward": compiled.forward, "a partial": functools.partial(compiled),
            "two": second,
        }[way]  # fmt: skip
        other.__dict__["forward"] = compiled
    with pytest.raises(RecursionError):
        (compiled.forward if way == "its forward" else compiled)(x)


def test_subclass_of_the_wrapper(net, x):
    class Mine(type(eager(net))):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs) + 1

    compiled = Mine(net, eager(net).__dict__["_settings"])
    torch.testing.assert_close(compiled(x, shift=3), net(x, shift=3) + 1)


def test_attributes_are_the_modules(net, x):
    compiled = eager(net)
    assert compiled.scale == 2
    assert compiled.helper() == "helped"
    assert compiled.lin is net.lin
    compiled.scale = 5
    assert net.scale == 5
    assert torch.equal(compiled(x), net(x))
    compiled.extra = 1
    assert net.extra == 1
    del compiled.extra
    assert not hasattr(net, "extra")
    assert not hasattr(compiled, "extra")
    with pytest.raises(AttributeError, match="missing"):
        compiled.missing  # noqa: B018
    assert "helper" in dir(compiled)


def test_replaced_submodule_is_used(net, x):
    compiled = eager(net)
    compiled(x)
    compiled.lin = nn.Linear(4, 4)
    assert torch.equal(compiled(x), net(x))


@pytest.mark.no_leak_hunt("torch.compile keeps what it has made")
def test_state_dict_is_that_of_torch_compile(net):
    compiled = eager(net)
    assert list(compiled.state_dict()) == list(torch.compile(net).state_dict())
    assert [name for name, _ in compiled.named_parameters()] == ["_orig_mod.lin.weight", "_orig_mod.lin.bias"]
    other = eager(Net())
    other.load_state_dict(compiled.state_dict())
    assert torch.equal(other.lin.weight, net.lin.weight)


def test_train_and_eval(net, x):
    compiled = eager(net)
    compiled(x)
    compiled.train()
    assert net.training
    assert net.drop.training
    assert compiled.training
    torch.manual_seed(1)
    ours = compiled(x)
    torch.manual_seed(1)
    assert torch.equal(ours, net(x))
    compiled.eval()
    assert not net.training
    assert torch.equal(compiled(x), net(x))


def test_moves_to_another_dtype(net, x):
    compiled = eager(net)
    compiled(x)
    compiled.double()
    assert compiled(x.double()).dtype == torch.float64


def test_pickle(net, x):
    compiled = eager(net)
    compiled(x)
    again = pickle.loads(pickle.dumps(compiled))
    assert isinstance(again, magneto.OptimizedModule)
    assert again._orig_mod is not net
    assert torch.equal(again(x), net(x))
    assert count(again) == 1


def test_torch_save(net, x):
    file = io.BytesIO()
    torch.save(eager(net), file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(again(x), net(x))


def test_deepcopy(net, x):
    compiled = eager(net)
    compiled(x)
    again = copy.deepcopy(compiled)
    with torch.no_grad():
        again.lin.weight.zero_()
    assert not torch.equal(again(x), compiled(x))
    assert torch.equal(compiled(x), net(x))


def test_len(net):
    assert len(eager(nn.Sequential(nn.ReLU(), nn.ReLU()))) == 2
    with pytest.raises(TypeError, match="'Net' has no len"):
        len(eager(net))


def test_hooks_on_the_module(net, x):
    compiled = eager(net)
    compiled(x)
    seen = []
    handle = net.register_forward_hook(lambda module, args, output: output + 1)
    assert torch.equal(compiled(x), net(x))
    before = net.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    assert torch.equal(compiled(x), net(x))
    handle.remove()
    before.remove()
    assert torch.equal(compiled(x), net(x))
    assert seen == []


def test_hooks_on_the_wrapper(net, x):
    compiled = eager(net)
    seen = []
    handle = compiled.register_forward_hook(lambda module, args, output: seen.append(module))
    assert torch.equal(compiled(x), net(x))
    assert seen == [compiled]
    handle.remove()
    compiled(x)
    assert seen == [compiled]


def test_hooks_on_a_submodule(net, x):
    compiled = eager(net)
    compiled(x)
    handle = net.lin.register_forward_hook(lambda module, args, output: output * 3)
    assert torch.equal(compiled(x), net(x))
    handle.remove()
    assert torch.equal(compiled(x), net(x))


def test_global_hooks(net, x):
    compiled = magneto.compile(net, backend="eager")
    compiled(x)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: seen.append(module))
    try:
        compiled(x)
    finally:
        handle.remove()
    assert seen[-1] is net
    assert net.lin in seen
    seen.clear()
    compiled(x)
    assert seen == []


@pytest.mark.no_leak_hunt("in eager, torch leaks as much for each such hook")
def test_backward_hook(net, x):
    compiled = magneto.compile(net, backend="eager")
    seen = []
    handle = net.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(module))
    compiled(x).sum().backward()
    handle.remove()
    assert seen == [net]


def test_forward_replaced_on_the_module(net, x):
    compiled = eager(net)
    compiled(x)
    net.forward = lambda x: x + 1
    assert torch.equal(compiled(x), x + 1)
    del net.forward
    assert torch.equal(compiled(x), net(x))


def test_forward_replaced_on_the_class(x):
    class Local(nn.Module):
        def forward(self, x):
            return x + 1

    compiled = eager(Local())
    assert torch.equal(compiled(x), x + 1)
    Local.forward = lambda self, x: x + 2
    assert torch.equal(compiled(x), x + 2)


def test_forward_replaced_on_the_wrapper(net, x):
    compiled = eager(net)
    compiled(x)
    compiled.forward = lambda x: x * 3
    for _ in range(3):
        assert torch.equal(compiled(x), x * 3)
    assert "forward" not in net.__dict__
    del compiled.forward
    assert torch.equal(compiled(x), net(x))


@pytest.mark.parametrize("name", ["__call__", "_call_impl"])
def test_call_replaced_on_the_class(x, name):
    class Small(nn.Module):
        def forward(self, x):
            return x + 1

    small = Small()
    compiled = eager(small)
    for factor in (9, 10):
        for _ in range(3):
            assert torch.equal(compiled(x), x + 1)
        for more in (0, 1):
            setattr(Small, name, lambda self, x, factor=factor + more: x * factor)
            for _ in range(3):
                assert torch.equal(compiled(x), x * (factor + more))
        delattr(Small, name)


def test_call_replaced_on_the_module(net, x):
    compiled = eager(net)
    compiled(x)
    net._call_impl = lambda x: x * 3
    for _ in range(3):
        assert torch.equal(compiled(x), x * 3)
    del net._call_impl
    assert torch.equal(compiled(x), net(x))


def test_module_with_a_call_of_its_own(x):
    class Odd(nn.Module):
        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return x * 2

    compiled = eager(Odd())
    assert torch.equal(compiled(x), x * 2 + 1)
    assert torch.equal(compiled(x), x * 2 + 1)


def test_lazy_module(x):
    module = nn.Sequential(nn.LazyLinear(2))
    compiled = magneto.compile(module, backend="eager")
    assert compiled(x).shape == (3, 2)
    compiled = magneto.compile(nn.LazyLinear(2), backend="eager")
    assert compiled(x).shape == (3, 2)
    assert compiled(x).shape == (3, 2)
    assert type(compiled._orig_mod) is nn.Linear


def test_wrapper_in_a_module(net, x):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = eager(net)

        def forward(self, x):
            return self.inner(x) + 1

    outer = Outer()
    assert torch.equal(outer(x), net(x) + 1)
    assert torch.equal(eager(outer)(x), net(x) + 1)
    assert list(outer.state_dict())[0].startswith("inner._orig_mod.")


def test_forward_compiled_in_place(net, x):
    expected = net(x)
    net.forward = eager(net.forward)
    assert torch.equal(net(x), expected)
    assert torch.equal(net(x), expected)
    assert count(net.forward) == 1


def test_module_is_freed_with_its_wrapper(x):
    net = Net().eval()
    compiled = eager(net)
    compiled(x)
    module, weight = weakref.ref(net), weakref.ref(net.lin.weight)
    del net
    assert module() is not None
    del compiled
    gc.collect()
    assert module() is None
    assert weight() is None


def test_old_parameters_are_freed(net, x):
    compiled = eager(net)
    compiled(x)
    old = weakref.ref(net.lin.weight)
    net.lin.weight = nn.Parameter(torch.zeros(4, 4))
    gc.collect()
    assert old() is None
    assert torch.equal(compiled(x), net(x))
