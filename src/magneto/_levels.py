"""Graphs for backends in which what a transform of functions does stands in place of it, as in TorchDynamo's.

The levels are entered and left by nodes, and the nodes of the function stand between them, in the graph itself.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import fx

_FUNCTIONS: dict[str, str] = {
    "run_vmap": "vmap", "run_grad": "grad", "run_vjp": "vjp", "run_pull": "pull", "run_jvp": "jvp",
}  # fmt: skip
_MODULES = ("magneto._higher", "magneto._transforms")

_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. "
    "Please open an issue with your use case."
)


def _transform(node: fx.Node) -> str | None:
    """Which transform a node stands for."""
    target: Any = node.target
    if node.op != "call_function" or getattr(target, "__module__", None) not in _MODULES:
        return None
    return _FUNCTIONS.get(target.__name__)


def expand(root: torch.nn.Module, graph: fx.Graph) -> bool:
    """Replace all transforms in a graph and in the graphs that it holds. Whether there are any."""
    return _expand(root, graph, 0, 0)


@contextlib.contextmanager
def left() -> Iterator[None]:
    """For a `with` block that runs a graph with levels: where it raises, what it has entered is left."""
    functorch, autograd = torch._C._functorch, torch._C._autograd
    depth, forward = functorch.get_dynamic_layer_stack_depth(), torch._C._is_fwd_grad_enabled()
    refused = autograd._saved_tensors_hooks_get_disabled_error_message()
    try:
        yield
    except BaseException:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if torch.autograd.forward_ad._current_level < 0:  # none of the program's: there is one at most
            with contextlib.suppress(RuntimeError):
                torch._C._exit_dual_level(level=0)
        torch._C._set_fwd_grad_enabled(forward)
        if refused is None:
            autograd._saved_tensors_hooks_enable()
        else:
            autograd._saved_tensors_hooks_disable(refused)
        raise


def leaving(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph that leaves what it has entered, where it raises."""

    def run(*inputs: Any) -> Any:
        with left():
            return compiled(*inputs)

    return run


def _expand(root: torch.nn.Module, graph: fx.Graph, level: int, duals: int) -> bool:
    found = False
    for node in list(graph.nodes):
        if _transform(node) is None:
            continue
        found = True
        holder: Any = node.args[0]
        levels = _Levels(root, graph, level, duals, dict(node.meta))
        with graph.inserting_before(node):
            results = levels.write(root, node, node.args, node.kwargs)
        for user in list(node.users):
            place: Any = user.args[1]
            user.replace_all_uses_with(results[place])
            graph.erase_node(user)
        graph.erase_node(node)
        if not holder.users:
            graph.erase_node(holder)
    for node in list(graph.nodes):
        if node.op == "get_attr":
            found |= _expand_held(root, node, level, duals)
    return found


def _expand_held(root: torch.nn.Module, node: fx.Node, level: int, duals: int) -> bool:
    """Expand what an operator is given within `level` levels."""
    found = False
    module = getattr(root, str(node.target), None)
    if isinstance(module, fx.GraphModule) and not module.meta.get("magneto_levels"):
        module.meta["magneto_levels"] = True
        found = _expand(
            module, module.graph, node.meta.pop("magneto_level", level), node.meta.pop("magneto_duals", duals)
        )
        module.recompile()
        del module.meta["magneto_levels"]
    return found


class _Levels:
    """Writes nodes into a graph, where it inserts them now."""

    def __init__(
        self, root: torch.nn.Module, graph: fx.Graph, level: int, duals: int, meta: dict[str, Any]
    ) -> None:
        self.root = root
        self.graph = graph
        self.level = level
        """How many levels are entered."""
        self.duals = duals
        """How many of them are those of jvp."""
        self.hooked = 0
        """How many have switched off hooks on saved tensors."""
        self.stack = meta.get("stack_trace", "")

    def add(self, target: Any, *args: Any, like: Any = None, **kwargs: Any) -> fx.Node:
        """Write a node, whose result is as that of another node."""
        node = self.graph.call_function(target, args, kwargs)
        node.meta["stack_trace"] = self.stack
        example = like.meta.get("example_value") if isinstance(like, fx.Node) else like
        if example is not None:
            node.meta["example_value"] = example
        return node

    def write(self, root: torch.nn.Module, node: fx.Node, args: Any, kwargs: Any) -> list[Any]:
        """Write what a transform does; its results. `root` holds its function, `args` are of this graph."""
        holder: Any = node.args[0]
        module = getattr(root, holder.target)
        examples = node.meta.get("example_value")
        writers: dict[str, Callable[..., list[Any]]] = {
            "vmap": self.vmap, "grad": self.grad, "vjp": self.vjp, "pull": self.pull, "jvp": self.jvp,
        }  # fmt: skip
        return writers[_transform(node) or ""](module, list(args[1:]), examples, **kwargs)

    def body(self, module: Any, operands: Iterable[Any], enables: bool = False) -> list[Any]:
        """Write the nodes of a function; what it returns. `enables`: the first and the last switch of grad mode are the
        transform's own.
        """
        switches = [one for one in module.graph.nodes if one.target is torch._C._set_grad_enabled]
        left_out = (switches[0], switches[-1]) if enables and len(switches) > 1 else ()
        known: dict[fx.Node, Any] = {}
        inputs = [one for one in module.graph.nodes if one.op == "placeholder"]
        known.update(zip(inputs, operands, strict=True))
        outer = self.stack
        for one in module.graph.nodes:
            if one.op == "placeholder" or one in known or one in left_out:
                continue
            if one.op == "output":
                break
            if one.op == "get_attr":
                if all(_transform(user) is not None for user in one.users):
                    continue
                setattr(self.root, one.target, getattr(module, one.target))
            if _transform(one) is None:
                known[one] = self.graph.node_copy(one, known.__getitem__)
                if one.op == "get_attr":
                    known[one].meta.update(magneto_level=self.level, magneto_duals=self.duals)
                continue
            self.stack = one.meta.get("stack_trace", "")
            args, kwargs = fx.node.map_arg((one.args[1:], one.kwargs), known.__getitem__)
            results = self.write(module, one, (None, *args), kwargs)
            self.stack = outer
            for user in one.users:
                known[user] = results[user.args[1]]
        outputs = next(one for one in module.graph.nodes if one.op == "output").args[0]
        return [fx.node.map_arg(one, known.__getitem__) for one in outputs]

    def vmap(
        self,
        module: Any,
        operands: list[Any],
        examples: Any,
        *,
        in_dims: Any,
        out_dims: Any,
        batch_size: Any,
        randomness: str,
        loads: bool = True,
    ) -> list[Any]:
        from torch._functorch import predispatch

        if loads:
            self.add(predispatch.lazy_load_decompositions)
        self.add(predispatch._vmap_increment_nesting, batch_size, randomness)
        self.level += 1
        inputs = [one for one in module.graph.nodes if one.op == "placeholder"]
        for place, dim in enumerate(in_dims):
            if dim is not None:
                operands[place] = self.add(
                    predispatch._add_batch_dim, operands[place], dim, self.level, like=inputs[place]
                )
        outputs = self.body(module, operands)
        results = []
        for place, dim in enumerate(out_dims):
            found = outputs[place]
            if dim is not None:
                like = None if examples is None else examples[place]
                found = self.add(predispatch._remove_batch_dim, found, self.level, batch_size, dim, like=like)
            results.append(found)
        self.add(predispatch._vmap_decrement_nesting)
        self.level -= 1
        return results

    def _enter(self, enables: bool) -> None:
        self.add(torch._C._autograd._saved_tensors_hooks_disable, _HOOKS)
        self.add(torch._C._functorch._grad_increment_nesting)
        self.level += 1
        self.hooked += 1
        if enables:
            self.add(torch._C._set_grad_enabled, True)

    def _leave(self, enables: bool) -> None:
        if enables:
            self.add(torch._C._set_grad_enabled, False)
        self.add(torch._C._functorch._grad_decrement_nesting)
        self.level -= 1
        self.hooked -= 1
        if self.hooked:
            self.add(torch._C._autograd._saved_tensors_hooks_disable, _HOOKS)
        else:
            self.add(torch._C._autograd._saved_tensors_hooks_enable)

    def _wrap(self, operands: list[Any], own: int) -> None:
        wrap = torch._C._functorch._wrap_for_grad
        for place in range(own):
            operands[place] = self.add(wrap, operands[place], self.level, like=operands[place])

    def _want(self, tensor: Any) -> Any:
        from torch._functorch import eager_transforms

        allow = torch._C._functorch.set_inplace_requires_grad_allowed
        self.add(allow, True)
        found = self.add(eager_transforms._set_tensor_requires_grad, tensor, like=tensor)
        self.add(allow, False)
        return found

    def _unwrap(self, tensor: Any, like: Any = None) -> Any:
        from torch._functorch import predispatch

        return self.add(
            predispatch._unwrap_for_grad, tensor, self.level, like=tensor if like is None else like
        )

    def _parts(self, node: fx.Node, examples: Any, count: int) -> list[fx.Node]:
        """The parts of what a node returns."""
        likes = [None] * count if examples is None else list(examples)[:count]
        return [self.add(operator.getitem, node, place, like=likes[place]) for place in range(count)]

    def grad(
        self,
        module: Any,
        operands: list[Any],
        examples: Any,
        *,
        own: int,
        diff: tuple[int, ...],
        enables: bool,
    ) -> list[Any]:
        from torch._functorch import eager_transforms

        self._enter(enables)
        self._wrap(operands, own)
        for place in diff:
            self._want(operands[place])
        outputs = self.body(module, operands, enables)
        wanted = [operands[place] for place in diff]
        grads = self.add(eager_transforms._autograd_grad, (outputs[0],), wanted, create_graph=True)
        parts = self._parts(grads, examples, len(diff))
        results = [self._unwrap(one) for one in [*parts, *outputs]]
        self._leave(enables)
        return results

    def vjp(
        self,
        module: Any,
        operands: list[Any],
        examples: Any,
        *,
        own: int,
        diff: tuple[int, ...],
        count: int,
        chosen: bool,
        enables: bool,
    ) -> list[Any]:
        self._enter(enables)
        self._wrap(operands, own)
        wanted = [self._want(operands[place]) for place in diff]
        if chosen:
            wanted = [operands[place] for place in diff]
        outputs = self.body(module, operands, enables)
        others = [self._unwrap(one) for one in outputs[count:]]
        results = [self._unwrap(one) for one in outputs[:count]]
        self._leave(enables)
        return [*results, *others, *outputs[:count], *wanted]

    def pull(
        self,
        module: Any,
        operands: list[Any],
        examples: Any,
        *,
        own: int,
        diff: tuple[int, ...],
        count: int,
        chosen: bool,
        enables: bool,
        retain_graph: bool,
        create_graph: bool,
    ) -> list[Any]:
        from torch._functorch import eager_transforms

        first = count + len(diff)
        node = self.add(
            eager_transforms._autograd_grad,
            operands[:count],
            operands[count:first],
            operands[first : first + count],
            retain_graph=retain_graph,
            create_graph=create_graph,
        )
        return list(self._parts(node, examples, len(diff)))

    def jvp(
        self,
        module: Any,
        operands: list[Any],
        examples: Any,
        *,
        own: int,
        diff: tuple[int, ...],
        count: int,
        wraps: bool,
    ) -> list[Any]:
        from torch._functorch import predispatch

        tangents, operands = operands[: len(diff)], operands[len(diff) :]
        self.add(predispatch._jvp_increment_nesting)
        self.level += 1
        self.duals += 1
        self.add(torch._C._set_fwd_grad_enabled, True)
        if self.duals == 1:
            self.add(predispatch._enter_dual_level)
        made = []
        for place, tangent in zip(diff, tangents, strict=True):
            self.add(torch.autograd.forward_ad._maybe_load_decompositions)
            made.append(
                self.add(predispatch._make_dual, operands[place], tangent, level=0, like=operands[place])
            )
        if wraps:
            self._wrap(operands, own)
        for place, one in zip(diff, made, strict=True):
            operands[place] = one
        outputs = self.body(module, operands)
        others = [self._unwrap(one) for one in outputs[count:]]
        missing = [False] * count if examples is None else examples[-1]
        pairs = []
        for place, one in enumerate(outputs[:count]):
            pair = self._parts(self.add(predispatch._unpack_dual, one, level=0), (one, one), 2)
            if missing[place]:
                self.graph.erase_node(pair[1])
                pair[1] = self.add(torch.zeros_like, pair[0], like=one)
            pairs.append(pair)
        primals = [self._unwrap(one) for one, _ in pairs]
        duals = [self._unwrap(one) for _, one in pairs]
        if self.duals == 1:
            self.add(predispatch._exit_dual_level, level=0)
        self.add(torch._C._set_fwd_grad_enabled, True)
        self.add(predispatch._jvp_decrement_nesting)
        self.level -= 1
        self.duals -= 1
        return [*primals, *duals, *others]
