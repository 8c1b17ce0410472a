"""magneto captures running PyTorch programs into `torch.fx` graphs.

It is the front end of `torch.compile`, written in C: it does the job of TorchDynamo, on real PyTorch, for
every backend that `torch.compile` has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magneto import _versions

_versions.check()

try:
    import magneto._core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "magneto._core":
        raise
    raise ImportError(
        "magneto's C extension `magneto._core` is not built. Run `pip install .`, or `make dev`, "
        "in magneto's source tree.",
        name="magneto._core",
    ) from error

from magneto import exc  # noqa: E402
from magneto._compile import compile, is_compiling, reset  # noqa: E402
from magneto._config import config  # noqa: E402
from magneto._control import (  # noqa: E402
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    error_on_graph_break,
    forbid_in_graph,
    graph_break,
    mark_dynamic,
    mark_static,
    maybe_mark_dynamic,
    nonstrict_trace,
    run,
    set_stance,
    skip,
    substitute_in_graph,
)
from magneto._counters import counters  # noqa: E402
from magneto._install import install, uninstall  # noqa: E402
from magneto._profile import profile  # noqa: E402
from magneto._report import cache_entries, explain  # noqa: E402

if TYPE_CHECKING:
    from magneto._backends import list_backends as list_backends
    from magneto._background import wait as wait
    from magneto._module import OptimizedModule as OptimizedModule

__all__ = [
    "OptimizedModule",
    "__version__",
    "allow_in_graph",
    "assume_constant_result",
    "cache_entries",
    "compile",
    "config",
    "counters",
    "disable",
    "disallow_in_graph",
    "error_on_graph_break",
    "exc",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "install",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "profile",
    "reset",
    "run",
    "set_stance",
    "skip",
    "substitute_in_graph",
    "uninstall",
    "wait",
]

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:  # what needs torch is imported when it is first asked for
    if name == "list_backends":
        from magneto._backends import list_backends

        return list_backends
    if name == "wait":
        from magneto._background import wait

        return wait
    if name == "OptimizedModule":
        from magneto._module import OptimizedModule

        return OptimizedModule
    raise AttributeError(f"module 'magneto' has no attribute {name!r}")
