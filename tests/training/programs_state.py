"""Train steps that change what tensors are: leaves, parameters and state made inside, `.data`, hooks, autocast."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim

from .loops import Step, Wrap, mlp, program, state_of, trained

Watch = Callable[[], list[Any]]


def body(function: Callable[[Callable[..., Any], Any], Any]) -> Callable[[Wrap], tuple[Step, Watch]]:
    """A program: `function` gives the step that is to be compiled, and what to watch."""

    @functools.wraps(function)
    def make(wrap: Wrap) -> tuple[Step, Watch]:
        step, watch = function()  # type: ignore[call-arg]
        return wrap(step), watch

    program(function.__name__, make)
    return make


# --- leaves, parameters ---


@body
def new_leaf() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        leaf = x.clone().requires_grad_()
        F.mse_loss(model(leaf), y).backward()
        return leaf.grad * 2, leaf.is_leaf, leaf.requires_grad

    return step, lambda: state_of([model])


@body
def new_leaf_made() -> Any:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        weight = torch.full((4, 3), 0.5, requires_grad=True)
        F.mse_loss(x @ weight, y).backward()
        return weight - 0.1 * weight.grad

    return step, lambda: [torch.get_rng_state()]


@body
def new_leaf_detached() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        hidden = model[0](x)
        leaf = hidden.detach().requires_grad_()
        loss = F.mse_loss(model[2](leaf.relu()), y)
        loss.backward()
        hidden.backward(leaf.grad)
        return loss, leaf.grad

    return step, lambda: state_of([model])


@body
def input_gradient() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.requires_grad_()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss, x.grad

    return step, lambda: state_of([model])


@body
def adversarial() -> Any:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        x = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(F.mse_loss(model(x), y), x)
        noisy = (x + 0.1 * gradient.sign()).detach()
        optimizer.zero_grad()
        loss = F.mse_loss(model(noisy), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: state_of([model], [optimizer])


@body
def gradient_penalty() -> Any:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        x = x.clone().requires_grad_()
        out = model(x)
        (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = F.mse_loss(out, y) + (gradient.norm(2, 1) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: state_of([model], [optimizer])


@body
def parameter_made() -> Any:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        weight = nn.Parameter(torch.full((4, 3), 0.5))
        loss = F.mse_loss(x @ weight, y)
        loss.backward()
        return loss, weight, weight.grad

    return step, lambda: []


@body
def module_made() -> Any:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        layer = nn.Linear(4, 3)
        loss = F.mse_loss(layer(x), y)
        loss.backward()
        return loss, layer.weight.grad

    return step, lambda: [torch.get_rng_state()]


@body
def parameter_replaced() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        with torch.no_grad():
            model[0].weight = nn.Parameter(model[0].weight - 0.1 * model[0].weight.grad)
        return loss

    return step, lambda: state_of([model])


def lazy(build: Callable[[], nn.Module]) -> Callable[[Wrap], tuple[Step, Watch]]:
    def make(wrap: Wrap) -> tuple[Step, Watch]:
        model = build()

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(parameter.grad, alpha=0.1)
                    parameter.grad = None
            return loss

        return wrap(step), lambda: state_of([model])

    return make


program("lazy_linear", lazy(lambda: nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3))))
program(
    "lazy_batchnorm", lazy(lambda: nn.Sequential(nn.Linear(4, 8), nn.LazyBatchNorm1d(), nn.LazyLinear(3)))
)

# --- copies, data ---


@body
def copied_tensor() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        twin = copy.copy(x)
        loss = F.mse_loss(model(twin * 2), y)
        loss.backward()
        return loss, twin is x

    return step, lambda: state_of([model])


@body
def deep_copied_model() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        twin = copy.deepcopy(model)
        loss = F.mse_loss(twin(x), y)
        loss.backward()
        return loss, [parameter.grad for parameter in twin.parameters()]

    return step, lambda: state_of([model])


def updated_by(change: Callable[[Any, Any], Any], name: str) -> None:
    def make(wrap: Wrap) -> tuple[Step, Watch]:
        model = mlp()

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            loss = F.mse_loss(model(x), y)
            loss.backward()
            for parameter in model.parameters():
                change(parameter, parameter.grad)
                parameter.grad = None
            return loss

        return wrap(step), lambda: state_of([model])

    program(name, make)


def assign(parameter: Any, gradient: Any) -> None:
    parameter.data = parameter.data - 0.1 * gradient


def quietly(parameter: Any, gradient: Any) -> None:
    with torch.no_grad():
        parameter -= 0.1 * gradient


def copied_into(parameter: Any, gradient: Any) -> None:
    with torch.no_grad():
        parameter.copy_(parameter - 0.1 * gradient)


def set_to(parameter: Any, gradient: Any) -> None:
    with torch.no_grad():
        parameter.set_(parameter - 0.1 * gradient)


def zeroed(parameter: Any, gradient: Any) -> None:
    parameter.data.add_(gradient, alpha=-0.1)
    gradient.zero_()


updated_by(lambda parameter, gradient: parameter.data.add_(gradient, alpha=-0.1), "update_data_in_place")
updated_by(lambda parameter, gradient: parameter.data.sub_(0.1 * gradient), "update_data_sub")
updated_by(assign, "update_data_assigned")
updated_by(quietly, "update_no_grad")
updated_by(copied_into, "update_copy")
updated_by(set_to, "update_set")
updated_by(zeroed, "update_zero")


# --- gradients ---


def between(name: str, change: Callable[[nn.Module], Any]) -> None:
    program(name, lambda wrap: trained(wrap, mlp(), between=change))


def scale_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.5)


def replace_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = parameter.grad.clamp(-0.1, 0.1)  # type: ignore[union-attr]


def noise(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad.add_(torch.randn_like(parameter), alpha=0.01)  # type: ignore[union-attr]


def normalized(model: nn.Module) -> None:
    total = torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm()  # type: ignore[union-attr]
    for parameter in model.parameters():
        parameter.grad.div_(total + 1e-6)  # type: ignore[union-attr]


def decayed(model: nn.Module) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "weight" in name:
                parameter.mul_(0.99)


between("gradients_scaled", scale_gradients)
between("gradients_replaced", replace_gradients)
between("gradients_noise", noise)
between("gradients_normalized", normalized)
between("weights_decayed", decayed)
between("clip_norm", lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1))
between("clip_value", lambda model: nn.utils.clip_grad_value_(model.parameters(), 0.01))
between("total_norm", lambda model: nn.utils.get_total_norm([p.grad for p in model.parameters()]))
between("logged", lambda model: [parameter.grad.norm().item() for parameter in model.parameters()])


def accumulated(every: int, inside: bool, name: str) -> None:
    def make(wrap: Wrap) -> tuple[Step, Watch]:
        model = mlp()
        optimizer = optim.AdamW(model.parameters(), 0.01)
        count = [0]

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            losses = []
            for one, other in zip(x.chunk(every), y.chunk(every)):
                loss = F.mse_loss(model(one), other) / every
                loss.backward()
                losses.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
            return torch.stack(losses).sum()

        def counted(x: torch.Tensor, y: torch.Tensor) -> Any:
            loss = F.mse_loss(model(x), y) / every
            loss.backward()
            count[0] += 1
            if count[0] % every == 0:
                optimizer.step()
                optimizer.zero_grad()
            return loss

        return wrap(step if inside else counted), lambda: state_of([model], [optimizer])

    program(name, make)


accumulated(2, True, "accumulated_chunks")
accumulated(2, False, "accumulated_counted")


# --- hooks that backward() calls ---


@body
def hook_on_tensor() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        hidden = model[0](x)
        hidden.register_hook(lambda gradient: gradient * 2)
        loss = F.mse_loss(model[2](hidden.relu()), y)
        loss.backward()
        return loss

    return step, lambda: state_of([model])


@body
def hook_on_parameter() -> Any:
    model = mlp()
    seen: list[Any] = []
    model[0].weight.register_hook(lambda gradient: seen.append(gradient.sum()) or gradient * 0.5)
    optimizer = optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: [*state_of([model], [optimizer]), *seen]


@body
def hook_after_accumulation() -> Any:
    model = mlp()
    optimizers = {p: optim.SGD([p], 0.1, momentum=0.9) for p in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return step, lambda: state_of([model], optimizers.values())


@body
def hook_on_module() -> Any:
    model = mlp()
    seen: list[Any] = []
    model[2].register_full_backward_hook(lambda module, ins, outs: seen.append(outs[0].sum()))

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return step, lambda: [*state_of([model]), *seen]


@body
def hook_before_backward() -> Any:
    model = mlp()
    model[0].register_full_backward_pre_hook(lambda module, outs: (outs[0] * 2,))

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return step, lambda: state_of([model])


@body
def hook_forward() -> Any:
    model = mlp()
    seen: dict[str, Any] = {}
    model[0].register_forward_hook(lambda module, args, out: seen.__setitem__("out", out.detach()))
    model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return step, lambda: [*state_of([model]), *seen.values()]


@body
def retained() -> Any:
    model = mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        hidden = model[0](x)
        hidden.retain_grad()
        loss = F.mse_loss(model[2](hidden.relu()), y)
        loss.backward()
        return loss, hidden.grad

    return step, lambda: state_of([model])


@body
def optimizer_hooks() -> Any:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1)
    counts = [0, 0]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        counts[0] += 1

    def behind(optimizer: Any, args: Any, kwargs: Any) -> None:
        counts[1] += 1

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(behind)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: [*state_of([model], [optimizer]), *counts]


# --- several of a kind ---


@body
def gan() -> Any:
    generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
    critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    first = optim.Adam(generator.parameters(), 0.01, betas=(0.5, 0.99))
    second = optim.Adam(critic.parameters(), 0.01, betas=(0.5, 0.99))

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        fake = generator(torch.randn(len(x), 2))
        second.zero_grad()
        real_loss = F.binary_cross_entropy_with_logits(critic(x), torch.ones(len(x), 1))
        fake_loss = F.binary_cross_entropy_with_logits(critic(fake.detach()), torch.zeros(len(x), 1))
        (real_loss + fake_loss).backward()
        second.step()
        first.zero_grad()
        loss = F.binary_cross_entropy_with_logits(critic(fake), torch.ones(len(x), 1))
        loss.backward()
        first.step()
        return real_loss, fake_loss, loss

    return step, lambda: state_of([generator, critic], [first, second])


@body
def frozen_part() -> Any:
    model = mlp()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    optimizer = optim.AdamW([p for p in model.parameters() if p.requires_grad], 0.01)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: state_of([model], [optimizer])


@body
def unfreezing() -> Any:
    model = mlp()
    model[0].requires_grad_(False)
    optimizer = optim.SGD(model.parameters(), 0.1)
    count = [0]

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        count[0] += 1
        if count[0] == 2:
            model[0].requires_grad_(True)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: state_of([model], [optimizer])


@body
def distilled() -> Any:
    teacher, student = mlp(16), mlp(4)
    optimizer = optim.AdamW(student.parameters(), 0.01)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        with torch.no_grad():
            target = teacher(x)
        out = student(x)
        loss = F.mse_loss(out, y) + F.kl_div(
            (out / 2).log_softmax(1), (target / 2).softmax(1), reduction="batchmean"
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: state_of([teacher, student], [optimizer])


@body
def momentum_teacher() -> Any:
    student = mlp()
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = optim.SGD(student.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(student(x), teacher(x + 0.1)) + F.mse_loss(student(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters()):
                slow.lerp_(fast, 0.1)
        return loss

    return step, lambda: state_of([student, teacher], [optimizer])


@body
def actor_critic() -> Any:
    actor, critic = mlp(), nn.Linear(4, 1)
    optimizer = optim.Adam([*actor.parameters(), *critic.parameters()], 0.01)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        distribution = torch.distributions.Categorical(logits=actor(x))
        action = distribution.sample()
        value = critic(x).squeeze(1)
        advantage = (y.gather(1, action.unsqueeze(1)).squeeze(1) - value).detach()
        loss = -(distribution.log_prob(action) * advantage).mean() - 0.01 * distribution.entropy().mean()
        loss = loss + F.mse_loss(value, y.mean(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: state_of([actor, critic], [optimizer])


@body
def autoencoder() -> Any:
    encoder, decoder = nn.Linear(4, 4), nn.Linear(2, 4)
    optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()], 0.01)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        mean, log = encoder(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log).exp()
        loss = F.mse_loss(decoder(code), x) - 0.5 * (1 + log - mean.pow(2) - log.exp()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda: state_of([encoder, decoder], [optimizer])


@body
def skipped_on_nan() -> Any:
    model = mlp()
    optimizer = optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if torch.isfinite(loss):
            loss.backward()
            optimizer.step()
        return loss.item()

    return step, lambda: state_of([model], [optimizer])


@body
def evaluated_between() -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        model.train()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            return loss, F.mse_loss(model(x), y)

    return step, lambda: state_of([model], [optimizer])


# --- mixed precision ---


def autocast_program(name: str, forward: Callable[[nn.Module, Any, Any], torch.Tensor]) -> None:
    def make(wrap: Wrap) -> tuple[Step, Watch]:
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
        optimizer = optim.SGD(model.parameters(), 0.05, momentum=0.9)

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            optimizer.zero_grad()
            loss = forward(model, x, y)
            loss.backward()
            optimizer.step()
            return loss, loss.dtype

        return wrap(step), lambda: [*state_of([model], [optimizer]), torch.is_autocast_enabled("cpu")]

    program(name, make)


def inside(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return F.mse_loss(model(x).float(), y)


def forward_only(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    return F.mse_loss(out.float(), y)


def nested(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model[0](x)  # type: ignore[index]
        with torch.autocast("cpu", enabled=False):
            hidden = model[1](hidden.float())  # type: ignore[index]
        out = model[3](model[2](hidden))  # type: ignore[index]
    return F.mse_loss(out.float(), y)


def uncached(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        out = model(x) + model(x * 2)
    return F.mse_loss(out.float(), y)


def cached(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x) + model(x * 2)
    return F.mse_loss(out.float(), y)


def half(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.float16):
        out = model(x)
    return F.mse_loss(out.float(), y)


def over_a_break(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model[0](x)  # type: ignore[index]
        torch._dynamo.graph_break()
        out = model[3](model[2](model[1](hidden)))  # type: ignore[index]
    return F.mse_loss(out.float(), y)


def over_two_breaks(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model[0](x)  # type: ignore[index]
        torch._dynamo.graph_break()
        hidden = model[1](hidden)  # type: ignore[index]
        with torch.autocast("cpu", enabled=False):
            torch._dynamo.graph_break()
            hidden = hidden.float() * 2
        out = model[3](model[2](hidden))  # type: ignore[index]
    return F.mse_loss(out.float(), y)


@torch.autocast("cpu", torch.bfloat16)
def decorated(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(model(x).float(), y)


for function in (
    inside,
    forward_only,
    nested,
    uncached,
    cached,
    half,
    over_a_break,
    over_two_breaks,
    decorated,
):
    autocast_program(f"autocast_{function.__name__}", function)


def outside(name: str, manager: Callable[[], Any]) -> None:
    def make(wrap: Wrap) -> tuple[Step, Watch]:
        step, watch = trained(wrap, mlp(), loss=lambda out, y: F.mse_loss(out.float(), y))

        def under(x: torch.Tensor, y: torch.Tensor) -> Any:
            with manager():
                return step(x, y)

        return under, watch

    program(name, make)


outside("autocast_outside", lambda: torch.autocast("cpu", torch.bfloat16))
outside("autocast_outside_uncached", lambda: torch.autocast("cpu", torch.bfloat16, cache_enabled=False))
outside("autocast_outside_off", lambda: torch.autocast("cpu", enabled=False))
outside("grad_mode_outside", lambda: torch.enable_grad())
outside("anomaly_outside", lambda: torch.autograd.set_detect_anomaly(True, check_nan=False))
