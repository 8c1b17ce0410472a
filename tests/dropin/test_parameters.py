"""Parameters of classes of their own: plain where the class has no behaviour of its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import magneto

X = torch.ones(2, 3)


def load(x):
    return x


class Plain(nn.Parameter):
    """Behaves as a parameter does."""

    rank = 3

    def __new__(cls, data, **_):
        return super().__new__(cls, data)

    def __init__(self, data, loader=None):
        self.loader = loader

    def ranked(self, x):
        return x * self.rank


class Further(Plain):
    pass


class Special(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Module(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.weight = kind(torch.ones(3))

    def forward(self, x):
        return x * self.weight


@pytest.mark.parametrize("kind", [Plain, Further])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_of_a_class_without_behaviour_are_plain(kind, backend):
    module = Module(kind)
    compiled = magneto.compile(module, backend=backend, fullgraph=True)
    result = compiled(X)
    assert torch.equal(result, module(X)) and result.requires_grad
    result.sum().backward()
    assert torch.equal(module.weight.grad, torch.full((3,), 2.0))


def test_captured_code_sees_the_class():
    weight = Further(torch.ones(3), loader=load)

    def f(x):
        seen = (
            type(weight) is Further, isinstance(weight, Plain), isinstance(weight, nn.Parameter), isinstance(x, Plain),
            weight.__class__.__name__, weight.loader is load, weight.rank,
        )  # fmt: skip
        return weight.ranked(x) + weight, seen

    result, seen = magneto.compile(f, backend="eager", fullgraph=True)(X)
    assert torch.equal(result, f(X)[0]) and seen == f(X)[1]


def test_another_class_is_another_entry():
    def f(x, weight):
        return x * weight

    compiled = magneto.compile(f, backend="eager", fullgraph=True)
    for kind in (Plain, nn.Parameter, Further, Plain):
        compiled(X, kind(torch.ones(3)))
    assert len(magneto.cache_entries(compiled)) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_class_with_behaviour_is_no_plain_parameter(backend):
    module = Module(Special)
    compiled = magneto.compile(module, backend=backend, fullgraph=True)
    result, expected = compiled(X), module(X)
    assert torch.equal(result, expected) and type(result) is type(expected) and result.requires_grad
    result.sum().backward()
    assert torch.equal(module.weight.grad, torch.full((3,), 2.0))
