"""Optimizers of torch.optim in captured code.

They keep their step counts in tensors. Where code is compiled they compute with those tensors, if a group is
`capturable`; else they ask for the numbers, which a graph does not have. So captured code is led through the loops of
each optimizer with `capturable=True`, as TorchDynamo does it; the flag in the group is left alone.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import _use_grad_for_differentiable

from magneto._polyfills import give_up

# Their steps depend on a small difference of two large numbers, which float32 does not hold: the steps are counted in
# float64 for them, as eager's floats are.
_EXACT = ("torch.optim.radam",)


def _capturable(function: types.FunctionType) -> Callable[..., Any]:
    """What captured code calls in place of `function`."""
    code, name = function.__code__, function.__name__
    # a function of its own, since calls of `function` lead here
    inner: Any = types.FunctionType(
        code, function.__globals__, name, function.__defaults__, function.__closure__
    )
    inner.__kwdefaults__ = function.__kwdefaults__

    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            kwargs["capturable"] = True
        return inner(*args, **kwargs)

    def call_exactly(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling() or len(args) <= place:
            return inner(*args, **kwargs)
        kwargs["capturable"] = True
        steps = args[place]
        exact = [step.to(torch.float64) for step in steps]
        inner(*args[:place], exact, *args[place + 1 :], **kwargs)
        for index, step in enumerate(steps):
            step.copy_(exact[index])

    if function.__module__ not in _EXACT:
        return call
    place = list(inspect.signature(function).parameters).index("state_steps")
    return call_exactly


def _loops() -> dict[Any, Callable[..., Any]]:
    """The functions that update all parameters of a group, and what captured code is led through in place of them."""
    found = {}
    for module in [sys.modules[name] for name in sys.modules if name.startswith("torch.optim.")]:
        for name, value in vars(module).items():
            ours = inspect.isfunction(value) and value.__module__ == module.__name__
            if ours and name.startswith(("_single_tensor_", "_multi_tensor_")):
                parameter = inspect.signature(value).parameters.get("capturable")
                if parameter is not None and parameter.kind is parameter.KEYWORD_ONLY:
                    found[value] = _capturable(value)
    return found


CAPTURABLE = _loops()


def prepare(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Make the state that the step of one of torch's optimizers, given `args`, would make first: none if it has it.

    So the first step that is captured finds its state, as all later ones do.
    """
    if len(args) != 1 or kwargs:  # a closure would make other gradients
        return
    optimizer = args[0]
    cls = type(optimizer)
    if not cls.__module__.startswith("torch.optim."):
        return
    start = getattr(cls, "_init_group", None)
    ours = inspect.isfunction(start) and start.__module__.startswith("torch.optim.")
    if start is None or not ours or "_init_group" in vars(optimizer):
        return
    lists = start.__code__.co_argcount - 2
    try:
        for group in optimizer.param_groups:
            start(optimizer, group, *([] for _ in range(lists)))
    except Exception:  # the step raises it
        pass


# Where a step of torch's optimizers is captured from: behind the break that it begins with.
PREPARED = {
    code: prepare
    for code in _use_grad_for_differentiable.__code__.co_consts
    if inspect.iscode(code) and code.co_varnames[:2] == ("args", "kwargs")
}

# Steps that are called whole, at a break: they call a closure with a backward in it, or compute with sparse gradients.
REFUSED: tuple[Any, ...] = (torch.optim.LBFGS.step, torch.optim.SparseAdam.step)


def _as_tensor(number: Any, like: Any) -> Any:
    """A float that varies as a tensor, in a form of which AOTAutograd makes tensor arithmetic, without a guard."""
    if not isinstance(number, float) or not isinstance(like, torch.Tensor) or not like.is_floating_point():
        give_up("a number that varies, and is no float")
    return torch.ones((), dtype=like.dtype, device=like.device) * number


def _factor(tensor: Any, other: Any, factor: Any) -> Any:
    """A factor that eager takes as a number out of a tensor, as a tensor that is computed with in the same way."""
    plain = (
        isinstance(tensor, torch.Tensor)
        and isinstance(factor, torch.Tensor)
        and isinstance(other, torch.Tensor)
    )
    if not plain or factor.dim() != 0 or (factor.requires_grad and torch.is_grad_enabled()):
        give_up("a factor that is no plain tensor of one number")
    exact = tensor.dtype == torch.float32 or tensor.dtype == torch.float64
    same = tensor.dtype == other.dtype and tensor.device == other.device and tensor.device == factor.device
    if (
        not exact
        or not same
        or not factor.is_floating_point()
        or (tensor.dim() == 0 and factor.dtype != tensor.dtype)
    ):
        give_up("a factor of another dtype, or on another device")
    return factor


def _add_(self: Any, other: Any, *, alpha: Any) -> Any:
    return self.addcmul_(other, _factor(self, other, alpha))


def _addcmul_(self: Any, tensor1: Any, tensor2: Any, *, value: Any) -> Any:
    return self.addcmul_(tensor1 * _factor(self, tensor1, value), tensor2)


def _addcdiv_(self: Any, tensor1: Any, tensor2: Any, *, value: Any) -> Any:
    return self.addcdiv_(tensor1 * _factor(self, tensor1, value), tensor2)


# Methods that take a number (a learning rate, say) out of a tensor, and the same on tensors, with eager's results.
SCALED: dict[Any, Callable[..., Any]] = {
    torch.Tensor.add_: _add_,
    torch.Tensor.addcmul_: _addcmul_,
    torch.Tensor.addcdiv_: _addcdiv_,
}


def _foreach_add_(self: Any, other: Any, *, alpha: Any = 1) -> None:
    if isinstance(other, float):
        torch._foreach_add_(self, _as_tensor(other, self[0]))
    else:
        factor = _as_tensor(alpha, self[0])
        torch._foreach_addcmul_(self, other, [factor for _ in self])


def _foreach_mul_(self: Any, other: Any) -> None:
    torch._foreach_mul_(self, _as_tensor(other, self[0]))


def _foreach_div_(self: Any, other: Any) -> None:
    torch._foreach_div_(self, _as_tensor(other, self[0]))


# Functions that take a number, and the same with a tensor, for backends to which it would be a constant.
EACH: dict[Any, Callable[..., Any]] = {
    torch._foreach_add_: _foreach_add_,
    torch._foreach_mul_: _foreach_mul_,
    torch._foreach_div_: _foreach_div_,
}


def _rated(function: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if "lr" not in kwargs or isinstance(kwargs["lr"], torch.Tensor):
            give_up("a number that varies in a fused optimizer")
        kwargs["lr"] = torch.tensor(kwargs["lr"], dtype=torch.float64)
        return function(*args, **kwargs)

    return call


# Steps of fused optimizers: they take a rate that varies as a tensor too.
RATED: dict[Any, Callable[..., Any]] = {
    function: _rated(function)
    for function in (torch._fused_sgd_, torch._fused_adam_, torch._fused_adamw_, torch._fused_adagrad_)
}
