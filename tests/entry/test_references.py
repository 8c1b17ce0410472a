"""What an entry keeps is not seen: by reference counts, weak references, and what asks for them."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import magneto


@pytest.fixture
def _swapping() -> Iterator[None]:
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(before)


def figures(module: nn.Module) -> list[tuple[int, int, int]]:
    gc.collect()
    return [
        (sys.getrefcount(tensor), tensor._use_count(), weakref.getweakrefcount(tensor))  # type: ignore[attr-defined]
        for tensor in module.state_dict(keep_vars=True).values()
    ]


MODULES: list[Callable[[], nn.Module]] = [
    lambda: nn.Linear(3, 3),
    lambda: nn.RNN(3, 3),
    lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", MODULES, ids=["linear", "rnn", "batch norm"])
def test_parameters_have_no_more_references(make: Callable[[], nn.Module], backend: str) -> None:
    module, x = make(), torch.ones(2, 3)
    with torch.no_grad():
        module(x)
        before = figures(module)
        compiled = magneto.compile(module, backend=backend)
        for _ in range(3):
            compiled(x)
    assert figures(module) == before


def test_uses_by_autograd_are_counted() -> None:
    module, x = nn.Linear(3, 3), torch.ones(2, 3)

    def program(x: Any) -> Any:
        out = module(x)
        return out, module.weight._use_count(), module.bias._use_count()  # type: ignore[operator]

    expected = program(x)[1:]
    compiled = magneto.compile(program, backend="eager")
    for _ in range(3):
        assert compiled(x)[1:] == expected


@pytest.mark.usefixtures("_swapping")
def test_swapping_poisons_gradients() -> None:
    """What autograd has of a parameter when it is swapped is found by its use count."""

    def program(x: Any) -> Any:
        module = nn.Linear(3, 3)
        out = module(x)
        module.half()
        out.sum().backward()

    for function in (program, magneto.compile(program, backend="eager")):
        with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
            function(torch.ones(2, 3))


@pytest.mark.usefixtures("_swapping")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", MODULES, ids=["linear", "rnn", "batch norm"])
def test_parameters_can_be_swapped(make: Callable[[], nn.Module], backend: str) -> None:
    module, x = make(), torch.ones(2, 3)
    compiled = magneto.compile(module, backend=backend)
    with torch.no_grad():
        for _ in range(2):
            compiled(x)
        module.to_empty(device="cpu")
        module.double()
        for parameter in module.parameters():
            parameter.fill_(0.5)
        torch.testing.assert_close(compiled(x.double()), module(x.double()))


class Holder:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.reference = weakref.ref(tensor)


def read(holder: Holder) -> Any:
    tensor = holder.tensor * 1, holder.tensor
    found = holder.reference()
    return None if found is None else (found is tensor[1], found + tensor[0])


def test_weak_references_are_known_by_what_they_refer_to() -> None:
    """Not kept: one that the program drops goes, and another one to the same tensor is as good."""
    tensor = torch.ones(2)
    holder = Holder(tensor)
    compiled = magneto.compile(read, backend="eager", fullgraph=True)
    assert compiled(holder)[0]
    holder.reference = None  # type: ignore[assignment]
    assert weakref.getweakrefcount(tensor) == 0
    holder.reference = weakref.ref(tensor)
    assert compiled(holder)[1].tolist() == [2, 2]
    assert len(magneto.cache_entries(compiled)) == 1


def test_weak_references_to_other_tensors() -> None:
    compiled = magneto.compile(read, backend="eager")
    for _ in range(2):
        holder, other = Holder(torch.ones(2)), torch.full((2,), 5.0)
        assert compiled(holder)[0]
        holder.reference = weakref.ref(other)
        same, result = compiled(holder)
        assert (same, result.tolist()) == (False, [6, 6])
        del other, result
        assert compiled(holder) is None


def test_callbacks_of_weak_references_run_when_the_tensor_goes() -> None:
    gone: list[Any] = []
    compiled = magneto.compile(lambda holder: holder.tensor.sin() + 1, backend="eager")
    for number in range(3):
        holder = Holder(torch.ones(2))
        holder.reference = weakref.ref(holder.tensor, lambda _, number=number: gone.append(number))
        compiled(holder)
        holder.tensor = torch.ones(2)
        assert gone == list(range(number + 1))


class Thing:
    pass


@pytest.mark.parametrize("ask", [hash, repr, lambda thing: {thing: 1}[thing]])
def test_objects_whose_addresses_were_seen_are_not_kept(ask: Callable[[Any], Any]) -> None:
    compiled = magneto.compile(lambda x, thing: (x + 1, ask(thing)), backend="eager")
    for _ in range(3):
        thing = Thing()
        assert compiled(torch.ones(2), thing)[1] == ask(thing)
        gone = weakref.ref(thing)
        del thing
        assert gone() is None


def loop_over_node(x: Any) -> Any:
    count = 0
    for node in [x.grad_fn]:
        magneto.graph_break()
        count += len(node.next_functions)
    return x * count


def loop_over_next_nodes(x: Any) -> Any:
    names = []
    for node, _ in x.grad_fn.next_functions:
        names.append(node.name())
    return x * len(names)


def pass_node_on(x: torch.Tensor) -> Any:
    node = x.grad_fn
    y = x + 1
    return y, [node], {"node": node}, node is x.grad_fn, node is None, id(node) == id(x.grad_fn)


def node_is_key(x: torch.Tensor) -> Any:
    seen = set()
    stack = [x.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack.extend(next for next, _ in node.next_functions)
    return x * len(seen)


def node_on_an_object(x: torch.Tensor) -> Any:
    thing: Any = Thing()
    thing.node = x.grad_fn
    magneto.graph_break()
    return x * 2, thing.node.name(), len([thing.node])


class Mark:
    """Lies in the metadata of a node, and goes with it."""


def result_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [result_of(item) for item in value]
    return list(value) if isinstance(value, dict) else type(value)


@pytest.mark.parametrize(
    "function", [loop_over_node, loop_over_next_nodes, pass_node_on, node_is_key, node_on_an_object]
)
def test_nodes_of_autograd_are_not_kept(function: Callable[[Any], Any]) -> None:
    compiled = magneto.compile(function, backend="eager")
    for _ in range(3):
        x: Any = torch.ones(2, requires_grad=True).sin().cos()
        mark = Mark()
        x.grad_fn.metadata["mark"] = mark
        gone = weakref.ref(mark)
        del mark
        assert result_of(compiled(x)) == result_of(function(x))
        del x
        assert gone() is None


def test_nodes_of_autograd_that_are_arguments_are_not_kept() -> None:
    compiled = magneto.compile(lambda x, node: (x + 1, node, [node]), backend="eager")
    for _ in range(3):
        y = torch.ones(2, requires_grad=True).sin()
        node: Any = y.grad_fn
        mark = node.metadata["mark"] = Mark()
        gone = weakref.ref(mark)
        result = compiled(torch.ones(2), node)
        assert result[1] is node
        assert result[2] == [node]
        del mark, y, node, result
        assert gone() is None


def test_iterators_are_not_kept() -> None:
    def loop(x: torch.Tensor, things: list[Any]) -> Any:
        iterator = iter(things)
        magneto.graph_break()
        for other in [iterator]:
            x = x + len(list(other))
        return x

    compiled = magneto.compile(loop, backend="eager")
    for _ in range(3):
        thing = Mark()
        gone = weakref.ref(thing)
        assert compiled(torch.ones(2), [thing]).tolist() == [2.0, 2.0]
        del thing
        assert gone() is None


def hook_on_tensor(b: Any, hook: Any) -> None:
    b.register_hook(hook)


def hook_on_node(b: Any, hook: Any) -> None:
    b.grad_fn.register_hook(hook)


@pytest.mark.parametrize("register", [hook_on_tensor, hook_on_node])
def test_cycles_of_hooks_and_nodes_go(register: Callable[[Any, Any], None]) -> None:
    """The closure of a hook that captured code makes is not kept."""
    count = [0]

    def scope() -> Any:
        a = torch.tensor(1.0, requires_grad=True)
        b = a.clone()
        node = b.grad_fn
        mark = Mark()

        def hook(*_: Any) -> None:
            _ = node, mark
            count[0] += 1

        register(b, hook)
        c = b.clone()
        return c, weakref.ref(mark)

    compiled = magneto.compile(scope, backend="eager")
    for number in range(1, 4):
        out, gone = compiled()
        out.backward(retain_graph=True)
        gc.collect()
        assert gone() is not None
        assert count[0] == number
        del out
        gc.collect()
        assert gone() is None


def counted(tensor: Any) -> Any:
    return sys.getrefcount(tensor)


def counted_after_break(tensor: Any) -> Any:
    magneto.graph_break()
    return sys.getrefcount(tensor)


def counted_twice(tensor: Any) -> Any:
    first = counted(tensor)
    magneto.graph_break()
    return first, counted_after_break(tensor)


def counted_in_list(tensor: Any) -> Any:
    held = [tensor]
    return sys.getrefcount(tensor), len(held)


class Counting:
    def count(self, tensor: Any) -> Any:
        magneto.graph_break()
        return sys.getrefcount(tensor)

    def all(self, tensor: Any) -> Any:
        first = self.count(tensor)
        bound = self.count
        return first, bound(tensor), self.count(tensor=tensor)


COUNTS: list[tuple[Callable[[Any], Any], Any]] = [
    (counted, 3),
    (counted_after_break, 3),
    (counted_twice, (4, 4)),
    (counted_in_list, (4, 1)),
    (Counting().all, (4, 4, 4)),
]


@pytest.mark.parametrize(("count", "expected"), COUNTS)
def test_arguments_have_as_many_references(count: Callable[[Any], Any], expected: Any) -> None:
    """As in CPython without a hook, whose callers let go of arguments when a call starts."""

    def run() -> Any:
        first, second = torch.ones(2), torch.ones(3)
        magneto.graph_break()
        return count(first), count(second), first.shape, count(first), second.shape

    compiled = magneto.compile(run, backend="eager")
    for _ in range(3):
        assert compiled() == (expected, expected, torch.Size([2]), expected, torch.Size([3]))


CALLEES = """
import weakref
import magneto, torch

class Thing:
    pass

seen = []

def use(thing, other=None):
    gone = weakref.ref(thing)
    magneto.graph_break()
    del thing
    magneto.graph_break()
    seen.append((gone() is None, other))

def run(x):
    magneto.graph_break()
    use(Thing())
    use(Thing(), other=x.shape)
    return x + 1

run(torch.ones(2))
compiled = magneto.compile(run, backend="eager")
for _ in range(3):
    compiled(torch.ones(2))
assert seen == 4 * [(True, None), (True, torch.Size([2]))], seen
"""


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_arguments_go_where_the_callee_lets_go_of_them(run_python: Any) -> None:
    # where somebody has left a hook for frames, CPython itself keeps arguments until a call ends
    done = run_python(CALLEES)
    assert done.returncode == 0, done.stderr


def closure_of_attribute() -> Any:
    thing: Any = Thing()
    thing.number = 2
    owner: Any = Thing()
    owner.function = lambda x, *, add=Thing: x + thing.number
    return (lambda x, owner: owner.function(x)), owner, [thing, owner.function, owner]


def closures_in_list() -> Any:
    thing: Any = Thing()
    thing.number = 2
    functions = [lambda x: x + thing.number, lambda x: x * 2]

    def run(x: Any, functions: Any) -> Any:
        for function in functions:
            x = function(x)
        return x

    return run, functions, [thing, *functions]


def partial_in_list() -> Any:
    thing = Thing()
    function = lambda x: x + 1 if thing else x  # noqa: E731
    return (lambda x, partials: partials[0](x)), [functools.partial(function)], [thing, function]


def partial_in_attribute() -> Any:
    thing, owner = Thing(), Thing()
    owner.function = functools.partial(lambda x, thing: x + 1 if thing else x, thing=thing)
    return (lambda x, owner: owner.function(x)), owner, [owner, thing]


def closure_beside_a_text() -> Any:
    thing, owner = Thing(), Thing()
    owner.function = lambda x: x + 1 if thing else x
    return (lambda x, owner: (owner.function(x), str(Thing))), owner, [owner, thing, owner.function]


def hook_of_module() -> Any:
    module, thing = nn.Linear(2, 2), Thing()
    handle = module.register_forward_hook(lambda *_: None if thing else None)
    return (lambda x, module: module(x)), module, [module, thing, module._forward_hooks[handle.id]]


def id_of_instance() -> Any:
    thing = Thing()
    return (lambda x, thing: x + (id(thing) > 0)), thing, [thing]


def id_of_tensor() -> Any:
    tensor = torch.ones(2)
    return (lambda x, tensor: (x + 1, id(tensor) > 0, x + 2)), tensor, [tensor]


@pytest.mark.parametrize(
    "make",
    [
        closure_of_attribute,
        closures_in_list,
        partial_in_list,
        partial_in_attribute,
        closure_beside_a_text,
        hook_of_module,
        id_of_instance,
        id_of_tensor,
    ],
)
def test_what_arguments_lead_to_is_not_kept(make: Callable[[], Any]) -> None:
    compiled: Any = None
    for _ in range(4):
        function, argument, things = make()
        compiled = magneto.compile(function, backend="eager") if compiled is None else compiled
        references = [weakref.ref(thing) for thing in things]
        compiled(torch.ones(2), argument)
        del function, argument, things
        gc.collect()
        assert [reference() for reference in references] == [None] * len(references)


def test_partials_made_anew_are_captured_once() -> None:
    compiled = magneto.compile(lambda x, owner: owner.function(x), backend="eager", fullgraph=True)
    for number in (1, 1, 1):
        owner: Any = Thing()
        owner.function = functools.partial(torch.add, other=number)
        assert compiled(torch.zeros(2), owner).tolist() == [number, number]
    assert len(magneto.cache_entries(compiled)) == 1
    owner.function.keywords["other"] = 2
    assert compiled(torch.zeros(2), owner).tolist() == [2, 2]
    owner.function = functools.partial(torch.sub, other=1)
    assert compiled(torch.zeros(2), owner).tolist() == [-1, -1]


def test_names_of_closures_made_anew_are_guarded() -> None:
    def program(x: Any, owner: Any) -> Any:
        return owner.function(x), str(Thing), owner.function.__name__

    compiled = magneto.compile(program, backend="eager")
    for name in ("one", "one", "two"):
        owner: Any = Thing()
        owner.function = lambda x: x + 1
        owner.function.__name__ = name
        assert compiled(torch.zeros(2), owner)[2] == name


def test_closures_made_anew_are_captured_once() -> None:
    compiled = magneto.compile(lambda x, owner: owner.function(x), backend="eager", fullgraph=True)
    for number in (1, 1, 1):
        owner: Any = Thing()
        owner.function = lambda x, number=number: x + number
        assert compiled(torch.zeros(2), owner).tolist() == [number, number]
    assert len(magneto.cache_entries(compiled)) == 1
    owner.function = lambda x: x - 1
    assert compiled(torch.zeros(2), owner).tolist() == [-1, -1]


class Key:
    pass


class Finalized:
    log: list[str] = []

    def __del__(self) -> None:
        Finalized.log.append("gone")


KEYS: dict[str, Callable[[], Any]] = {
    "instance": Key,
    "with a finalizer": Finalized,
    "module": lambda: nn.Linear(2, 2),
    "function": lambda: lambda: 3,
}

LOOKS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "item": lambda x, table, key: x + table[key],
    "get": lambda x, table, key: x + table.get(key, 0),
    "in": lambda x, table, key: x + (key in table),
    "values": lambda x, table, key: x + sum(table.values()),
    "items": lambda x, table, key: x + sum(value for other, value in table.items() if other is key),
    "keys": lambda x, table, key: (x + 1, list(table)),
    "update": lambda x, table, key: (x + 1, table.update({key: table[key]})),
    "set": lambda x, table, key: (x + 1, {key} == set(table)),
}


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("make", KEYS)
def test_keys_of_dicts_are_not_kept(make: str, look: str, kind: type[dict[Any, int]]) -> None:
    function, x = LOOKS[look], torch.ones(2)
    compiled = magneto.compile(function, backend="eager")
    gone: list[int] = []
    for number in range(3):  # after the first time, entries are tried whose keys are gone
        key = KEYS[make]()
        table = kind({key: number})
        for _ in range(3):
            expected, found = function(x, table, key), compiled(x, table, key)
            assert str(expected) == str(found)
        Finalized.log.clear()
        reference = weakref.ref(key, lambda _: gone.append(1))
        expected = found = None
        del key, table
        assert reference() is None
        assert len(gone) == number + 1
        assert Finalized.log == ["gone"] * (make == "with a finalizer")
    assert compiled(x, kind({3: 1}), 3) is not None


def test_entry_with_a_key_is_used_again() -> None:
    table = {Key(): 1, Key(): 2, "a": 3, nn.Linear(2, 2): 4}
    keys = list(table)

    def program(x: Any) -> Any:
        return x + sum(table.values()) + table[keys[0]]

    compiled = magneto.compile(program, backend="eager")
    x = torch.ones(2)
    before = magneto.counters["frames"]["ok"]
    for _ in range(4):
        assert compiled(x).tolist() == program(x).tolist()
    assert magneto.counters["frames"]["ok"] == before + 1
    other = keys.pop(1)
    table[other] = 20
    assert compiled(x).tolist() == program(x).tolist()
    del table[other]
    assert compiled(x).tolist() == program(x).tolist()
    table[Key()] = 2
    assert compiled(x).tolist() == program(x).tolist()
