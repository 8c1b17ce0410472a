"""magneto captures running PyTorch programs into `torch.fx` graphs.

It is the front end of `torch.compile`, written in C: it does the job of TorchDynamo, on real PyTorch, for
every backend that `torch.compile` has.
"""

from __future__ import annotations

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

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
