"""torch.func: gradients, products with Jacobians, and what is made of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.nn import functional as F

from .check import Made, program


def _input(*shape: int) -> torch.Tensor:
    return torch.rand(shape).requires_grad_()


def _plain(*shape: int) -> torch.Tensor:
    return torch.rand(shape)


# ---- grad ----


@program
def grad_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: (a.sin() * a).sum())(x)

    return f, [(_input(3),), (_input(3),)], []


@program
def grad_without_gradients_around() -> Made:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return grad(lambda a: (a.sin() * y).sum())(x) + y

    return f, [(_plain(3),), (_plain(3),)], []


@program
def grad_of_several_arguments() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return grad(lambda a, b, c: (a * b.exp() * c).sum(), argnums=(1, 0))(x, y, 2.0)

    return f, [(_input(3), _input(3))], []


@program
def grad_argument_from_the_end() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return grad(lambda a, b: (a * b.exp()).sum(), argnums=-1)(x, y)

    return f, [(_input(3), _plain(3))], []


@program
def grad_with_aux() -> Made:
    def f(x: torch.Tensor) -> Any:
        def g(a: torch.Tensor) -> Any:
            y = a.exp()
            return y.sum(), {"y": y, "z": (a * 2, y.mean())}

        return grad(g, has_aux=True)(x)

    return f, [(_input(3),)], []


@program
def grad_with_keywords() -> Made:
    def f(x: torch.Tensor) -> Any:
        def g(a: torch.Tensor, *, scale: torch.Tensor, power: int) -> torch.Tensor:
            return (a**power * scale).sum()

        return grad(g)(x, scale=x * 2, power=3)

    return f, [(_input(3),)], []


@program
def grad_of_a_pytree() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        def g(p: Any, k: torch.Tensor) -> torch.Tensor:
            return (p["a"] * p["b"][0] * k).sum() + p["b"][1].sin().sum()

        return grad(g)({"a": x, "b": [y, x * y]}, x.cos())

    return f, [(_input(3), _input(3))], []


@program
def grad_and_value_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad_and_value(lambda a: a.tanh().sum())(x)

    return f, [(_input(3),)], []


@program
def grad_and_value_with_aux() -> Made:
    def f(x: torch.Tensor, t: torch.Tensor) -> Any:
        def g(a: torch.Tensor, target: torch.Tensor) -> Any:
            return F.mse_loss(a.tanh(), target), a.tanh()

        return grad_and_value(g, argnums=(0, 1), has_aux=True)(x, t)

    return f, [(_input(3), _input(3))], []


@program
def grad_closure_over_gradients() -> Made:
    weight = _input(3)

    def f(x: torch.Tensor) -> Any:
        scaled = weight * 2
        return grad(lambda a: (a.sin() * weight * scaled).sum())(x)

    return f, [(_input(3),), (_plain(3),)], [weight]


@program
def grad_closure_over_a_module() -> Made:
    layer = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: layer(a).sum())(x)

    return f, [(_input(2, 3),)], layer.parameters()


@program
def grad_under_no_grad() -> Made:
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            return grad(lambda a: (a.exp() * a).sum())(x) * 2

    return f, [(_input(3),)], []


@program
def grad_with_no_grad_inside() -> Made:
    def f(x: torch.Tensor) -> Any:
        def g(a: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                c = a**2
            return (a - c).sum()

        return grad(g)(x)

    return f, [(_input(3),)], []


@program
def grad_with_detach() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: (a * a.detach().exp()).sum())(x)

    return f, [(_input(3),)], []


@program
def grad_of_what_is_not_used() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return grad(lambda a, b: a.sin().sum(), argnums=(0, 1))(x, y)

    return f, [(_input(3), _input(2))], []


@program
def grad_of_nothing() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: torch.ones(3).sum())(x)

    return f, [(_input(3),)], []


@program
def grad_twice() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda b: grad(lambda a: (a.sin() * b).sum())(b).cos().sum())(x)

    return f, [(_input(3),)], []


@program
def grad_three_times() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(grad(grad(lambda a: a**4 + a.sin())))(x)

    return f, [(_input(),)], []


@program
def grad_one_after_the_other() -> Made:
    def f(x: torch.Tensor) -> Any:
        y = grad(lambda a: (a**3).sum())(x)
        return grad(lambda a: (a**3 * y).sum())(y) + y

    return f, [(_input(3),)], []


@program
def grad_with_writes_inside() -> Made:
    def f(x: torch.Tensor) -> Any:
        def g(a: torch.Tensor) -> torch.Tensor:
            y = a * 2
            y.mul_(a)
            z = torch.zeros(3)
            z[1:] = y[:2]
            return (z * y).sum()

        return grad(g)(x)

    return f, [(_input(3),)], []


@program
def grad_with_dropout() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: F.dropout(a, 0.5).exp().sum())(x) + torch.rand(3)

    return f, [(_input(3),)], []


@program
def grad_of_a_method() -> Made:
    class Energy:
        def __init__(self) -> None:
            self.scale = torch.full((3,), 2.0)

        def value(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.scale).sin().sum()

        def force(self, x: torch.Tensor) -> torch.Tensor:
            return -grad(self.value)(x)

    energy = Energy()

    def f(x: torch.Tensor) -> Any:
        return energy.force(x) + 1

    return f, [(_input(3),)], []


@program
def grad_made_before() -> Made:
    g = grad(lambda a: (a.sin() * a).sum())

    def f(x: torch.Tensor) -> Any:
        return g(x * 2)

    return f, [(_input(3),)], []


@program
def grad_of_complex() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: (a * a.conj()).real.sum())(torch.complex(x, x * 2)).abs()

    return f, [(_plain(3),)], []


@program
def grad_steps() -> Made:
    """Gradient descent."""

    def f(x: torch.Tensor, t: torch.Tensor) -> Any:
        def loss(w: torch.Tensor) -> torch.Tensor:
            return ((w.sin() - t) ** 2).sum()

        for _ in range(3):
            x = x - 0.1 * grad(loss)(x)
        return x

    return f, [(_input(3), _input(3))], []


# ---- functional_call ----


def _net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@program
def functional_call_plain() -> Made:
    net = _net()
    params = {name: torch.rand_like(one).requires_grad_() for name, one in net.named_parameters()}

    def f(p: Any, x: torch.Tensor) -> Any:
        return functional_call(net, p, (x,))

    return f, [(params, _input(2, 3))], []


@program
def functional_call_grad() -> Made:
    net = _net()

    def f(x: torch.Tensor, t: torch.Tensor) -> Any:
        def loss(p: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return F.mse_loss(functional_call(net, p, (x,)), t)

        return grad(loss)(dict(net.named_parameters()), x, t)

    return f, [(_input(2, 3), _plain(2, 2))], net.parameters()


@program
def per_sample_gradients() -> Made:
    net = _net()
    params = {name: one.detach() for name, one in net.named_parameters()}

    def loss(p: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(net, p, (x.unsqueeze(0),)), t.unsqueeze(0))

    def f(p: Any, x: torch.Tensor, t: torch.Tensor) -> Any:
        return vmap(grad(loss), in_dims=(None, 0, 0))(p, x, t)

    return f, [(params, _plain(4, 3), torch.tensor([0, 1, 1, 0]))], []


@program
def per_sample_gradients_of_parameters() -> Made:
    net = _net()

    def loss(p: Any, x: torch.Tensor) -> torch.Tensor:
        return functional_call(net, p, (x,)).pow(2).sum()

    def f(x: torch.Tensor) -> Any:
        return vmap(grad_and_value(loss), in_dims=(None, 0))(dict(net.named_parameters()), x)

    return f, [(_input(4, 3),)], net.parameters()


@program
def per_sample_gradients_with_dropout() -> Made:
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    params = {name: one.detach() for name, one in net.named_parameters()}

    def loss(p: Any, x: torch.Tensor) -> torch.Tensor:
        return functional_call(net, p, (x,)).pow(2).sum()

    def f(x: torch.Tensor) -> Any:
        return vmap(grad(loss), in_dims=(None, 0), randomness="different")(params, x)

    return f, [(_plain(4, 3),)], []


@program
def maml() -> Made:
    net = _net()
    params = {name: one.detach().requires_grad_() for name, one in net.named_parameters()}

    def f(p: Any, x: torch.Tensor, t: torch.Tensor) -> Any:
        def loss(q: Any) -> torch.Tensor:
            return F.mse_loss(functional_call(net, q, (x,)), t)

        grads = grad(loss)(p)
        adapted = {name: one - 0.1 * grads[name] for name, one in p.items()}
        return loss(adapted)

    return f, [(params, _plain(4, 3), _plain(4, 2))], []


@program
def maml_over_tasks() -> Made:
    net = _net()
    params = {name: one.detach().requires_grad_() for name, one in net.named_parameters()}

    def f(p: Any, x: torch.Tensor, t: torch.Tensor) -> Any:
        def task(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            def loss(q: Any) -> torch.Tensor:
                return F.mse_loss(functional_call(net, q, (x,)), t)

            grads = grad(loss)(p)
            return loss({name: one - 0.1 * grads[name] for name, one in p.items()})

        return vmap(task)(x, t).mean()

    return f, [(params, _plain(5, 4, 3), _plain(5, 4, 2))], []


@program
def ensemble() -> Made:
    nets = [_net() for _ in range(3)]
    params, buffers = torch.func.stack_module_state(nets)  # type: ignore[arg-type]

    def f(p: Any, b: Any, x: torch.Tensor) -> Any:
        return vmap(lambda p, b, x: functional_call(nets[0], (p, b), (x,)), (0, 0, None))(p, b, x)

    return f, [(params, buffers, _input(2, 3))], []


@program
def ensemble_gradients() -> Made:
    nets = [_net() for _ in range(3)]
    params, _ = torch.func.stack_module_state(nets)  # type: ignore[arg-type]

    def f(p: Any, x: torch.Tensor) -> Any:
        def loss(p: Any, x: torch.Tensor) -> torch.Tensor:
            return functional_call(nets[0], p, (x,)).sin().mean()

        return vmap(grad(loss), (0, None))(p, x)

    return f, [(params, _input(2, 3))], []


@program
def network_tangent_kernel() -> Made:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    params = {name: one.detach() for name, one in net.named_parameters()}

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        def single(p: Any, x: torch.Tensor) -> torch.Tensor:
            return functional_call(net, p, (x,))

        left = vmap(jacrev(single), (None, 0))(params, x)
        right = vmap(jacrev(single), (None, 0))(params, y)
        return sum(
            torch.einsum("Naf,Mbf->NMab", left[key].flatten(2), right[key].flatten(2)) for key in params
        )

    return f, [(_plain(2, 3), _plain(4, 3))], []


# ---- vmap of gradients, gradients of vmap ----


@program
def vmap_of_grad() -> Made:
    def f(x: torch.Tensor) -> Any:
        return vmap(grad(lambda a: (a.sin() * a).sum()))(x)

    return f, [(_input(4, 3),)], []


@program
def grad_of_vmap() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: vmap(lambda r: r.exp() * r.sum())(a).sum())(x)

    return f, [(_input(4, 3),)], []


@program
def vmap_of_grad_of_vmap() -> Made:
    def f(x: torch.Tensor) -> Any:
        return vmap(grad(lambda a: vmap(lambda r: r * r.sin())(a).sum()), in_dims=1, out_dims=1)(x)

    return f, [(_input(4, 3),)], []


@program
def vmap_of_hessian() -> Made:
    def f(x: torch.Tensor) -> Any:
        return vmap(hessian(lambda a: a.sin().sum()))(x)

    return f, [(_plain(4, 3),)], []


@program
def vmap_of_jacrev_of_jacrev() -> Made:
    def f(x: torch.Tensor) -> Any:
        return vmap(jacrev(jacrev(lambda a: (a.sin() * a.sum()).sum())))(x)

    return f, [(_plain(4, 3),)], []


@program
def vmap_in_chunks() -> Made:
    def f(x: torch.Tensor) -> Any:
        return vmap(lambda r: (r.sin(), r.sum()), chunk_size=3)(x)

    return f, [(_input(4, 3),)], []


@program
def vmap_of_grad_in_chunks() -> Made:
    def f(x: torch.Tensor) -> Any:
        return vmap(grad(lambda a: (a.sin() * a).sum()), chunk_size=2)(x)

    return f, [(_input(4, 3),)], []


@program
def vmap_with_the_same_random_numbers() -> Made:
    def f(x: torch.Tensor) -> Any:
        return vmap(lambda r: r * torch.rand(3), randomness="same")(x)

    return f, [(_input(4, 3),)], []


# ---- vjp ----


@program
def vjp_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        y, pull = vjp(lambda a: a.sin() * a, x)
        return y, pull(torch.ones(3))

    return f, [(_input(3),)], []


@program
def vjp_of_several() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        (u, v), pull = vjp(lambda a, b: (a * b, (a + b).sum()), x, y)
        return u, pull((u * 2, v))

    return f, [(_input(3), _input(3))], []


@program
def vjp_with_aux() -> Made:
    def f(x: torch.Tensor) -> Any:
        y, pull, aux = vjp(lambda a: (a.sin(), a * 3), x, has_aux=True)
        return y, pull(y), aux

    return f, [(_input(3),)], []


@program
def vjp_of_a_pytree() -> Made:
    def f(x: torch.Tensor) -> Any:
        out, pull = vjp(lambda p: {"u": p["a"] * p["b"], "v": p["a"].sum()}, {"a": x, "b": x.cos()})
        return pull({"u": out["u"], "v": out["v"]})

    return f, [(_input(3),)], []


@program
def vjp_pulled_twice() -> Made:
    def f(x: torch.Tensor) -> Any:
        y, pull = vjp(lambda a: a.exp() * a, x)
        return pull(y)[0] + pull(x)[0] * 2

    return f, [(_input(3),)], []


@program
def vjp_under_vmap() -> Made:
    def f(x: torch.Tensor, c: torch.Tensor) -> Any:
        _, pull = vjp(lambda a: a.exp() * a, x)
        return vmap(pull)(c)

    return f, [(_input(3), _input(4, 3))], []


@program
def vjp_closure_over_gradients() -> Made:
    weight = _input(3)

    def f(x: torch.Tensor) -> Any:
        y, pull = vjp(lambda a: a.exp() * weight, x)
        return pull(y)

    return f, [(_input(3),)], [weight]


@program
def vjp_with_dropout() -> Made:
    def f(x: torch.Tensor) -> Any:
        y, pull = vjp(lambda a: F.dropout(a, 0.5) * a, x)
        return y, pull(torch.ones(8))

    return f, [(_input(8),)], []


@program
def vjp_of_a_module() -> Made:
    layer = nn.Linear(3, 2)

    def f(x: torch.Tensor) -> Any:
        y, pull = vjp(layer, x)
        return pull(y)[0]

    return f, [(_input(4, 3),)], layer.parameters()


@program
def vjp_under_no_grad() -> Made:
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y, pull = vjp(lambda a: a.exp() * a, x)
            return y, pull(y)

    return f, [(_input(3),)], []


# ---- jvp ----


@program
def jvp_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jvp(lambda a: a.sin() * a, (x,), (torch.ones(3),))

    return f, [(_input(3),)], []


@program
def jvp_of_several() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return jvp(lambda a, b: (a * b, (a + b).sum()), (x, y), (y, x))

    return f, [(_input(3), _input(3))], []


@program
def jvp_with_aux() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jvp(lambda a: (a.sin(), {"k": a * 2}), (x,), (x * 2,), has_aux=True)

    return f, [(_input(3),)], []


@program
def jvp_of_what_does_not_depend() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return jvp(lambda a: (a.sin(), y * 2), (x,), (x,))

    return f, [(_plain(3), _plain(3))], []


@program
def jvp_of_jvp() -> Made:
    def f(x: torch.Tensor) -> Any:
        def push(a: torch.Tensor) -> torch.Tensor:
            return jvp(lambda b: b.sin() * b, (a,), (torch.ones(3),))[1]

        return jvp(push, (x,), (torch.ones(3),))

    return f, [(_plain(3),)], []


@program
def hessian_vector_product() -> Made:
    def f(x: torch.Tensor, v: torch.Tensor) -> Any:
        return jvp(grad(lambda a: (a.sin() * a).sum()), (x,), (v,))[1]

    return f, [(_input(3), _input(3))], []


@program
def grad_of_jvp() -> Made:
    def f(x: torch.Tensor) -> Any:
        return grad(lambda a: jvp(lambda b: b.sin() * b, (a,), (torch.ones(3),))[1].sum())(x)

    return f, [(_input(3),)], []


@program
def jvp_of_a_module() -> Made:
    layer = nn.Sequential(nn.Linear(3, 2), nn.Tanh())

    def f(x: torch.Tensor, v: torch.Tensor) -> Any:
        return jvp(layer, (x,), (v,))

    return f, [(_input(4, 3), _input(4, 3))], layer.parameters()


# ---- Jacobians ----


@program
def jacrev_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacrev(lambda a: a.sin() * a.sum())(x)

    return f, [(_input(3),)], []


@program
def jacrev_of_several() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return jacrev(lambda a, b: (a * b.sum(), b.exp()), argnums=(0, 1))(x, y)

    return f, [(_input(3), _input(2))], []


@program
def jacrev_with_aux() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacrev(lambda a: (a.sin(), a.exp()), has_aux=True)(x)

    return f, [(_input(3),)], []


@program
def jacrev_in_chunks() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacrev(lambda a: a.sin() * a.sum(), chunk_size=2)(x)

    return f, [(_input(3),)], []


@program
def jacrev_one_by_one() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacrev(lambda a: a.sin() * a.sum(), chunk_size=1)(x)

    return f, [(_input(3),)], []


@program
def jacrev_of_a_pytree() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacrev(lambda p: {"u": p["a"] * p["b"].sum()})({"a": x, "b": x.cos()})

    return f, [(_input(3),)], []


@program
def jacfwd_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacfwd(lambda a: a.sin() * a.sum())(x)

    return f, [(_input(3),)], []


@program
def jacfwd_of_several() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return jacfwd(lambda a, b: a * b.sum(), argnums=(0, 1))(x, y)

    return f, [(_plain(3), _plain(2))], []


@program
def jacfwd_with_aux() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacfwd(lambda a: (a.sin(), a.exp()), has_aux=True)(x)

    return f, [(_plain(3),)], []


@program
def hessian_plain() -> Made:
    def f(x: torch.Tensor) -> Any:
        return hessian(lambda a: (a.sin() * a.sum()).sum())(x)

    return f, [(_plain(3),)], []


@program
def hessian_of_several() -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return hessian(lambda a, b: (a * b.sum()).sin().sum(), argnums=(0, 1))(x, y)

    return f, [(_plain(3), _plain(2))], []


@program
def hessian_of_parameters() -> Made:
    layer = nn.Linear(3, 1)
    params = {name: one.detach() for name, one in layer.named_parameters()}

    def f(p: Any, x: torch.Tensor) -> Any:
        return hessian(lambda p: functional_call(layer, p, (x,)).pow(3).sum())(p)

    return f, [(params, _plain(2, 3))], []


@program
def jacrev_of_jacrev() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacrev(jacrev(lambda a: a.sin() * a.sum()))(x)

    return f, [(_plain(3),)], []


@program
def jacfwd_of_jacfwd() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacfwd(jacfwd(lambda a: a.sin() * a.sum()))(x)

    return f, [(_plain(3),)], []


@program
def jacrev_of_jacfwd() -> Made:
    def f(x: torch.Tensor) -> Any:
        return jacrev(jacfwd(lambda a: a.sin() * a.sum()))(x)

    return f, [(_plain(3),)], []


@program
def laplacian() -> Made:
    """As physics-informed networks have it."""
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))

    def f(x: torch.Tensor) -> Any:
        def u(point: torch.Tensor) -> torch.Tensor:
            return net(point).squeeze(-1)

        return vmap(lambda p: torch.trace(jacrev(grad(u))(p)))(x)

    return f, [(_plain(4, 2),)], net.parameters()


# ---- with other operators ----


@program
def grad_beside_a_checkpoint() -> Made:
    layer = nn.Linear(3, 3)

    def f(x: torch.Tensor) -> Any:
        def g(a: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(lambda b: layer(b).sin(), a, use_reentrant=False).sum()

        return layer(x) + grad(lambda a: layer(a).sum())(x) * g(x)

    return f, [(_input(3),)], layer.parameters()


@program
def vmap_of_grad_within_cond() -> Made:
    def f(x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: vmap(grad(lambda a: a.sin().sum()))(x), lambda x: x.cos(), (x,))
        return y + 1

    return f, [(_plain(4, 3),), (-_plain(4, 3),)], []
