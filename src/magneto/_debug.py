"""What settings for finding faults put between a graph and its backend."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from magneto import _config, _control, exc

_ASKED = ("repro_after", "verify_correctness", "debug_backend_override")
_OVERRIDES = ("debug_backend_override", "debug_dynamo_config_override", "debug_inductor_config_override")


def is_asked() -> bool:
    """Whether settings ask for more than a run of the graph: then there has to be a backend, even if it is "eager"."""
    return any(map(_config.get, _ASKED))


def is_overridden() -> bool:
    """Whether settings choose backends, or their options, by the number of a graph."""
    return any(map(_config.get, _OVERRIDES))


def wrap(backend: Callable[..., Any], compile_id: Any) -> Callable[..., Any]:
    """The backend of one graph, as the settings have it."""
    names, configs = _config.get("debug_backend_override"), _config.get("debug_inductor_config_override")
    if names or configs:
        backend = _override(backend, compile_id, names, configs)
    if _config.get("repro_after"):
        from torch._dynamo.repro.after_dynamo import wrap_backend_debug

        backend = wrap_backend_debug(backend, exc.name_of(backend))
    return _Verified(backend) if _config.get("verify_correctness") else backend


def settings(compile_id: Any) -> contextlib.AbstractContextManager[Any]:
    """For a `with` block: the settings of one compilation. Raises if one of the overrides is wrong."""
    backends, changes, configs = map(_config.get, _OVERRIDES)
    if not (backends or changes or configs):
        return contextlib.nullcontext()
    from torch._dynamo import graph_id_filter

    wrong = (
        graph_id_filter._validate_backend_names(backends)
        or graph_id_filter._validate_dynamo_config_keys(changes)
        or graph_id_filter._validate_inductor_config_keys(configs)
    )
    if wrong:
        raise ValueError(wrong)
    patches = graph_id_filter.get_dynamo_config_override_for_compile_id(compile_id, changes)
    return _patched(patches) if patches else contextlib.nullcontext()


@contextlib.contextmanager
def _patched(patches: dict[str, Any]) -> Iterator[None]:
    with torch._dynamo.config.patch(patches):
        _control.take_symbols()
        yield


def _override(backend: Callable[..., Any], compile_id: Any, names: str, configs: str) -> Callable[..., Any]:
    from torch._dynamo import graph_id_filter

    other = graph_id_filter.get_backend_override_for_compile_id(compile_id, names)
    backend = backend if other is None else other
    patches = graph_id_filter.get_inductor_config_override_for_compile_id(compile_id, configs)
    return backend if not patches else _configured(backend, patches)


def _configured(backend: Callable[..., Any], patches: dict[str, Any]) -> Callable[..., Any]:
    def configured(module: fx.GraphModule, inputs: list[Any]) -> Any:
        return backend(module, inputs, config_patches=patches)

    return configured


class _Verified:
    """Compares what a backend made with the graph, on the example inputs."""

    def __init__(self, backend: Callable[..., Any]) -> None:
        self.backend = backend
        self.compiler_name = exc.name_of(backend)

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Any:
        from torch._dynamo.utils import clone_inputs, same

        compiled = self.backend(copy.deepcopy(module), inputs)
        if any(isinstance(value, torch._subclasses.FakeTensor) for value in inputs):
            return compiled
        results = []
        for function in (module.forward, compiled):
            with torch.random.fork_rng():
                results.append(function(*clone_inputs(inputs)))
        if not same(*results):
            raise RuntimeError(
                f"the backend {self.compiler_name!r} returns other results than the graph does"
            )
        return compiled
