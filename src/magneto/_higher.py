"""Operators that are given functions: captured code is led through these functions in place of them.

Each function is captured as a graph of its own, by `_core.subgraph(action, ...)`:

- `open(roots, may_write)`: a new subgraph; what is recorded from here on is its own. `roots` is a tuple of what the
  function can get at; `may_write` allows it to write to tensors that it is given.
- `once()`: the same for a function that runs once, wherever its operator runs: it may write to what it can get at.
- `input(subgraph, tensor)`: a new input of it that is like a tensor.
- `level(subgraph, tensor, wanted)`: the same for a function under a transform that gradients are wanted of, or not.
- `close(subgraph, outputs, may_alias)`: the end of it. What it uses of the graphs around it has become inputs; a tuple
  of what its operator has to be given for them. `may_alias` allows it to return what it is given.
- `owns(subgraph, tensor)`: whether it has made a tensor; before it is closed.
- `check(subgraph, tensors)`: stop the capture unless they are new tensors of its own; before it is closed.
- `lift(subgraph, tensor)`: make it an input, whether it is used or not; before it is closed.
- `discard(subgraph)`: forget what was recorded.
- `unwrap(subgraph)`: it returns its only output as it is; `list(subgraph)`: it returns a list.
- `split(subgraph, count)`: it returns two tuples; `select(subgraph, places)`: it returns these of its outputs.
- `note(subgraph, notes)`: for the `meta` of its module.
- `foreign()`: whether the graph is for a backend, and not for our own replay.
- `name(subgraph, prefix)`: the name that it has in the graph.
- `merge(first, second, given first, given second)`: two that get the same operands.
- `call(operator, args, kwargs)`: the node of the operator. What it returns is worked out on FakeTensors.
- `wrap(operator, subgraph, given, kwargs)`: the same for an operator that returns what its only subgraph returns.
- `same(subgraph)`: an equal one that was given here before; or itself. Only for closed ones.
- `invoke(operator, subgraph, given)`: as `wrap`, for an operator that is also given the name of its subgraph.
- `indexing(how)`: from here on, `x[i]` with tensors in `i` is: 0 what it always is, 1 `index`, 2 `item`. What it was.
- `unfit()`: capture the call anew, with constants in place of numbers that vary.
- `item(tensor, key, like)`: the node `tensor[key]`, whose result is like a tensor.

No break falls into these functions: what can't be captured in them stops the capture before the operator is called.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch import vmap as _vmap
from torch._functorch.autograd_function import autograd_function_apply
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.flex_attention import flex_attention as _flex_attention_op
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph as _invoke_subgraph_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.utils import first_slice_copy
from torch._higher_order_ops.while_loop import while_loop_op
from torch._higher_order_ops.wrap import tag_activation_checkpoint as _tag_activation_checkpoint
from torch._higher_order_ops.wrap import wrap as _wrap_op
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import noop_context_fn as _noop_context_fn

from magneto import _core, _polyfills
from magneto._polyfills import give_up

_subgraph: Any = _core.subgraph


# Nodes get their names from variables that their results are stored in: no tensor is stored in one here.


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_output(value: Any) -> bool:
    return value is None or isinstance(value, torch.Tensor)


def _is_operand(value: Any) -> bool:
    """Whether it is a tree of tensors and numbers."""
    if isinstance(value, (torch.Tensor, int)):
        return True
    if isinstance(value, (tuple, list)):
        return all(builtins.map(_is_operand, value))
    if type(value) is dict:
        return all(builtins.map(_is_operand, value.values()))
    return value is not None and all(builtins.map(_is_operand, pytree.tree_leaves(value)))


def _input(graph: Any, like: Any) -> Any:
    return _subgraph("input", graph, like)


def _trace(
    function: Callable[..., Any], args: Sequence[Any], own: Sequence[Any] | None, may_write: bool = False
) -> tuple[Any, Any, list[Any], Any]:
    """Record a function: the subgraph, what it needs of the graphs around it, and what it returned, flat.

    `own` are the tensors that its inputs are like, if it is to have inputs of its own in place of `args`.
    """
    graph = _subgraph("open", (function, args), may_write)
    try:
        if own is not None:
            args = [*builtins.map(functools.partial(_input, graph), own)]
        flat, spec = pytree.tree_flatten(function(*args))
    except BaseException:
        give_up("an exception in a function that an operator is given")
        raise
    given = _subgraph("close", graph, tuple(flat), False)
    return graph, given, flat, spec


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """`torch.cond`."""
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not isinstance(pred, torch.Tensor) or pred.numel() != 1 or not isinstance(operands, (tuple, list)):
        give_up("torch.cond: the predicate or the operands")
    if not callable(true_fn) or not callable(false_fn):
        give_up("torch.cond: a branch that can't be called")
    if not all(builtins.map(_is_operand, operands)):
        give_up("torch.cond: an operand that is no tensor")
    true_graph, true_given, _, true_spec = _trace(true_fn, operands, None)
    false_graph, false_given, _, false_spec = _trace(false_fn, operands, None)
    if true_spec != false_spec:
        give_up("torch.cond: branches that return other structures")
    given = _subgraph("merge", true_graph, false_graph, true_given, false_given)
    _subgraph("name", true_graph, "cond_true")
    _subgraph("name", false_graph, "cond_false")
    flat = _subgraph("call", cond_op, (pred, true_graph, false_graph, given), {})
    return pytree.tree_unflatten(flat, true_spec)


def _is_like(first: Any, second: Any) -> bool:
    """Whether two tensors have the same metadata, but for gradients."""
    return (
        isinstance(first, torch.Tensor)
        and isinstance(second, torch.Tensor)
        and first.dtype == second.dtype
        and first.device == second.device
        and first.shape == second.shape
        and first.stride() == second.stride()
    )


def _likes(make: Callable[[Any], Any], tensors: Sequence[Any]) -> list[Any]:
    """Tensors that inputs of a subgraph are like; what makes them is no part of the graph."""
    graph = _subgraph("open", (), False)
    found = [*builtins.map(make, tensors)]
    _subgraph("discard", graph)
    return found


def _clone(tensor: Any) -> Any:
    return tensor.clone()


def _first(tensor: Any) -> Any:
    return tensor.select(0, 0)


def _check_tensors(tensors: Sequence[Any], what: str) -> None:
    if not all(builtins.map(_is_tensor, tensors)):
        give_up(what)


def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()) -> Any:
    """`torch.ops.higher_order.while_loop`."""
    carried, additional = tuple(carried_inputs), tuple(additional_inputs)
    _check_tensors(carried + additional, "torch.while_loop: an operand that is no tensor")
    cond_likes, body_likes = _likes(_clone, carried), _likes(_clone, carried)
    cond_graph, cond_given, cond_flat, cond_spec = _trace(cond_fn, (), [*cond_likes, *additional])
    if not cond_spec.is_leaf() or not isinstance(cond_flat[0], torch.Tensor):
        give_up("torch.while_loop: what the condition returns")
    if cond_flat[0].dtype is not torch.bool or cond_flat[0].dim() != 0:
        give_up("torch.while_loop: what the condition returns")
    body_graph, body_given, body_flat, body_spec = _trace(body_fn, (), [*body_likes, *additional])
    if len(body_flat) != len(carried):
        give_up("torch.while_loop: the body returns another number of tensors")
    if not all(builtins.map(_is_like, body_flat, carried)):
        give_up("torch.while_loop: the body returns other tensors than it is given")
    given = _subgraph("merge", cond_graph, body_graph, cond_given, body_given)
    _subgraph("unwrap", cond_graph)
    _subgraph("name", cond_graph, "cond_fn")
    _subgraph("name", body_graph, "body_fn")
    flat = _subgraph("call", while_loop_op, (cond_graph, body_graph, carried, additional + given), {})
    return pytree.tree_unflatten(flat, body_spec)


def map(function: Any, xs: Any, pos_args: Any) -> Any:
    """`torch.ops.higher_order.map_impl`."""
    xs, pos_args = list(xs), list(pos_args)
    _check_tensors(xs, "torch.map: an operand that is no tensor")
    if not xs or xs[0].dim() < 1 or xs[0].shape[0] == 0:
        give_up("torch.map: nothing to map over")
    _check_tensors(pos_args, "torch.map: an argument that is no tensor")
    graph, given, flat, spec = _trace(function, (), [*_likes(_first, xs), *pos_args])
    if not all(builtins.map(_is_output, flat)):
        give_up("torch.map: the function returns something else than tensors")
    _subgraph("name", graph, "map_body")
    flat = _subgraph("call", map_impl, (graph, xs, pos_args + list(given)), {})
    return pytree.tree_unflatten(flat, spec)


def scan(combine_fn: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    """`torch.ops.higher_order.scan`."""
    init, xs, additional = list(init), list(xs), list(additional_inputs)
    _check_tensors(init + xs + additional, "torch.scan: an operand that is no tensor")
    if not init or not xs or xs[0].dim() < 1 or xs[0].shape[0] == 0:
        give_up("torch.scan: nothing to scan")
    own = [*_likes(_clone, init), *_likes(first_slice_copy, xs), *_likes(_clone, additional)]
    graph, given, flat, spec = _trace(combine_fn, (), own)
    if isinstance(combine_fn, torch.nn.Module):
        carry = flat[: len(init)]
    else:
        if spec.type is not tuple or spec.num_children != 2:
            give_up("torch.scan: the function does not return a carry and an output")
        carry = flat[: spec.child(0).num_leaves]
    if len(carry) != len(init):
        give_up("torch.scan: the function returns another carry than it is given")
    if not all(builtins.map(_is_like, carry, init)):
        give_up("torch.scan: the function returns another carry than it is given")
    _subgraph("list", graph)
    _subgraph("name", graph, "scan_combine_fn")
    flat = _subgraph("call", scan_op, (graph, init, xs, additional + list(given)), {})
    return pytree.tree_unflatten(flat, spec)


def associative_scan(combine_fn: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    """`torch.ops.higher_order.associative_scan`."""
    xs, additional = list(xs), tuple(additional_inputs)
    _check_tensors([*xs, *additional], "torch.associative_scan: an operand that is no tensor")
    if not xs or xs[0].dim() < 1 or xs[0].shape[0] == 0:
        give_up("torch.associative_scan: nothing to scan")
    slices = _likes(first_slice_copy, [*xs, *xs])
    graph, given, flat, spec = _trace(combine_fn, (), [*slices, *_likes(_clone, additional)])
    if len(flat) != len(xs):
        give_up("torch.associative_scan: the function returns another structure than it is given")
    if not all(builtins.map(_is_like, flat, slices)):
        give_up("torch.associative_scan: the function returns other tensors than it is given")
    _subgraph("list", graph)
    _subgraph("name", graph, "associative_scan_combine_fn")
    flat = _subgraph("call", associative_scan_op, (graph, xs, additional + given), {})
    return pytree.tree_unflatten(flat, spec)


# ---- checkpoints ----

_CHECKPOINT_ARGUMENTS = (
    "use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state",
)  # fmt: skip


def run_checkpoint(module: Any, *given: Any, own: tuple[int, ...], **kwargs: Any) -> Any:
    """What our own replay calls for a checkpoint: as eager does it, so that a recomputation draws the same numbers.

    `own` are the positions of what the program's function was given: those are saved for the backward. At all others
    it got by itself.
    """
    context_fn = module.meta.get("_checkpoint_context_fn")
    if context_fn is not None:
        kwargs["context_fn"] = context_fn
    kwargs["use_reentrant"] = False

    def function(*args: Any) -> Any:
        operands = list(given)
        for place, arg in zip(own, args, strict=True):
            operands[place] = arg
        return module(*operands)

    saved = [given[place] for place in own]
    given = tuple([None if place in own else one for place, one in enumerate(given)])
    return torch.utils.checkpoint.checkpoint(function, *saved, **kwargs)


def _position(value: Any, items: list[Any]) -> int:
    """Where a tensor is in a list; -1 if it is not."""
    for place in range(len(items)):
        if items[place] is value:
            return place
    return -1


def _wrap(operator: Any, function: Any, args: Any, kwargs: Any, options: Any, notes: Any, name: str) -> Any:
    """Call a function once, as the graph of an operator that returns what it returns."""
    # AOTAutograd makes a write once, where eager makes it again when it recomputes
    may_write = operator is run_checkpoint or operator is run_region
    graph = _subgraph("open", (function, args, kwargs), may_write)
    try:
        flat, spec = pytree.tree_flatten(function(*args, **kwargs))
    except BaseException:
        give_up("an exception in a function that an operator is given")
        raise
    outputs: list[Any] = []
    places = []  # of each leaf among the outputs; -1 if it is none
    for index in range(len(flat)):
        place = -1
        if isinstance(flat[index], torch.Tensor) and _subgraph("owns", graph, flat[index]):
            place = _position(flat[index], outputs)
            if place < 0:
                place = len(outputs)
                outputs.append(flat[index])
        places.append(place)
    given = _subgraph("close", graph, tuple(outputs), False)
    if notes:
        _subgraph("note", graph, notes)
    if operator is run_region or operator is _invoke_subgraph_op:
        same = _subgraph("same", graph)
        if same is graph:
            _subgraph("name", graph, name)
        results = _subgraph("invoke", operator, same, given)
    else:
        _subgraph("name", graph, name)
        if operator is run_checkpoint:
            leaves = pytree.tree_leaves((args, kwargs))
            options["own"] = tuple([at for at in range(len(given)) if _position(given[at], leaves) >= 0])
        results = _subgraph("wrap", operator, graph, given, options)
    for index in range(len(flat)):
        if places[index] >= 0:
            flat[index] = results[places[index]]
    return pytree.tree_unflatten(flat, spec)


def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.utils.checkpoint.checkpoint`."""
    reentrant = kwargs.get("use_reentrant")
    if reentrant is None:
        give_up("torch.utils.checkpoint without use_reentrant: a warning")
    options, own = {}, {}
    for key in kwargs:
        if key in _CHECKPOINT_ARGUMENTS:
            options[key] = kwargs[key]
        else:
            own[key] = kwargs[key]
    notes = {}
    context_fn = options.pop("context_fn", _noop_context_fn)
    if context_fn is not _noop_context_fn:
        notes["_checkpoint_context_fn"] = context_fn
    if reentrant and (own or notes or options.get("debug")):
        give_up("torch.utils.checkpoint: an error")
    if reentrant and torch.is_grad_enabled() and not any(builtins.map(_requires_grad, args)):
        give_up("torch.utils.checkpoint with use_reentrant=True, and no argument that requires grad")
    operator = _tag_activation_checkpoint if _subgraph("foreign") else run_checkpoint
    return _wrap(operator, function, args, own, options, notes, "wrap_body")


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


# ---- autograd functions ----


def run_function(
    forward: Any,
    backward: Any,
    *args: Any,
    non_differentiable_idx: list[int],
    saved_for_backward_idx: list[int],
    once: bool,
) -> Any:
    """What our own replay calls for a `torch.autograd.Function`: with derivatives of all orders, as in eager."""

    class Applied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            outputs, saved = forward(*args)
            ctx.mark_non_differentiable(*[outputs[place] for place in non_differentiable_idx])
            ctx.save_for_backward(*[saved[place] for place in saved_for_backward_idx])
            ctx.others = [None if place in saved_for_backward_idx else one for place, one in enumerate(saved)]
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            saved = list(ctx.others)
            for place, one in zip(saved_for_backward_idx, ctx.saved_tensors, strict=True):
                saved[place] = one
            return backward(*grads, *saved)

    applied: Any = Applied
    if once:
        applied.backward = staticmethod(once_differentiable(Applied.backward))
    return applied.apply(*args)


def _call_forward(cls: Any, ctx: Any, apart: bool, args: Any) -> Any:
    with torch.no_grad():
        if apart:
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
            return output
        return cls.forward(ctx, *args)


def _call_backward(cls: Any, ctx: Any, foreign: bool, grads: Any) -> tuple[Any, bool]:
    """The gradients, and whether they can't be differentiated."""
    function = cls.backward
    once = getattr(function, "__code__", None) is _ONCE_CODE
    if once:
        function = function.__wrapped__
    if foreign:  # as in TorchDynamo's graph
        with torch.no_grad():
            return function(ctx, *grads), once
    return function(ctx, *grads), once


_ONCE_CODE = once_differentiable(len).__code__


def _backward(
    cls: Any, ctx: Any, outputs: tuple[Any, ...], args: Any, foreign: bool
) -> tuple[Any, Any, bool]:
    """Record the backward, within the open subgraph of the forward: the subgraph, what it needs, and `once`."""
    graph = _subgraph("open", (cls, ctx), False)
    try:
        grads = [_subgraph("input", graph, one) if isinstance(one, torch.Tensor) else None for one in outputs]
        found, once = _call_backward(cls, ctx, foreign, grads)
    except BaseException:
        give_up("an exception in the backward of a torch.autograd.Function")
        raise
    result = found if isinstance(found, tuple) else (found,)
    if len(result) != len(args) or not all(builtins.map(_is_output, result)):
        give_up("a torch.autograd.Function whose backward returns something else than gradients")
    return graph, _subgraph("close", graph, result, True), once


def apply_function(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.autograd.Function.apply`."""
    needs = tuple([isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args])
    if kwargs or not torch.is_grad_enabled() or True not in needs:
        return _polyfills.apply_function(cls, *args, **kwargs)
    if torch.autograd.forward_ad._current_level >= 0:
        give_up("a torch.autograd.Function inside torch.autograd.forward_ad.dual_level")
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    for place in range(len(tensors)):
        if _position(tensors[place], tensors) != place:
            give_up("a torch.autograd.Function that is given one tensor twice")
    apart = cls.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context
    if apart and (cls.forward.__defaults__ or cls.forward.__kwdefaults__):
        give_up("a torch.autograd.Function with default arguments")
    if cls.vjp is not torch.autograd.Function.vjp:
        give_up("a torch.autograd.Function with vjp")
    foreign = _subgraph("foreign")
    forward = _subgraph("open", (cls, args), False)
    ctx = _polyfills.Context(needs)
    try:
        output = _call_forward(cls, ctx, apart, args)
    except BaseException:
        give_up("an exception in the forward of a torch.autograd.Function")
        raise
    outputs = output if isinstance(output, tuple) else (output,)
    made = tuple([one for one in outputs if isinstance(one, torch.Tensor)])
    _subgraph("check", forward, made)
    if getattr(ctx, "dirty_tensors", ()) or not made:
        give_up("a torch.autograd.Function with mark_dirty, or without a tensor to return")
    if len(made) > 1 and not getattr(ctx, "materialize_grads", True):
        give_up("a torch.autograd.Function with set_materialize_grads(False) and several outputs")
    for tensor in tensors:
        _subgraph("lift", forward, tensor)
    to_save = getattr(ctx, "to_save", ())
    ctx.saved_tensors = to_save
    backward, saved, once = _backward(cls, ctx, outputs, args, foreign)
    given = _subgraph("close", forward, made + saved, True)
    _subgraph("split", forward, len(made))
    places = [-1 if not isinstance(arg, torch.Tensor) else _position(arg, list(args)) for arg in given]
    _subgraph("select", backward, tuple(places))
    marked = getattr(ctx, "non_differentiable", ())
    options: dict[str, Any] = {
        "non_differentiable_idx": [
            place for place in range(len(made)) if _position(made[place], list(marked)) >= 0
        ],
        "saved_for_backward_idx": [
            place for place in range(len(saved)) if _position(saved[place], list(to_save)) >= 0
        ],
    }
    if not foreign:
        options["once"] = once
    _subgraph("name", forward, "fwd_body")
    _subgraph("name", backward, "bwd_body")
    operator = autograd_function_apply if foreign else run_function
    results = _subgraph("call", operator, (forward, backward, *given), options)
    if not isinstance(output, tuple):
        return results[0]
    found = []
    number = 0
    for place in range(len(outputs)):
        if isinstance(outputs[place], torch.Tensor):
            found.append(results[number])
            number += 1
        else:
            found.append(outputs[place])
    return tuple(found)


# ---- wrap, regions, vmap ----


def run_region(module: Any, name: str, *operands: Any) -> Any:
    """What our own replay calls for a region: torch's operator has no backward outside of AOTAutograd."""
    return module(*operands)


def region(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function with `torch.compiler.nested_compile_region` calls: equal calls have one subgraph."""
    foreign = _subgraph("foreign")
    if foreign and getattr(function, "__marked_compile_region_config__", None) is not None:
        give_up("torch.compiler.nested_compile_region with options")
    operator = _invoke_subgraph_op if foreign else run_region
    return _wrap(operator, function, args, kwargs, {}, {}, "subgraph")


def wrap(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.ops.higher_order.wrap`."""
    return _wrap(_wrap_op, function, args, kwargs, {}, {}, "wrap_body")


def run_vmap(
    module: Any, *operands: Any, in_dims: Any, out_dims: Any, batch_size: Any, randomness: str, loads: bool
) -> Any:
    """What our own replay calls for `torch.vmap`."""
    return torch.vmap(module, in_dims=in_dims, out_dims=out_dims, randomness=randomness)(*operands)


def _slice(tensor: Any, dim: Any) -> Any:
    """What a function under vmap sees of a tensor."""
    if dim is None:
        return tensor
    if tensor.shape[dim] == 0:
        sizes, strides = list(tensor.shape), list(tensor.stride())
        del sizes[dim], strides[dim]
        return tensor.new_empty_strided(sizes, strides)
    return tensor.select(dim, 0)


def _batched(graph: Any, arg: Any, dim: Any, like: Any) -> Any:
    return arg if dim is None else _subgraph("input", graph, like)


def vmap_impl(
    function: Any, in_dims: Any, out_dims: Any, randomness: str, chunk_size: Any, *args: Any, **kwargs: Any
) -> Any:
    """What `torch.vmap` and `torch.func.vmap` return calls."""
    _vmap._check_out_dims_is_int_or_int_pytree(out_dims, function)
    batch_size, flat_in_dims, flat_args, args_spec = _vmap._process_batched_inputs(in_dims, args, function)
    if chunk_size is None:
        return flat_vmap(
            function, batch_size, flat_in_dims, flat_args, args_spec, out_dims, randomness, **kwargs
        )
    if randomness == "same":
        give_up("vmap in chunks that draw the same random numbers")
    chunks = _vmap._get_chunked_inputs(flat_args, flat_in_dims, batch_size, chunk_size)
    return _vmap._chunked_vmap(function, flat_in_dims, chunks, args_spec, out_dims, randomness, **kwargs)


def flat_vmap(
    function: Any,
    batch_size: Any,
    flat_in_dims: Any,
    flat_args: Any,
    args_spec: Any,
    out_dims: Any,
    randomness: str,
    **kwargs: Any,
) -> Any:
    """What vmap does to one chunk, or to all at once."""
    throwaway = _subgraph("open", (), False)
    likes = [*builtins.map(_slice, flat_args, flat_in_dims)]
    _subgraph("discard", throwaway)
    graph = _subgraph("once")
    try:
        inputs = [*builtins.map(functools.partial(_batched, graph), flat_args, flat_in_dims, likes)]
        result = function(*pytree.tree_unflatten(inputs, args_spec), **kwargs)
        flat, spec = pytree.tree_flatten(result)
    except BaseException:
        give_up("an exception in a function under vmap")
        raise
    if isinstance(result, torch.Tensor):
        dims: Any = list(out_dims) if isinstance(out_dims, tuple) else [out_dims]
    else:
        dims = pytree._broadcast_to_and_flatten(out_dims, spec)
    if dims is None or len(dims) != len(flat) or not all(builtins.map(_is_tensor, flat)):
        give_up("what a function under vmap returns")
    given = _subgraph("close", graph, tuple(flat), True)
    _subgraph("name", graph, "vmap_body")
    own = [place for place in range(len(flat_args)) if flat_in_dims[place] is not None]
    operands = [flat_args[place] for place in own]
    options = {
        "in_dims": tuple([flat_in_dims[place] for place in own]) + (None,) * len(given),
        "out_dims": tuple(dims),
        "batch_size": batch_size,
        "randomness": randomness,
        "loads": True,
    }
    results = _subgraph("call", run_vmap, (graph, *operands, *given), options)
    return pytree.tree_unflatten(list(results), spec)


# ---- attention ----


def index(tensor: Any, key: Any) -> Any:
    """What `tensor[key]` is under `TransformGetItemToIndex`: tensors without dimensions are not read."""
    leaves = pytree.tree_leaves(key)
    for place in range(len(leaves)):
        if isinstance(leaves[place], int):
            leaves[place] = torch.tensor(leaves[place], dtype=torch.int64, device=tensor.device)
    return torch.ops.aten.index(tensor, leaves)


def item(tensor: Any, key: Any) -> Any:
    """The same in a function that flex_attention is given: the operator runs its graph under that mode."""
    graph = _subgraph("open", (), False)
    like = index(tensor, key)
    _subgraph("discard", graph)
    return _subgraph("item", tensor, key, like)


class Indexing:
    """TorchDynamo's `TransformGetItemToIndex` made by captured code."""

    def __enter__(self) -> Indexing:
        self.before = _subgraph("indexing", 1)
        return self

    def __exit__(self, *exception: Any) -> None:
        _subgraph("indexing", self.before)


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _attention_inputs(query: Any) -> list[Any]:
    """Tensors that the inputs of the functions are like: a score, and four numbers of places."""
    graph = _subgraph("open", (), False)
    likes = [query.sum(), *[query.new_empty([], dtype=torch.int32) for _ in range(4)]]
    _subgraph("discard", graph)
    return likes


def _attention_function(function: Any, likes: list[Any], name: str) -> tuple[Any, Any]:
    """The graph of a function that attention calls for each score, and what it uses besides."""
    graph = _subgraph("open", (function,), False)
    before = _subgraph("indexing", 2)
    try:
        result = function(*[*builtins.map(functools.partial(_input, graph), likes)])
    except BaseException:
        give_up("an exception in a function that flex_attention is given")
        raise
    if not isinstance(result, torch.Tensor):
        give_up("a function that flex_attention is given returns no tensor")
    _subgraph("indexing", before)
    given = _subgraph("close", graph, (result,), True)
    if any(builtins.map(_is_float, given)):
        _subgraph("unfit")
    _subgraph("unwrap", graph)
    _subgraph("name", graph, name)
    return graph, given


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: Any,
    scale: Any,
    kernel_options: Any,
    *others: Any,
) -> Any:
    """`torch.ops.higher_order.flex_attention`."""
    if others:
        give_up("flex_attention with buffers of its own")
    _check_tensors([query, key, value], "flex_attention: an operand that is no tensor")
    likes = _attention_inputs(query)
    score, score_given = _attention_function(score_mod, likes, "score_mod")
    mask, mask_given = _attention_function(block_mask[-1], likes[1:], "mask_fn")
    blocks = (*block_mask[:-1], mask)
    args = (query, key, value, score, blocks, scale, kernel_options, score_given, mask_given)
    return _subgraph("call", _flex_attention_op, args, {})
