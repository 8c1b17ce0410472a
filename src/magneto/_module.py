"""A compiled `nn.Module`: stands for the module itself in all but its calls."""

from __future__ import annotations

from collections.abc import Sized
from types import ModuleType
from typing import Any

import torch
from torch.nn.modules import module as nn_module

from magneto import _core, _imports
from magneto._compile import Settings, aot_compile
from magneto._control import disable

_GLOBAL_HOOKS = (
    nn_module._global_forward_hooks,
    nn_module._global_forward_pre_hooks,
    nn_module._global_backward_hooks,
    nn_module._global_backward_pre_hooks,
)

_METHODS = (torch.nn.Module.__call__, torch.nn.Module._call_impl)

_OWN = frozenset(("_orig_mod", "_settings", "_quick", "_hooked", "_initialized", "__dict__"))


class OptimizedModule(_core.Caller, torch.nn.Module):
    """What `magneto.compile` returns for a module. `_orig_mod` is the module.

    Attributes, parameters, `state_dict`, `train` and `eval`, hooks, copies and pickles are those of the module. Where
    `torch._dynamo` is imported, before or after, this is a subclass of its `OptimizedModule`.
    """

    _orig_mod: torch.nn.Module
    _quick: _core.Compiled | None
    _hooked: _core.Compiled | None
    _is_torch_compile = True

    def __init__(self, module: torch.nn.Module, settings: Settings) -> None:
        # first of all, since other attributes are looked up there
        object.__setattr__(self, "_orig_mod", module)
        object.__setattr__(self, "_initialized", False)
        torch.nn.Module.__init__(self)  # not what comes next: that may be torch's OptimizedModule
        object.__delattr__(self, "_orig_mod")
        self._orig_mod = module
        object.__setattr__(self, "_initialized", True)
        object.__setattr__(self, "_settings", settings)
        self._prepare()

    def _prepare(self) -> None:
        """Make the callables anew."""
        module = self._modules["_orig_mod"]
        assert module is not None
        settings: Settings = self.__dict__["_settings"]
        name = type(module).__name__
        object.__setattr__(self, "_quick", settings.make(module.forward, name) if self._is_plain() else None)
        object.__setattr__(self, "_hooked", None)

    def _magneto_callables(self) -> list[_core.Compiled]:
        return [compiled for compiled in (self._quick, self._hooked) if compiled is not None]

    def _call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """A call with hooks on the module, or of a module whose `forward` was changed."""
        module = self._orig_mod
        if hasattr(module, "_initialize_hook") and hasattr(module, "_infer_parameters"):
            module._infer_parameters(module, args, kwargs)  # type: ignore[operator]  # a lazy module: it gets its parameters now
        quick, hooked = self._quick, self._hooked
        if (quick is not None) is not self._is_plain() or (
            quick is not None and quick.function != module.forward
        ):
            self._prepare()
            quick, hooked = self._quick, self._hooked
        if quick is not None and not _has_hooks(module):
            return quick(*args, **kwargs)
        if hooked is None or hooked.function != module.__call__:
            hooked = self.__dict__["_settings"].make(module.__call__, type(module).__name__)
            object.__setattr__(self, "_hooked", hooked)
        return hooked(*args, **kwargs)

    def _is_plain(self) -> bool:
        """Whether a call of the module is that of its hooks and its forward."""
        module = self._orig_mod
        return (
            type(module).__call__,
            type(module)._call_impl,
        ) == _METHODS and "_call_impl" not in module.__dict__

    @property
    def dynamo_ctx(self) -> Settings:
        """How the module was compiled; called with a function, it compiles that in the same way."""
        settings: Settings = self.__dict__["_settings"]
        return settings

    @property
    def _torchdynamo_orig_callable(self) -> Any:
        return self._orig_mod.forward

    @property
    def _torchdynamo_wrapper_id(self) -> int:
        return id(self)

    def _aot_compile(self, inputs: Any) -> None:
        aot_compile(inputs)

    def _save_aot_compiled_module(self, path: str | None = None) -> None:
        aot_compile(path)

    def _load_aot_compiled_module(self, data: bytes) -> None:
        aot_compile(data)

    def get_compiler_config(self) -> Any:
        """The settings of inductor that the module is compiled with; None for other backends."""
        return self.dynamo_ctx.get_compiler_config()

    def _call_inlined(self, *args: Any, **kwargs: Any) -> Any:
        return self._orig_mod(*args, **kwargs)

    forward = _core.ModuleCall(None, _call_slowly, _call_inlined, _GLOBAL_HOOKS, _METHODS)
    __call__ = _core.ModuleCall(
        torch.nn.Module.__call__, _call_slowly, _call_inlined, _GLOBAL_HOOKS, _METHODS
    )

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if self._initialized:  # nn.Module.__init__ sets it, and that is not meant for the module
            self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"object of type {type(self._orig_mod).__name__!r} has no len()")

    def __reduce__(self) -> Any:
        return type(self), (self._orig_mod, self.__dict__["_settings"])

    def __getstate__(self) -> Any:
        return torch.nn.Module.__getstate__(self)  # type: ignore[no-untyped-call]

    def __setstate__(self, state: Any) -> None:
        torch.nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *object.__dir__(self), "_orig_mod"})


def _join_torch(module: ModuleType) -> None:
    """Make the class a subclass of torch's, for whoever asks `isinstance` and the like."""
    OptimizedModule.__bases__ = (_core.Caller, module.OptimizedModule)
    OptimizedModule._call_straight()


OptimizedModule._call_straight()
_imports.when_imported("torch._dynamo.eval_frame", _join_torch)


class DisabledModule(OptimizedModule):
    """What `magneto.disable` returns for a module: its calls are never captured."""

    def __init__(self, module: torch.nn.Module, recursive: bool = True, reason: str | None = None) -> None:
        object.__setattr__(self, "_marks", (recursive, reason))
        super().__init__(module, Settings(backend="eager"))

    def _prepare(self) -> None:
        recursive, reason = self.__dict__["_marks"]
        call = disable(self._orig_mod.__call__, recursive, reason=reason)
        object.__setattr__(self, "_disabled", call)

    def _magneto_callables(self) -> list[_core.Compiled]:
        return []

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_disabled"](*args, **kwargs)

    forward = _call
    __call__ = _call

    def __reduce__(self) -> Any:
        return type(self), (self._orig_mod, *self.__dict__["_marks"])


def _has_hooks(module: torch.nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or any(_GLOBAL_HOOKS)
    )
