"""What a user can do about a break, by what was met; and the name that was meant in place of a wrong one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_DRAW = (
    "Draw with torch.rand, torch.randn or torch.randint, which graphs hold, or draw before the compiled "
    "function is called "
    "and pass the numbers as a tensor."
)
_LEAVE_OUT = (
    "Move the call out of the compiled function, add the function to magneto.config.ignore_logging_functions so "
    "that captured "
    "code leaves it out, or accept that the graph ends before it."
)

_HINTS: list[tuple[str, str, str]] = [
    (
        "TENSOR_VALUE", r"^$",
        "Keep the value as a tensor, set magneto.config.capture_scalar_outputs = True so that the number "
        "becomes part of the "
        "graph, or move the conversion out of the compiled function.",
    ),
    (
        "DATA_DEPENDENT", r"^aten\.",
        "What this operator returns, or how large it is, depends on data. Set "
        "magneto.config.capture_dynamic_output_shape_ops = True, use an operator with a fixed size "
        "(torch.where with three arguments), or move the call out of the compiled function.",
    ),
    (
        "TENSOR_VALUE", r"\bnumpy$",
        "Use torch's functions in place of numpy's, or move the conversion out of the compiled function.",
    ),
    (
        "DATA_DEPENDENT", r"^Could not guard on data-dependent expression",
        "Use torch.where or torch.cond, promise what holds with torch._check(...) before the branch, or move "
        "the decision out of "
        "the compiled function.",
    ),
    ("", r"^(numpy|numpy\.random\..*|.*\brandom\.Random\..*)$|^attribute \w+ of numpy\.random|RandomState\.", _DRAW),
    ("", r"\bmanual_seed$", "Seed before the compiled function is called."),
    (
        "", r"^time\.",
        "Read the clock before and after the call of the compiled function: a graph runs as a whole, and has no "
        "time of its own.",
    ),
    ("", r"^(builtins\.print|logging\..*)$", _LEAVE_OUT),
    ("", r"^_?warnings\.", "Warn before or after the call of the compiled function, or accept that the graph "
    "ends before it."),
    ("", r"^builtins\.input$", "Ask before the compiled function is called, and pass the answer as an argument."),
    ("", r"^(io|_io)\.open$|^builtins\.open$", "Read files before the compiled function is called, and write "
    "them after it."),
    ("", r"^_io\.|^torch\.serialization\.", "Save and load outside of the compiled function: return what is to "
    "be saved."),
    ("", r"^_thread\.|^threading\.", "Take the lock around the call of the compiled function."),
    (
        "UNKNOWN_CALL", r"^torch\.nn\.parameter\.Parameter$",
        "Make parameters, and copies of modules (copy.deepcopy), before the compiled function is called; "
        "tensor.clone() is captured.",
    ),
    (
        "", r"^torch\._tensor\.Tensor\.backward$",
        "Return the loss, and call backward() on what the compiled function returns.",
    ),
    (
        "UNKNOWN_CALL", r".",
        "Move the call out of the compiled function; make a custom operator of it (torch.library.custom_op) if "
        "it is given tensors; "
        "or give it a form in Python with magneto.substitute_in_graph.",
    ),
]  # fmt: skip
"""(reason, or "" for each; what the detail looks like; what to do): the first that fits is taken."""


def hint_for(reason: str, detail: str | None, general: str) -> str:
    """What to do about a break; `general` is what the reason alone says."""
    for name, pattern, hint in _HINTS:
        if name in ("", reason) and re.search(pattern, detail or ""):
            return hint
    return general


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """`"; did you mean 'x'?"`, or nothing if no name is near."""
    near = difflib.get_close_matches(str(name), list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
