"""Programs with operators that are given functions: as eager, with gradients; graphs as torch.compile's."""

from __future__ import annotations

import pytest
import torch

from . import (  # noqa: F401
    check,
    programs_checkpoint,
    programs_control,
    programs_flex,
    programs_functions,
    programs_regions,
    programs_transforms,
    programs_vmap,
)

NAMES = list(check.PROGRAMS)

pytestmark = pytest.mark.filterwarnings("ignore")

# Where eager itself has no second derivative.
ONCE = {"checkpoint_selective"}

# Where our graphs are others than torch.compile's, and why.
DIFFERENT = {
    "checkpoint_returns_what_it_is_given": "what it is given is no output: it is the same tensor behind the checkpoint",
    "checkpoint_sequential_modules": "torch.compile does not capture it",
    "function_class_method": "torch.compile does not capture it",
    "vmap_in_chunks": "what loads decompositions stands before each chunk",
    "vmap_of_grad_in_chunks": "what loads decompositions stands before each chunk",
    "hessian_of_parameters": "torch.compile does not capture it",
    "vmap_of_hessian": "torch.compile does not capture it",
    "jacrev_of_a_pytree": "torch.compile does not always capture it",
    "region_returns_a_dict": "torch.compile has what a region that is called once does in the graph itself",
    "region_with_other_constants": "torch.compile has what a region that is called once does in the graph itself",
    "region_with_other_sizes": "torch.compile has what a region that is called once does in the graph itself",
    "function_without_gradients": "where no gradient can flow, the forward is captured as any function",
}


def _order(name: str) -> int:
    return 1 if name in ONCE else 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", check.parameters())
def test_as_eager(name: str, backend: str) -> None:
    if name in check.FAILS.get(backend, ()):
        pytest.skip(check.FAILS[backend][name])
    make = check.PROGRAMS[name]
    order = _order(name) if backend == "eager" else 1
    made = check.made(make)
    expected = check.outcomes(made, made[0], order)
    made = check.made(make)
    function = check.by_magneto(made[0], backend)
    check.assert_same(check.captured(lambda: check.outcomes(made, function, order)), expected)


@pytest.mark.parametrize("name", check.parameters_by_torch(DIFFERENT))
def test_graphs_as_by_torch_compile(name: str) -> None:
    found = []
    for compile in (check.by_magneto, check.by_torch):
        made, backend = check.made(check.PROGRAMS[name]), check.Graphs()
        function = compile(made[0], backend)
        for args in made[1]:
            function(*args)
        found.append([check.shape(graph) for graph in backend.graphs])
    assert found[0] == found[1]


@pytest.mark.no_leak_hunt("inductor keeps what it has compiled")
@pytest.mark.parametrize("name", [name for name in NAMES[::5] if name not in check.FAILS["inductor"]])
def test_by_inductor(name: str) -> None:
    make = check.PROGRAMS[name]
    made = check.made(make)
    expected = check.outcomes(made, made[0], 1)
    made = check.made(make)
    function = check.by_magneto(made[0], "inductor")
    check.assert_same(check.captured(lambda: check.outcomes(made, function, 1)), expected)
    torch._dynamo.reset()
