"""What an operation does besides giving a value: lists given back, `out=`, warnings, hooks, profilers, forward mode."""

from __future__ import annotations

import collections
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch.autograd.graph import saved_tensors_hooks

import magneto


def run(make: Callable[[], Callable[[], Any]], backend: str | None = None, count: int = 3) -> list[Any]:
    """The results or errors of some calls of a function that is made anew."""
    function = make()
    called = function if backend is None else magneto.compile(function, backend=backend)
    results: list[Any] = []
    for _ in range(count):
        try:
            results.append(called())
        except Exception as error:
            results.append((type(error), str(error)))
    return results


def check(make: Callable[[], Callable[[], Any]], backends: tuple[str, ...] = ("eager",)) -> None:
    """Compare calls in eager and captured."""
    expected = run(make)
    for backend in backends:
        assert repr(run(make, backend)) == repr(expected)


IN_PLACE = sorted(name for name in dir(torch) if name.startswith("_foreach_") and name.endswith("_"))


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_foreach_function_in_place_gives_back_its_list(name):
    function = getattr(torch, name)
    others, numbers = [torch.full((2,), 0.5), torch.full((3,), 0.5)], torch.tensor([2.0, 3.0])
    found = []
    for rest in (
        (), (2.0,), (others,), (others, others), (others, 0.5), ([2.0, 3.0],), (numbers[0],), (others, others, 2.0),
        (others, others, [2.0, 3.0]), (others, others, numbers), (others, [0.5, 0.25]),
    ):  # fmt: skip
        try:
            function([torch.ones(2), torch.ones(3)], *rest)
        except (TypeError, RuntimeError):
            continue
        found.append(rest)
    assert found, "it needs other arguments"

    def make(rest):
        outside, items = [torch.ones(2), torch.ones(3)], (torch.ones(2), torch.ones(3))

        def f():
            inside = [torch.ones(2), torch.ones(3)]
            got, same = function(inside, *rest), function(outside, *rest)
            named = inside if rest else function(self=inside)
            of_tuple = function(items, *rest)
            return (
                got is inside, same is outside, named is inside, of_tuple is items, type(of_tuple), got[0] is inside[0],
                [[(x, x._version) for x in part] for part in (got, outside, items)],
            )  # fmt: skip

        return f

    for rest in found:
        assert isinstance(make(rest)(), tuple)
        check(lambda: make(rest))  # noqa: B023


PERMUTED = torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1)
OUT: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda x, out: torch.add(x, x, out=out),
    lambda x, out: torch.sin(x, out=out),
    lambda x, out: torch.clamp(x, 0, 1, out=out),
    lambda x, out: torch.where(x > 0, x, x, out=out),
    lambda x, out: torch.sum(x, 0, out=out),
    lambda x, out: torch.cat([x, x], out=out),
    lambda x, out: torch.cumsum(x, 0, out=out),
    lambda x, out: torch.matmul(x, x.transpose(1, 2), out=out),
    lambda x, out: torch.addcmul(x, x, x, out=out),
    lambda x, out: torch.max(x, 0, out=(out, torch.empty(0, dtype=torch.long)))[0],
]


@pytest.mark.parametrize("number", range(len(OUT)))
def test_strides_of_a_tensor_that_out_resizes(number):
    check(lambda: lambda: (lambda y: (y.stride(), y))(OUT[number](PERMUTED, torch.empty(0))))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "operation",
    [
        lambda: torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.int64),
        lambda: torch.ones(2, 3) + torch.ones(2, 2),
        lambda: torch.ones(2, 3).view(5),
        lambda: torch.nn.functional.linear(torch.ones(2, 3), torch.ones(2, 2)),
        lambda: torch.empty((), dtype=torch.float64).resize_([2, 4, 2**29, 2**29]),
        lambda: torch.empty((), dtype=torch.float64).resize_([8, 8, 2**29, 2**29]),
    ],
)
def test_errors_that_metadata_decides_are_handled_where_they_are_raised(operation, backend):
    def make():
        log = []

        def f():
            x = torch.ones(3)
            x.add_(1)
            try:
                operation()
            except RuntimeError as error:
                log.append(str(error))
                x.mul_(2)
            return x, log

        return f

    check(make, (backend,))


WARNING = [
    lambda: torch.nn.functional.softmax(torch.ones(2, 2)),
    lambda: torch.nn.functional.mse_loss(torch.ones(2, 1), torch.ones(2)),
    lambda: torch.add(torch.ones(3), 1, out=torch.ones(2)),
    lambda: torch.nn.functional.upsample(torch.ones(1, 1, 2, 2), scale_factor=2),
    # of these only the kernels warn
    lambda: torch.ones(1).std(),
    lambda: torch.var_mean(torch.ones(1)),
    lambda: torch.ones(2, 2).index_fill_(0, torch.tensor([0]), 1).std(0, correction=2),
]


@pytest.mark.parametrize("number", range(len(WARNING)))
def test_warnings_of_operations_come_once_and_in_time(number):
    def make():
        def f():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                WARNING[number]()
                first = len(caught)
                y = torch.ones(2) + 1
            return first, len(caught), y

        return f

    check(make)


def test_the_list_of_warnings_is_read_between_operations():
    def make():
        def f():
            x = torch.ones(2)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                before = len(caught)
                a = x[:1].std() + x
                middle = [str(one.message)[:5] for one in caught]
                b = a.var(unbiased=True) + x[:1].var()
                caught.append("a line of the program's")
                c = b + caught.index("a line of the program's")
            return before, middle, a, b, c, len(caught), caught[-1], c + len(caught)

        return f

    check(make)


def test_warnings_of_other_threads_are_shown_while_operations_are_propagated():
    shown: list[str] = []
    ends = threading.Event()
    given = 0

    def warn():
        nonlocal given
        while not ends.is_set():
            given += 1
            warnings.warn_explicit(f"number {given}", UserWarning, "a file", given)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
        filters = list(warnings.filters)
        sys.setswitchinterval(1e-6)
        thread.start()
        try:
            for i in range(1, 11):
                compiled = magneto.compile(lambda x: x.roll(i, 0).tril(i).logcumsumexp(0), backend="eager")  # noqa: B023
                compiled(torch.ones(3, i))
        finally:
            ends.set()
            thread.join()
            sys.setswitchinterval(interval)
        assert warnings.filters == filters
    assert len(shown) == given


@pytest.mark.parametrize("number", range(len(WARNING)))
def test_warnings_of_operations_come_once_outside(number):
    def count(function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return [(function(), len(caught))[1] for _ in range(3)]

    assert count(magneto.compile(WARNING[number], backend="eager")) == count(WARNING[number])


def test_warnings_that_are_errors_are_raised_by_the_operation():
    def make():
        def f():
            x = torch.ones(2) + 1
            try:
                torch.nn.functional.softmax(torch.ones(2, 2))
            except UserWarning:
                return "caught", x
            return x

        def g():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return f()

        return g

    check(make)


def test_pack_hooks_are_called_before_the_code_that_looks():
    def make():
        log = []

        def pack(x):
            log.append("pack")
            return x

        def unpack(x):
            log.append("unpack")
            return x

        def f():
            x = torch.ones(3, requires_grad=True)
            with saved_tensors_hooks(pack, unpack):
                y = x.exp() * x
                seen = len(log)
            z = y * 2
            return seen, len(log), z

        def g():
            result = f()
            result[2].sum().backward()
            return result, list(log)

        return g

    check(make)


def test_hooks_from_outside_are_called_before_the_code_that_looks():
    def results(wrap):
        log = []

        def f(x):
            y = x.exp() * x
            return len(log), y

        function = wrap(f)
        # without detach() each graph keeps itself alive, by the result that it saves
        with saved_tensors_hooks(lambda x: log.append(1) or x.detach(), lambda x: x):
            return [function(torch.ones(3, requires_grad=True))[0] for _ in range(3)]

    assert results(lambda f: magneto.compile(f, backend="eager")) == results(lambda f: f)


def spans(function: Callable[[], Any]) -> list[str]:
    with torch.autograd.profiler.profile() as profile:
        function()
    return [event.name for event in profile.function_events if not event.name.startswith("Torch-Compiled")]


def test_spans_are_seen_by_a_profiler_from_outside():
    def f():
        x = torch.ones(3)
        with torch.profiler.record_function("a span"):
            y = x.exp() + 1
        with torch.autograd.profiler.record_function("another"):
            return y * 2

    compiled = magneto.compile(f, backend="eager")
    compiled()
    entries = len(compiled.entries()) if hasattr(compiled, "entries") else None
    for _ in range(2):
        assert {"a span", "another", "aten::exp", "aten::add"} <= set(spans(compiled))
    compiled()
    assert entries is None or entries >= 1


def test_operations_are_seen_by_a_profiler_that_captured_code_starts():
    def f(x):
        with torch.autograd.profiler.profile() as profile:
            y = x.exp()
            with torch.autograd.profiler.record_function("a span"):
                y = y + 1
        names = [event.name for event in profile.function_events]
        return "aten::exp" in names, "a span" in names, "aten::add" in names, y

    compiled = magneto.compile(f, backend="eager")
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(f(torch.ones(2)))


class Scaled(torch.autograd.Function):
    """A function whose tangent is not that of its forward."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 5


def test_a_jvp_of_a_functions_own_is_used_inside_captured_code():
    def make():
        def f():
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(torch.ones(3), torch.ones(3))
                primal, tangent = forward_ad.unpack_dual(Scaled.apply(dual) + 1)
                return primal + 0, tangent

        return f

    check(make)


def test_a_jvp_of_a_functions_own_is_used_by_a_compiled_function():
    def f(x):
        return Scaled.apply(x) + 1

    compiled = magneto.compile(f, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [3, 3]
    for _ in range(2):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
            assert forward_ad.unpack_dual(compiled(dual)).tangent.tolist() == [5, 5]
        assert compiled(torch.ones(2)).tolist() == [3, 3]


def test_a_decorated_function_has_its_span_under_a_profiler():
    def f(x):
        @torch.autograd.profiler.record_function("decorated")
        def inner(y):
            return y + 1

        with torch.autograd.profiler.profile() as profile:
            z = inner(x)
        return any(event.name == "decorated" for event in profile.function_events), z

    compiled = magneto.compile(f, backend="eager")
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(f(torch.ones(2)))


def test_factory_that_is_set_when_the_dict_was_used_as_a_whole():
    def results(wrap):
        table = collections.defaultdict(list, a=[1])

        def f(x):
            count = len(list(table))
            table.default_factory = int
            return x + count + table["new"]

        function = wrap(f)
        return [function(torch.ones(1)).item() for _ in range(2)], table, table.default_factory

    assert results(lambda f: magneto.compile(f, backend="eager")) == results(lambda f: f)


def test_lists_and_named_tuples_with_methods_of_their_own_as_arguments():
    class Long(list):
        def __len__(self):
            return 1

    class Strange(list):
        def __getitem__(self, index):
            raise ZeroDivisionError

    class Changed(list):
        pass

    class Pair(collections.namedtuple("Pair", "a b")):
        def __iter__(self):
            return iter((1, 0))

    def f(x):
        results = []
        for index in (Long(), Strange([0]), Strange(), Pair(0, 1), Long([1])):
            for operation in (x.sum, x.__getitem__, x.permute, lambda i: torch.cat([x, x], i)):
                try:
                    results.append(operation(index))
                except (TypeError, IndexError, ZeroDivisionError, RuntimeError) as error:
                    results.append(type(error).__name__)
        return results

    def g(x):
        return x[Changed([0])]

    x = torch.arange(6.0).reshape(2, 3)
    compiled = magneto.compile(f, backend="eager")
    for _ in range(2):
        assert repr(compiled(x)) == repr(f(x))
    compiled = magneto.compile(g, backend="eager")
    assert repr(compiled(x)) == repr(g(x))
    Changed.__getitem__ = Strange.__getitem__
    for function in (g, compiled):
        with pytest.raises(ZeroDivisionError):
            function(x)


def test_tuples_of_other_classes_as_arguments():
    asked = []

    class Meta(type):
        def __getattr__(cls, name):
            asked.append(name)

    class Strange(tuple, metaclass=Meta):
        pass

    def f(x):
        try:
            return torch.cat([x, Strange()])
        except TypeError:
            return torch.cat(Strange([x, x])).permute(Strange((1, 0)))

    compiled = magneto.compile(f, backend="eager")
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        assert torch.equal(compiled(x), f(x))
    assert asked == []
