"""torch.func: what captured code is led through in place of its transforms, and what our own replay calls for them.

A function under a transform is a subgraph whose inputs are as its code sees them. No level of functorch is entered
while code is captured: what comes out is worked out by the functions that our own replay calls (`run_grad`, `run_vjp`,
`run_pull`, `run_jvp`), on FakeTensors. The graph for a backend has the levels as nodes; `_levels.py` puts them there.
See `_higher.py` for what `_core.subgraph` does, and for names of variables.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch import eager_transforms as _eager
from torch._functorch import predispatch as _predispatch
from torch._functorch import vmap as _vmap
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from magneto import _core
from magneto._polyfills import give_up

_subgraph: Any = _core.subgraph
_make_dual: Any = forward_ad.make_dual
_unpack_dual: Any = forward_ad.unpack_dual


# ---- what our own replay calls ----


def run_grad(module: Any, *operands: Any, own: int, diff: tuple[int, ...], enables: bool) -> Any:
    """`torch.func.grad`: the gradients, then what the function returned.

    `own` is the number of operands that the program has passed to its function, `diff` are those of them that gradients
    are wanted of. The function got at all others by itself. `enables`: the transform switches grad mode on.
    """
    given = operands[own:]

    def function(wanted: Any, others: Any) -> Any:
        args = list(others)
        for place, arg in zip(diff, wanted, strict=True):
            args[place] = arg
        outputs = module(*args, *given)
        return outputs[0], outputs[1:]

    wanted = tuple([operands[place] for place in diff])
    others = [None if place in diff else one for place, one in enumerate(operands[:own])]
    grads, (output, aux) = _eager.grad_and_value_impl(function, 0, True, (wanted, others), {})
    return (*grads, output, *aux)


@_vmap.doesnt_support_saved_tensors_hooks
def _vjp(module: Any, operands: Any, own: int, diff: tuple[int, ...], count: int) -> Any:
    """What `run_vjp` returns."""
    with _eager.grad_increment_nesting() as level, torch.enable_grad():
        args = [_eager._wrap_tensor_for_grad(one, level) for one in operands[:own]]
        inputs = [_eager._create_differentiable(args[place], level) for place in diff]
        outputs = module(*args, *operands[own:])
        results = [_predispatch._unwrap_for_grad(one, level) for one in outputs]
        return (*results, *outputs[:count], *inputs)


def run_vjp(
    module: Any, *operands: Any, own: int, diff: tuple[int, ...], count: int, chosen: bool, enables: bool
) -> Any:
    """The first half of `torch.func.vjp`: what the function returned, the first `count` of that as it is known to
    autograd, and the inputs that gradients are wanted of, as they are known to autograd.
    """
    found = _vjp(module, operands, own, diff, count)
    within = torch._C._functorch.peek_interpreter_stack() is not None
    if not within and any(isinstance(one, FakeTensor) for one in operands):
        places = len(found) - count - len(diff)
        found = (*found[:places], *[_stand_in(one) for one in found[places:]])
    return found


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """For a tensor of a level that is left, which only autograd can use: a FakeTensor that is like it."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def run_pull(
    module: Any,
    *operands: Any,
    own: int,
    diff: tuple[int, ...],
    count: int,
    chosen: bool,
    enables: bool,
    retain_graph: bool,
    create_graph: bool,
) -> Any:
    """The second half of `torch.func.vjp`: the gradients.

    The operands are the last two groups of what `run_vjp` has returned, as many cotangents as in the first of them, and
    the operands of `run_vjp`. Those are only needed to know what the gradients look like.
    """
    cotangents, inputs = count + len(diff), count + count + len(diff)
    outputs, wanted = operands[:count], operands[count:cotangents]
    if any(isinstance(one, FakeTensor) for one in (*outputs, *wanted)):
        known = _vjp(module, operands[inputs:], own, diff, count)
        outputs, wanted = known[-count - len(diff) : -len(diff)], known[-len(diff) :]
    with _eager._disable_inference_mode():
        return _eager._autograd_grad(
            outputs,
            wanted,
            operands[cotangents:inputs],
            retain_graph=retain_graph,
            create_graph=create_graph,
        )


def run_jvp(module: Any, *operands: Any, own: int, diff: tuple[int, ...], count: int, wraps: bool) -> Any:
    """`torch.func.jvp`: the first `count` that the function returned, their tangents, its other results, and for each
    tangent whether it is made of zeros because the output does not depend on the inputs.

    The first operands are the tangents. `wraps` has those that have none belong to the level too.
    """
    tangents, operands = operands[: len(diff)], operands[len(diff) :]
    with _eager.jvp_increment_nesting() as level, forward_ad._set_fwd_grad_enabled(True):
        if _eager.JVP_NESTING == 1:
            with forward_ad.dual_level():
                return _push(module, tangents, operands, own, diff, count, level if wraps else None, level)
        return _push(module, tangents, operands, own, diff, count, level if wraps else None, level)


def _push(
    module: Any,
    tangents: Any,
    operands: Any,
    own: int,
    diff: tuple[int, ...],
    count: int,
    wrapping: int | None,
    level: int,
) -> Any:
    duals = [_make_dual(operands[place], one) for place, one in zip(diff, tangents, strict=True)]
    args = list(operands[:own])
    if wrapping is not None:
        args = [_eager._wrap_tensor_for_grad(one, wrapping) for one in args]
    for place, one in zip(diff, duals, strict=True):
        args[place] = one
    outputs = module(*args, *operands[own:])
    unpacked = [_unpack_dual(one) for one in outputs[:count]]
    pairs = [(one, torch.zeros_like(one) if dual is None else dual) for one, dual in unpacked]
    found = [one for one, _ in pairs] + [dual for _, dual in pairs] + list(outputs[count:])
    missing = tuple([dual is None for _, dual in unpacked])
    return (*[_predispatch._unwrap_for_grad(one, level) for one in found], missing)


# ---- what captured code is led through ----


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _position(value: Any, items: list[Any]) -> int:
    """Where a tensor is in a list; -1 if it is not."""
    for place in range(len(items)):
        if items[place] is value:
            return place
    return -1


class _Inputs:
    """The arguments of a function under a transform."""

    def __init__(self, args: Any, kwargs: Any, argnums: Any) -> None:
        self.flat, self.spec = pytree.tree_flatten((args, kwargs))
        numbered = pytree.tree_unflatten(list(range(len(self.flat))), self.spec)[0]
        chosen = numbered if argnums is None else _eager._slice_argnums(numbered, argnums, as_tuple=False)
        leaves, self.chosen_spec = pytree.tree_flatten(chosen)
        self.places = [place for place in range(len(self.flat)) if _is_tensor(self.flat[place])]
        if not leaves or not all(builtins.map(self.places.__contains__, leaves)):
            give_up("an argument of a transform that is no tensor")
        if not all(builtins.map(_is_floating, [self.flat[place] for place in leaves])):
            give_up("an argument of a transform that is no floating-point tensor")
        self.diff = tuple([self.places.index(place) for place in leaves])
        self.operands = [self.flat[place] for place in self.places]

    def call(self, graph: Any, function: Any, differentiable: bool) -> Any:
        """What the function returns for inputs of the subgraph."""
        flat = list(self.flat)
        for number in range(len(self.places)):
            place = self.places[number]
            flat[place] = _subgraph("level", graph, flat[place], differentiable and number in self.diff)
        args, kwargs = pytree.tree_unflatten(flat, self.spec)
        return function(*args, **kwargs)


class _Outputs:
    """Which tensors a subgraph returns: each once."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []

    def add(self, values: Sequence[Any], apart: bool) -> list[int]:
        """Add tensors, and return their places; `apart` has all be new ones."""
        places = []
        for index in range(len(values)):
            if not _is_tensor(values[index]):
                give_up("what a function under a transform returns")
            place = -1 if apart else _position(values[index], self.tensors)
            if place < 0:
                place = len(self.tensors)
                self.tensors.append(values[index])
            places.append(place)
        return places


def _pair(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, ()
    if not isinstance(result, tuple) or len(result) != 2:
        give_up("a function under a transform with has_aux=True that does not return a pair")
    return result[0], result[1]


def _record(inputs: _Inputs, function: Any, has_aux: bool, differentiable: bool) -> tuple[Any, Any, Any]:
    """Record a function: the subgraph, still open, and the two parts of what it returned."""
    graph = _subgraph("once")
    try:
        if differentiable:
            with torch.enable_grad():
                result, aux = _pair(inputs.call(graph, function, differentiable), has_aux)
        else:
            result, aux = _pair(inputs.call(graph, function, differentiable), has_aux)
    except BaseException:
        give_up("an exception in a function under a transform")
        raise
    return graph, result, aux


def grad_and_value_impl(func: Any, argnums: Any, has_aux: bool, args: Any, kwargs: Any) -> Any:
    """What `torch.func.grad` and `grad_and_value` call."""
    inputs = _Inputs(args, kwargs, argnums)
    graph, output, aux = _record(inputs, func, has_aux, True)
    if not _is_tensor(output) or output.dim() != 0:
        give_up("a function under torch.func.grad that does not return a tensor without dimensions")
    outputs = _Outputs()
    outputs.add([output], True)
    flat, spec = pytree.tree_flatten(aux)
    places = outputs.add(flat, False)
    given = _subgraph("close", graph, tuple(outputs.tensors), True)
    _subgraph("name", graph, "grad_body")
    options = {"own": len(inputs.operands), "diff": inputs.diff, "enables": not torch.is_grad_enabled()}
    results = _subgraph("call", run_grad, (graph, *inputs.operands, *given), options)
    count = len(inputs.diff)
    grads = pytree.tree_unflatten(list(results[:count]), inputs.chosen_spec)
    if not has_aux:
        return grads, results[count]
    return grads, (results[count], pytree.tree_unflatten([results[count + one] for one in places], spec))


def vjp_with_argnums(func: Any, *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    """What `torch.func.vjp` and `jacrev` call."""
    inputs = _Inputs(primals, {}, argnums)
    graph, output, aux = _record(inputs, func, has_aux, True)
    flat, output_spec = pytree.tree_flatten(output)
    _eager.assert_non_empty_tensor_output(flat, "vjp(f, *primals)")
    if not all(builtins.map(_is_floating, flat)):
        give_up("a function under torch.func.vjp that returns something else than floating-point tensors")
    outputs = _Outputs()
    outputs.add(flat, True)
    count = len(flat)
    flat_aux, aux_spec = pytree.tree_flatten(aux)
    places = outputs.add(flat_aux, False)
    given = _subgraph("close", graph, tuple(outputs.tensors), True)
    _subgraph("name", graph, "vjp_body")
    operands = (*inputs.operands, *given)
    options = {
        "own": len(inputs.operands),
        "diff": inputs.diff,
        "count": count,
        "chosen": argnums is not None,
        "enables": not torch.is_grad_enabled(),
    }
    results = _subgraph("call", run_vjp, (graph, *operands), options)
    held = results[len(outputs.tensors) :]

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        if create_graph is None:
            create_graph = torch.is_grad_enabled()
        flat_cotangents, cotangents_spec = pytree.tree_flatten(cotangents)
        if output_spec != cotangents_spec or not all(builtins.map(_is_tensor, flat_cotangents)):
            give_up("torch.func.vjp: cotangents of another structure than the outputs")
        more = {"retain_graph": retain_graph, "create_graph": create_graph}
        found = _subgraph("call", run_pull, (graph, *held, *flat_cotangents, *operands), options | more)
        return pytree.tree_unflatten(list(found), inputs.chosen_spec)

    primals_out = pytree.tree_unflatten(list(results[:count]), output_spec)
    if has_aux:
        return primals_out, vjp_fn, pytree.tree_unflatten([results[one] for one in places], aux_spec)
    return primals_out, vjp_fn


def jvp_with_argnums(
    func: Any, primals: Any, tangents: Any, argnums: Any, *, strict: bool = False, has_aux: bool
) -> Any:
    """What `torch.func.jvp` and `jacfwd` call."""
    if not isinstance(primals, tuple):
        give_up("torch.func.jvp: primals that are no tuple")
    if any(one < 0 for one in (argnums if isinstance(argnums, tuple) else (argnums or 0,))):
        give_up("jvp by a negative position")  # torch finds no argument there, and gives zeros
    chosen = primals if argnums is None else _eager._slice_argnums(primals, argnums)
    if pytree.tree_flatten(chosen)[1] != pytree.tree_flatten(tangents)[1]:
        give_up("torch.func.jvp: tangents of another structure than the primals")
    flat_tangents = pytree.tree_leaves(tangents)
    if not all(builtins.map(_is_tensor, flat_tangents)):
        give_up("torch.func.jvp: a tangent that is no tensor")
    inputs = _Inputs(primals, {}, argnums)
    graph, output, aux = _record(inputs, func, has_aux, False)
    flat, output_spec = pytree.tree_flatten(output)
    _eager.assert_non_empty_tensor_output(flat, _eager.jvp_str)
    outputs = _Outputs()
    outputs.add(flat, True)
    count = len(flat)
    flat_aux, aux_spec = pytree.tree_flatten(aux)
    places = outputs.add(flat_aux, False)
    given = _subgraph("close", graph, tuple(outputs.tensors), True)
    _subgraph("name", graph, "jvp_body")
    options = {
        "own": len(inputs.operands),
        "diff": inputs.diff,
        "count": count,
        "wraps": argnums is not None,
    }
    results = _subgraph("call", run_jvp, (graph, *flat_tangents, *inputs.operands, *given), options)
    if strict and True in results[-1]:
        give_up("torch.func.jvp with strict=True: an output that does not depend on the inputs")
    found = list(results[count : 2 * count])
    both = (
        pytree.tree_unflatten(list(results[:count]), output_spec),
        pytree.tree_unflatten(found, output_spec),
    )
    if has_aux:
        others = [results[one if one < count else one + count] for one in places]
        return (*both, pytree.tree_unflatten(others, aux_spec))
    return both
