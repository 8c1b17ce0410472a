"""What decorators put around the user's functions: its frames count as the user's, so that a break goes on in them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


def within(manager: AbstractContextManager[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called in a `with` block of the manager."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        with manager:
            return function(*args, **kwargs)

    return inner
