"""An operation raises after others have changed something: all is as in eager, in the first run and in later ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from programs.harness import _Walk
from torch import nn

import magneto

BAD, GOOD = torch.tensor([7]), torch.tensor([0])

library = torch.library.Library("magneto_failing", "DEF")
library.define("picky(Tensor x) -> Tensor")


def _picky(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 3:
        raise ValueError("too much")
    return x.clone()


library.impl("picky", _picky, "CompositeExplicitAutograd")
torch.library.register_fake("magneto_failing::picky", torch.empty_like)

State = dict[str, Any]

ACTIONS: dict[str, Callable[[State], Any]] = {
    "set_": lambda s: s["x"].set_(s["y"]),
    "set_ of a storage": lambda s: s["x"].set_(s["y"].untyped_storage(), 0, (2,), (1,)),
    "data": lambda s: setattr(s["x"], "data", s["y"] * 2),
    "data of a parameter": lambda s: setattr(s["p"], "data", torch.ones(6)),
    "data.add_": lambda s: s["x"].data.add_(1),
    "fused_adamw": lambda s: torch._fused_adamw_(
        [s["p"]], [s["g"]], [s["m"]], [s["v"]], [], [s["step"]], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1,
        eps=1e-8, amsgrad=False, maximize=False,
    ),
    "fused_sgd": lambda s: torch._fused_sgd_(
        [s["p"]], [s["g"]], [s["m"]], weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False,
        maximize=False, is_first_step=False,
    ),
    "batch_norm": lambda s: F.batch_norm(s["x"].view(2, 3), s["mean"], s["variance"], training=True),
    "BatchNorm1d": lambda s: s["norm"](s["x"].view(2, 3)),
    "foreach_add_": lambda s: torch._foreach_add_([s["x"], s["y"]], 1.0),
    "foreach_copy_": lambda s: torch._foreach_copy_([s["x"]], [s["y"]]),
    "foreach_lerp_": lambda s: torch._foreach_lerp_([s["x"]], [s["y"]], 0.5),
    "resize_": lambda s: s["x"].resize_(2),
    "t_": lambda s: s["a"].t_(),
    "unsqueeze_": lambda s: s["a"].unsqueeze_(0),
    "transpose_": lambda s: s["a"].transpose_(0, 1),
    "squeeze_": lambda s: s["b"].squeeze_(),
    "as_strided_": lambda s: s["a"].as_strided_((2,), (2,)),
    "t_ of a view": lambda s: s["a"][:].t_(),
    "requires_grad_": lambda s: s["x"].requires_grad_(),
    "requires_grad": lambda s: setattr(s["x"], "requires_grad", True),
    "detach_": lambda s: s["inner"].detach_(),
    "randn": lambda s: s["log"].append(torch.randn(2)),
    "rand of a generator": lambda s: s["log"].append(torch.rand(2, generator=s["generator"])),
    "dropout": lambda s: s["log"].append(F.dropout(s["x"])),
    "dropout in place": lambda s: F.dropout(s["x"], inplace=True),
    "normal_": lambda s: s["x"].normal_(),
    "bernoulli_": lambda s: s["x"].bernoulli_(0.5),
    "init": lambda s: nn.init.xavier_uniform_(s["a"]),
    "manual_seed": lambda s: torch.manual_seed(5),
    "mul_ by a parameter": lambda s: s["x"].mul_(s["p"]),
    "mul_ of a view by a parameter": lambda s: s["x"][:2].mul_(s["p"][:2]),
    "backward": lambda s: (s["p"] * s["x"]).sum().backward(),
    "grad": lambda s: setattr(s["p"], "grad", s["x"].clone()),
    "out": lambda s: torch.add(s["x"], 1, out=s["y"]),
    "out that is resized": lambda s: torch.add(s["x"], 1, out=s["empty"]),
    "setitem": lambda s: s["x"].__setitem__(0, 5.0),
    "index_add_": lambda s: s["x"].index_add_(0, torch.tensor([0]), s["y"][:1]),
    "renorm of an embedding": lambda s: F.embedding(torch.tensor([0]), s["a"], max_norm=0.5),
    "step of an optimizer": lambda s: s["optimizer"].step(),
    "swap_tensors": lambda s: torch.utils.swap_tensors(s["x"], s["y"]),
    "attribute": lambda s: setattr(s["x"], "note", 3),
    "list": lambda s: s["log"].append(s["x"] + 1),
}  # fmt: skip

FAILURES: dict[str, Callable[[State, torch.Tensor], Any]] = {
    "index": lambda s, i: s["c"][i],
    "embedding": lambda s, i: F.embedding(i, s["c"].view(3, 1)),
    "inverse": lambda s, i: torch.linalg.inv(torch.eye(2) * (7 - i)),
    "division": lambda s, i: 5 // (7 - i),
    "operator": lambda s, i: torch.ops.magneto_failing.picky(i.float()),
    "setitem": lambda s, i: s["c"].__setitem__(i, 1.0),
    "scatter_": lambda s, i: s["c"].scatter_(0, i, s["c"][:1] * 2),
    "multinomial": lambda s, i: torch.multinomial(s["c"] - i, 1),
    "leaf": lambda s, i: (s["leaf"].add_(1) if i.item() == 7 else None, s["c"][i]),
}


def make() -> State:
    torch.manual_seed(3)
    state: State = {
        "x": torch.arange(6.0) + 1, "y": torch.full((6,), 2.0), "p": torch.arange(6.0, requires_grad=True),
        "g": torch.ones(6), "m": torch.zeros(6), "v": torch.zeros(6), "step": torch.tensor(1.0), "mean": torch.zeros(3),
        "variance": torch.ones(3), "a": torch.arange(4.0).view(2, 2), "b": torch.ones(1, 3), "c": torch.arange(3.0),
        "empty": torch.empty(0), "log": [], "leaf": torch.ones(3, requires_grad=True), "norm": nn.BatchNorm1d(3),
        "generator": torch.Generator().manual_seed(2), "w": torch.ones(3, requires_grad=True),
    }  # fmt: skip
    state["inner"], state["w"].grad = state["p"] * 2, torch.ones(3)
    state["optimizer"] = torch.optim.SGD([state["w"]], lr=0.1, momentum=0.9)
    return state


def outcome(function: Callable[..., Any], index: torch.Tensor) -> tuple[Any, ...]:
    """All that can be seen of a call and of what it was given."""
    state = make()
    torch.manual_seed(0)
    try:
        result: Any = function(state, index)
    except Exception as error:
        result = type(error).__name__, str(error)
    walk = _Walk("")
    tensors = {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}
    return (
        walk(result),
        walk({key: value for key, value in state.items() if key not in ("generator", "optimizer")}),
        walk(state["optimizer"].state_dict()),
        [(key, value._version, type(value.grad_fn).__name__) for key, value in tensors.items()],
        torch.random.get_rng_state().tolist(),
        state["generator"].get_state().tolist(),
    )


def programs(action: Callable[..., Any], failure: Callable[..., Any]) -> list[Callable[..., Any]]:
    def handles(s, i):
        s["log"].append("before")
        action(s)
        kept = s["x"].sum()
        try:
            result = failure(s, i)
        except (IndexError, RuntimeError, ValueError) as error:
            s["log"].append(type(error).__name__)
            result = s["x"] * 2, s["a"].shape, kept
        s["log"].append("after")
        return result

    def raises(s, i):
        s["log"].append("before")
        action(s)
        s["new"] = 1
        result = failure(s, i)
        s["log"].append("after")
        return result

    def acts_in_finally(s, i):
        try:
            action(s)
            result = failure(s, i)
        finally:
            s["log"].append("finally")
            action(s)
        return result

    return [handles, raises, acts_in_finally]


def check(name: str, failures: list[str]) -> None:
    for failure in failures:
        for program in programs(ACTIONS[name], FAILURES[failure]):
            for indices in ((BAD, BAD, GOOD), (GOOD, BAD, BAD)):
                compiled = magneto.compile(program, backend="eager")
                for index in indices:
                    assert outcome(compiled, index) == outcome(program, index), (failure, program.__name__)


@pytest.mark.parametrize("name", ACTIONS)
def test_what_was_done_before_an_error_is_done_once(name: str) -> None:
    check(name, ["index", "setitem"])


@pytest.mark.parametrize("failure", FAILURES)
def test_all_kinds_of_errors(failure: str) -> None:
    for name in ("foreach_add_", "t_", "batch_norm", "mul_ by a parameter", "randn"):
        check(name, [failure])
