"""Operations that raise when a graph runs: effects happen once, and the program's handlers get the error."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import magneto

BAD = torch.tensor([7])
GOOD = torch.tensor([0])


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call gives or raises."""
    try:
        return "value", function(*arguments)
    except Exception as error:
        names = [entry.name for entry in traceback.extract_tb(error.__traceback__)]
        lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__)]
        return "raised", type(error), str(error), names[1:], lines[1:]


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same, metadata of tensors included."""
    if isinstance(left, torch.Tensor):
        return (
            isinstance(right, torch.Tensor)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.stride() == right.stride()
            and left.requires_grad == right.requires_grad
            and left._version == right._version
            and torch.equal(left, right)
        )
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def check(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], *calls: Any, **options: Any
) -> None:
    """Compare calls of a function in eager and captured: results, errors with their places, and the arguments after."""
    compiled = magneto.compile(function, backend="eager", **options)
    for call in calls or (BAD,):
        torch.manual_seed(0)
        expected_arguments = make()
        expected = outcome(function, (*expected_arguments, call))
        torch.manual_seed(0)
        arguments = make()
        result = outcome(compiled, (*arguments, call))
        assert same(result, expected), (result, expected)
        assert same(arguments, expected_arguments), (arguments, expected_arguments)


BOTH = (BAD, BAD), (GOOD, BAD), (BAD, GOOD, BAD)


@pytest.mark.parametrize("calls", BOTH)
def test_a_write_before_the_error_is_made_once(calls):
    def f(x, log, i):
        x.add_(1)
        log.append(1)
        try:
            y = x[i] * 2
        except IndexError:
            log.append("caught")
            return x * 3
        return y

    check(f, lambda: (torch.ones(3), []), *calls)


@pytest.mark.parametrize("calls", BOTH)
def test_python_effects_before_an_error_that_nobody_handles(calls):
    def f(x, log, i):
        x.add_(1)
        log.append(1)
        y = x[i]
        log.append(2)
        return y

    check(f, lambda: (torch.ones(3), []), *calls)


def inner(x, i, log):
    log.append("inner")
    return x.index_select(0, i)


def test_an_error_goes_through_frames_to_a_handler_further_out():
    def f(x, log, i):
        x.mul_(2)
        h = x + 1
        try:
            y = inner(h, i, log)
        except Exception as error:
            log.append(type(error).__name__)
            y = h
        return y + x

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


def test_the_traceback_of_an_error_is_eagers():
    def f(x, log, i):
        x.mul_(2)
        return inner(x, i, log)

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


def test_the_statistics_of_batch_norm_are_written_once():
    def f(x, mean, variance, log, i):
        y = torch.nn.functional.batch_norm(x, mean, variance, training=True)
        try:
            return y[i]
        except IndexError:
            return y

    check(f, lambda: (torch.arange(6.0).view(3, 2), torch.zeros(2), torch.ones(2), []), BAD, GOOD, BAD)


def test_foreach_writes_once():
    def f(xs, log, i):
        torch._foreach_add_(xs, 1.0)
        try:
            return xs[0][i]
        except IndexError:
            return xs[0] + 1

    check(f, lambda: ([torch.ones(3), torch.zeros(2)], []), BAD, GOOD, BAD)


METADATA: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x.t_(),
    lambda x: x.unsqueeze_(0),
    lambda x: x.transpose_(0, 1),
    lambda x: x.squeeze_(),
    lambda x: x.resize_(2, 2),
    lambda x: x.swapdims_(0, 1),
]


@pytest.mark.parametrize("number", range(len(METADATA)))
def test_metadata_is_changed_once(number):
    change = METADATA[number]

    def f(x, log, i):
        change(x)
        try:
            return log[0] + x.sum()[None][i]
        except IndexError:
            return x.shape

    check(f, lambda: (torch.zeros(2, 3), [1.0]), BAD, GOOD, BAD)


def test_gradients_flow_once():
    w1, w2 = (torch.ones(3, requires_grad=True) for _ in range(2))

    def make(w):
        return w * 1.0, w

    def f(x, w, i):
        x.mul_(w)
        try:
            return x[i]
        except IndexError:
            return x * 1

    x, w = make(w1)
    f(x, w, BAD).sum().backward()
    x, w = make(w2)
    magneto.compile(f, backend="eager")(x, w, BAD).sum().backward()
    assert torch.equal(w1.grad, w2.grad)


def test_random_numbers_are_drawn_once():
    def f(x, log, i):
        y = torch.rand(3)
        try:
            return y[i]
        except IndexError:
            return y + torch.rand(3)

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


@pytest.mark.parametrize("calls", BOTH)
def test_a_value_that_only_the_handler_reads(calls):
    def f(x, log, i):
        h = x + 1
        values, places = torch.max(x.view(1, 3), 1)
        y = h * 2
        for _ in range(3):
            y = y + 1
        try:
            z = y[i]
        except IndexError:
            return h, places
        return z

    check(f, lambda: (torch.arange(3.0), []), *calls)


def test_an_error_in_a_loop_after_a_break():
    def f(x, log, i):
        for k in range(3):
            x.add_(1)
            print(end="")
            try:
                log.append(x[i] if k == 1 else k)
            except IndexError:
                log.append("caught")
                x.mul_(2)
        return x * 1

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


def test_without_breaks_the_error_is_raised_where_eager_raises_it():
    def f(x, log, i):
        x.add_(1)
        log.append(0)
        try:
            return x[i]
        except IndexError:
            log.append(1)
            return x + 1

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD, fullgraph=True)


def test_an_error_below_a_key_function_comes_once():
    def f(x, log, i):
        x.add_(1)
        try:
            return sorted([2, 1], key=lambda n: log.append(n) or x[i] is None)
        except IndexError:
            log.append("caught")
            return x * 2

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


def test_an_index_that_nobody_uses_raises():
    def f(x, log, i):
        try:
            x[i]
        except IndexError:
            log.append("caught")
        return x + 1

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


UNUSED: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda x, i: x[i, i],
    lambda x, i: x[..., i],
    lambda x, i: torch.gather(x, 0, i[None]),
    lambda x, i: torch.index_select(x, 0, i),
    lambda x, i: torch.take(x, i * 9),
    lambda x, i: torch.nn.functional.embedding(i, x),
    lambda x, i: torch.linalg.inv(x * (7 - i)),
    lambda x, i: torch.linalg.cholesky(x - i),
    lambda x, i: torch.multinomial(x[0] - i, 1),
    lambda x, i: torch.nn.functional.nll_loss(x, i.expand(3)),
    lambda x, i: torch.nn.functional.one_hot(i, 5),
    lambda x, i: torch.bernoulli(x + i),
    lambda x, i: i // (7 - i),
    lambda x, i: x.to(torch.float16).index_add(0, i, x[:1].half()),
]


@pytest.mark.parametrize("number", range(len(UNUSED)))
def test_operations_that_raise_by_data_are_not_left_out(number):
    operation = UNUSED[number]

    def f(x, log, i):
        log.append(0)
        try:
            operation(x, i)
        except (RuntimeError, IndexError) as error:
            log.append(type(error).__name__)
        return x + 1

    check(f, lambda: (torch.eye(3), []), BAD, GOOD, BAD)


picky_runs: list[int] = []


@torch.library.custom_op("magneto_failures::picky", mutates_args=())
def picky(x: torch.Tensor) -> torch.Tensor:
    picky_runs.append(1)
    if x.sum() > 2:
        raise ValueError("too much")
    return x.clone()


@picky.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_added_operator_that_raises_runs_once():
    def f(x, log, i):
        x.add_(1)
        try:
            return torch.ops.magneto_failures.picky(x)
        except ValueError as error:
            log.append(str(error))
            return x - 1

    picky_runs.clear()
    check(f, lambda: (torch.ones(3), []), BAD)
    assert len(picky_runs) == 2


def known(x):
    return (x.sin().exp() * x).cos()


def without_shape_functions(x):
    return (torch.special.i0e(x) * x).logcumsumexp(0).sinc()


@pytest.mark.parametrize("f", [known, without_shape_functions])
def test_checkpoint_of_a_compiled_function(f):

    def run(function):
        x = torch.arange(4.0, requires_grad=True)
        for _ in range(2):
            torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False).sum().backward()
        return x.grad

    assert torch.equal(run(magneto.compile(f, backend="eager")), run(f))


def test_a_saved_tensor_hook_that_raises():
    def f(x, log):
        log.append(1)
        try:
            return (x.sin() * x).exp()
        except ValueError as error:
            log.append(str(error))
            return x

    def run(function):
        log, packed = [], []

        def pack(x):
            packed.append(1)
            if len(packed) == 2:
                raise ValueError("no")
            return x

        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            result = function(x, log)
        return result.detach(), log, packed

    assert same(run(magneto.compile(f, backend="eager")), run(f))


def test_an_error_inside_no_grad_leaves_the_mode_as_eager_does():
    def f(x, log, i):
        x.mul_(2)
        try:
            with torch.no_grad():
                y = x[i]
        except IndexError:
            y = x
        log.append(torch.is_grad_enabled())
        return y * 1

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


def test_a_context_manager_sees_the_error():
    class Manager:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")

        def __exit__(self, kind, value, trace):
            self.log.append(kind is not None and kind.__name__)
            return True

    def f(x, log, i):
        y = x + 1
        with Manager(log):
            x.add_(1)
            y = x[i]
        return y

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


def test_finally_runs_once():
    def f(x, log, i):
        x.add_(1)
        try:
            y = x[i]
        finally:
            log.append("finally")
        return y

    check(f, lambda: (torch.ones(3), []), BAD, GOOD, BAD)


@pytest.mark.parametrize("kind", ["inference", "autocast"])
def test_an_error_in_a_mode_that_is_left_by_it(kind):
    def f(x, log, i):
        manager = (
            torch.inference_mode() if kind == "inference" else torch.autocast("cpu", dtype=torch.bfloat16)
        )
        x.add_(1)
        try:
            with manager:
                y = x @ x
                log.append(1)
                y = y[i]
        except IndexError:
            y = x
        log.append(torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu"))
        return y @ y

    check(f, lambda: (torch.ones(3, 3), []), BAD, GOOD, BAD)


def unhurried(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """A backend in Python."""
    return module.forward


@pytest.mark.parametrize("backend", ["aot_eager", unhurried])
@pytest.mark.parametrize("calls", BOTH)
def test_an_error_in_what_a_backend_compiled_is_raised_where_eager_raises_it(calls, backend):
    def handles(x, log, i):
        h = x * 2
        log.append(1)
        try:
            y = h[i]
        except IndexError as error:
            log.append(str(error))
            y = h + 1
        return y, h

    def raises(x, log, i):
        log.append(1)
        y = inner(x + 1, i, log)
        log.append(2)
        return y

    def breaks(x, log, i):
        h = x * 2
        print(end="")
        log.append(1)
        try:
            with torch.no_grad():
                return h[i] * 2
        finally:
            log.append(torch.is_grad_enabled())

    for function in (handles, raises, breaks):
        compiled = magneto.compile(function, backend=backend)
        for call in calls:
            for requires_grad in (False, True):
                expected_arguments, arguments = (
                    (torch.arange(3.0, requires_grad=requires_grad), []) for _ in range(2)
                )
                expected = outcome(function, (*expected_arguments, call))
                result = outcome(compiled, (*arguments, call))
                assert same(result, expected), (result, expected)
                assert same(arguments, expected_arguments), (arguments, expected_arguments)


def test_an_error_of_the_backends_own_is_raised_out_of_the_call():
    def failing(module, inputs):
        def run(*args):
            raise ValueError("the backend's")

        return run

    def f(x):
        try:
            return x + 1
        except ValueError:
            return x

    with pytest.raises(ValueError, match="the backend's"):
        magneto.compile(f, backend=failing)(torch.ones(3))


def test_a_graph_that_writes_is_not_run_again():
    runs = []

    def counting(module, inputs):
        def run(*args):
            runs.append(1)
            return module.forward(*args)

        return run

    def f(x, i):
        x.add_(1)
        return x[i]

    x = torch.ones(3)
    with pytest.raises(IndexError):
        magneto.compile(f, backend=counting)(x, BAD)
    assert x.tolist() == [2.0, 2.0, 2.0]
    assert len(runs) == 1


def test_hooks_on_saved_tensors_are_called_once_if_what_a_backend_compiled_raises():
    def f(x):
        return (x.sin() * x).exp()

    def run(function):
        packed = []

        def pack(x):
            packed.append(1)
            raise ValueError("no")

        x = torch.ones(3, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x), pytest.raises(ValueError):
            function(x)
        return packed

    compiled = magneto.compile(f, backend=unhurried)
    compiled(torch.ones(3, requires_grad=True))
    assert run(compiled) == run(f)


def number(x, log, i):
    n = x.sum().item()
    x.add_(1)
    log.append(n)
    try:
        y = x[i] * n
    except IndexError:
        y = x * n
    return y, n


def sizes(x, log, i):
    z = x.nonzero()
    x.mul_(2)
    log.append(z.shape[0])
    try:
        y = x[i] + z.shape[0]
    except IndexError:
        y = z
    return y, z


def in_finally(x, log, i):
    k = int(x.sum())
    x.add_(1)
    log.append(k)
    try:
        return x[i] * k
    finally:
        log.append(k + 1)


def by_value(x, log, i):
    x.add_(1)
    n = i.item()
    log.append(n)
    try:
        y = torch.linalg.inv(torch.eye(2) * (7 - i))
    except RuntimeError:
        return n + 1, x
    return y * n


@pytest.mark.parametrize("function", [number, sizes, in_finally, by_value])
@pytest.mark.parametrize("calls", BOTH)
def test_graphs_with_values_that_depend_on_data(calls, function):
    check(function, lambda: (torch.arange(3.0) + 1, []), *calls, fullgraph=True)
