"""Usual mistakes of users of `torch.compile`, each a small program, and what the user is told of it.

A program calls `compile`, which is `magneto.compile` or `torch.compile`. `tests/dropin/test_messages.py` checks what
magneto says; `python tests/dropin/mistakes.py` runs all of them with both, and writes `docs/messages.md`.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import io
import linecache
import logging
import os
import re
import sys
import tempfile
import warnings
from typing import Any

MISTAKES: dict[str, str] = {}


def mistake(title: str, source: str) -> None:
    MISTAKES[title] = source.lstrip("\n")


# --- what can't be captured ---

mistake(
    "a branch on the value of a tensor, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    y = x.sin()
    if y.sum() > 0:
        return y + 1
    return y - 1
f(torch.ones(2))
""",
)
mistake(
    "a branch on the value of a tensor",
    """
@compile(backend="eager")
def f(x):
    y = x.sin()
    if y.sum() > 0:
        return y + 1
    return y - 1
f(torch.ones(2))
""",
)
mistake(
    "a number taken out of a tensor",
    """
@compile(backend="eager")
def f(x):
    scale = x.max().item()
    return x * scale
f(torch.ones(2))
""",
)
mistake(
    "a number taken out of a tensor decides, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    scale = x.max().item()
    if scale > 0:
        return x * scale
    return x
f(torch.ones(2))
""",
)
mistake(
    "a tensor turned into a numpy array, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    return torch.tensor(x.sin().numpy().tolist())
f(torch.ones(2))
""",
)
mistake(
    "print in a graph, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    y = x.sin()
    print("y is", y)
    return y
f(torch.ones(2))
""",
)
mistake(
    "a size that depends on data",
    """
@compile(backend="eager")
def f(x):
    return x.nonzero().sin()
f(torch.ones(2))
""",
)
mistake(
    "np.random in a graph, with fullgraph",
    """
import numpy as np
@compile(backend="eager", fullgraph=True)
def f(x):
    return x * float(np.random.rand())
f(torch.ones(2))
""",
)
mistake(
    "a method of a numpy Generator, with fullgraph",
    """
import numpy as np
rng = np.random.default_rng(0)
@compile(backend="eager", fullgraph=True)
def f(x):
    return x * rng.normal()
f(torch.ones(2))
""",
)
mistake(
    "a C function without a rule, with fullgraph",
    """
import zlib
@compile(backend="eager", fullgraph=True)
def f(x):
    return x + zlib.crc32(b"abc")
f(torch.ones(2))
""",
)
mistake(
    "the clock, with fullgraph",
    """
import time
@compile(backend="eager", fullgraph=True)
def f(x):
    start = time.time()
    y = x.sin()
    return y, time.time() - start
f(torch.ones(2))
""",
)
mistake(
    "random.random, with fullgraph",
    """
import random
@compile(backend="eager", fullgraph=True)
def f(x):
    return x * random.gauss(0, 1)
f(torch.ones(2))
""",
)
mistake(
    "a generator that is returned, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    return (row.sin() for row in x)
f(torch.ones(2))
""",
)
mistake(
    "a deep copy of a module, with fullgraph",
    """
import copy
model = torch.nn.Linear(2, 2)
@compile(backend="eager", fullgraph=True)
def f(x):
    return copy.deepcopy(model)(x)
f(torch.ones(2))
""",
)
mistake(
    "torch.save in a graph, with fullgraph",
    """
import io
@compile(backend="eager", fullgraph=True)
def f(x):
    y = x.sin()
    torch.save(y, io.BytesIO())
    return y
f(torch.ones(2))
""",
)
mistake(
    "a lock, with fullgraph",
    """
import threading
lock = threading.Lock()
@compile(backend="eager", fullgraph=True)
def f(x):
    with lock:
        return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "input(), with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    return x * float(input("scale? "))
f(torch.ones(2))
""",
)
mistake(
    "a file that is opened, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    with open(__file__) as file:
        return x * len(file.read())
f(torch.ones(2))
""",
)
mistake(
    "logging, with fullgraph",
    """
import logging
logger = logging.getLogger("model")
@compile(backend="eager", fullgraph=True)
def f(x):
    y = x.sin()
    logger.info("half way")
    return y
f(torch.ones(2))
""",
)
mistake(
    "warnings, with fullgraph",
    """
import warnings
@compile(backend="eager", fullgraph=True)
def f(x):
    warnings.warn("x is small")
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "a disabled function, with fullgraph",
    """
@torch.compiler.disable
def helper(x):
    return x + 1
@compile(backend="eager", fullgraph=True)
def f(x):
    return helper(x.sin())
f(torch.ones(2))
""",
)
mistake(
    "a function that is forbidden in graphs",
    """
def load(x):
    return x
FORBID(load)
@compile(backend="eager")
def f(x):
    return load(x.sin())
f(torch.ones(2))
""",
)
mistake(
    "set_stance in a graph",
    """
@compile(backend="eager")
def f(x):
    torch.compiler.set_stance("force_eager")
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "seeding in a graph, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    torch.manual_seed(0)
    return torch.rand(2) + x
f(torch.ones(2))
""",
)
mistake(
    "backward in a graph, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    loss = x.sin().sum()
    loss.backward()
    return loss
f(torch.ones(2, requires_grad=True))
""",
)
mistake(
    "an import in a graph, with fullgraph",
    """
@compile(backend="eager", fullgraph=True)
def f(x):
    import wave
    return x + len(wave.__name__)
f(torch.ones(2))
""",
)

# --- the program's own errors ---

mistake(
    "shapes that don't fit",
    """
@compile(backend="eager")
def f(x, weight):
    y = x.relu()
    return y @ weight
f(torch.ones(2, 3), torch.ones(4, 5))
""",
)
mistake(
    "dtypes that don't fit",
    """
layer = torch.nn.Linear(3, 3)
@compile(backend="eager")
def f(x):
    return layer(x * 2)
f(torch.ones(2, 3, dtype=torch.int64))
""",
)
mistake(
    "a wrong argument",
    """
@compile(backend="eager")
def f(x):
    return x.sum(dims=0)
f(torch.ones(2, 3))
""",
)
mistake(
    "an attribute that is not there",
    """
class Model(torch.nn.Module):
    def forward(self, x):
        return x * self.scale
compile(Model(), backend="eager")(torch.ones(2))
""",
)

# --- arguments of compile ---

mistake(
    "a backend with a typing error",
    """
@compile(backend="inductr")
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "a mode with a typing error",
    """
@compile(mode="max-autotun")
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "an option with a typing error",
    """
@compile(options={"max_autotun": True})
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "an option of the wrong type",
    """
@compile(options={"max_autotune": "yes"})
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "mode and options",
    """
@compile(mode="max-autotune", options={"max_autotune": True})
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "a mode for a backend that has none",
    """
@compile(backend="eager", mode="max-autotune")
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "an argument with a typing error",
    """
@compile(backend="eager", full_graph=True)
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "a backend that is a number",
    """
@compile(backend=0)
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "fullgraph is a text",
    """
@compile(backend="eager", fullgraph="no")
def f(x):
    print(x.shape)
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "dynamic is a number",
    """
@compile(backend="eager", dynamic=3)
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "the result is compiled in place of the function",
    """
def f(x):
    return x.sin()
compile(f(torch.ones(2)), backend="eager")
""",
)
mistake(
    "the model is None",
    """
model = None
compile(model, backend="eager")(torch.ones(2))
""",
)
mistake(
    "the model is a path",
    """
compile("model.pt", backend="eager")
""",
)
mistake(
    "a setting with a typing error",
    """
CONFIG.recompile_limits = 64
""",
)
mistake(
    "a setting of the wrong type",
    """
CONFIG.recompile_limit = "64"
@compile(backend="eager")
def f(x, n):
    return x + n
f(torch.ones(2), 1)
f(torch.ones(2), 2)
""",
)
mistake(
    "a stance with a typing error",
    """
SET_STANCE("force-eager")
""",
)

# --- recompiles ---

mistake(
    "an int that changes",
    """
@compile(backend="eager")
def f(x, step):
    y = x.sin()
    return y * step
f(torch.ones(2), 1)
f(torch.ones(2), 2)
""",
)
mistake(
    "a float that changes",
    """
@compile(backend="eager")
def f(x, rate):
    y = x.sin()
    return y * rate
f(torch.ones(2), 0.1)
f(torch.ones(2), 0.2)
""",
)
mistake(
    "a string that changes",
    """
@compile(backend="eager")
def f(x, kind):
    if kind == "sin":
        return x.sin()
    return x.cos()
f(torch.ones(2), "sin")
f(torch.ones(2), "cos")
""",
)
mistake(
    "an argument that is None, then a tensor",
    """
@compile(backend="eager")
def f(x, mask=None):
    if mask is not None:
        x = x * mask
    return x.sin()
f(torch.ones(2))
f(torch.ones(2), torch.ones(2))
""",
)
mistake(
    "a global that changes",
    """
RATE = 1
@compile(backend="eager")
def f(x):
    return x * RATE
f(torch.ones(2))
RATE = 2
f(torch.ones(2))
""",
)
mistake(
    "an attribute of a module that changes",
    """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        return x / self.calls
model = compile(Model(), backend="eager")
model(torch.ones(2))
model(torch.ones(2))
""",
)
mistake(
    "a dict that gets a key",
    """
@compile(backend="eager")
def f(batch):
    total = 0
    for key in batch:
        total = total + batch[key].sum()
    return total
batch = {"a": torch.ones(2)}
f(batch)
batch["b"] = torch.ones(2)
f(batch)
""",
)
mistake(
    "a list of another length",
    """
@compile(backend="eager")
def f(items):
    return sum(item.sum() for item in items)
f([torch.ones(2)])
f([torch.ones(2), torch.ones(2)])
""",
)
mistake(
    "requires_grad changes",
    """
@compile(backend="eager")
def f(x):
    return x.sin()
f(torch.ones(2))
f(torch.ones(2, requires_grad=True))
""",
)
mistake(
    "the dtype changes",
    """
@compile(backend="eager")
def f(x):
    return x.sin()
f(torch.ones(2))
f(torch.ones(2, dtype=torch.float64))
""",
)
mistake(
    "the device changes",
    """
@compile(backend="eager")
def f(x):
    return x.sin()
f(torch.ones(2))
f(torch.ones(2, device="meta"))
""",
)
mistake(
    "the size of a tensor changes",
    """
@compile(backend="eager", dynamic=False)
def f(x, weight):
    y = x.relu()
    return y @ weight
f(torch.ones(2, 3), torch.ones(3, 3))
f(torch.ones(5, 3), torch.ones(3, 3))
""",
)
mistake(
    "the number of dimensions changes",
    """
@compile(backend="eager")
def f(x):
    return x.sin()
f(torch.ones(2))
f(torch.ones(2, 3))
""",
)
mistake(
    "the layout of a tensor changes",
    """
@compile(backend="eager")
def f(x):
    return x.sin()
f(torch.ones(2, 3))
f(torch.ones(3, 2).t())
""",
)
mistake(
    "grad mode changes",
    """
@compile(backend="eager")
def f(x):
    return x.sin()
f(torch.ones(2))
with torch.no_grad():
    f(torch.ones(2))
""",
)
mistake(
    "train and eval",
    """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout()
    def forward(self, x):
        return self.drop(x)
model = compile(Model(), backend="eager")
model(torch.ones(2))
model.eval()
model(torch.ones(2))
""",
)
mistake(
    "a variable of a closure changes",
    """
def outer():
    scale = 1
    @compile(backend="eager")
    def f(x):
        return x * scale
    f(torch.ones(2))
    scale = 2
    f(torch.ones(2))
outer()
""",
)
mistake(
    "another function each time",
    """
@compile(backend="eager")
def f(x, function):
    return function(x)
def apply(scale):
    return f(torch.ones(2), lambda x: x * scale)
apply(1)
apply(2)
""",
)
mistake(
    "one tensor twice",
    """
@compile(backend="eager")
def f(x, y):
    x.add_(1)
    return x + y
a, b = torch.ones(2), torch.ones(2)
f(a, b)
f(a, a)
""",
)
mistake(
    "recompiles up to the limit",
    """
CONFIG.recompile_limit = 3
@compile(backend="eager", dynamic=False)
def f(x, step):
    y = x.sin()
    return y * step
for step in range(6):
    f(torch.ones(2), step)
""",
)
mistake(
    "recompiles up to the limit, with fullgraph",
    """
CONFIG.recompile_limit = 3
@compile(backend="eager", dynamic=False, fullgraph=True)
def f(x, step):
    y = x.sin()
    return y * step
for step in range(6):
    f(torch.ones(2), step)
""",
)
mistake(
    "a recompile that is an error",
    """
CONFIG.error_on_recompile = True
@compile(backend="eager")
def f(x, step):
    y = x.sin()
    return y * step
f(torch.ones(2), 1)
f(torch.ones(2), 2)
""",
)
mistake(
    "a recompile under the stance fail_on_recompile",
    """
@compile(backend="eager")
def f(x, step):
    y = x.sin()
    return y * step
f(torch.ones(2), 1)
with SET_STANCE("fail_on_recompile"):
    f(torch.ones(2), 2)
""",
)

# --- backends ---

mistake(
    "a backend that raises",
    """
def backend(module, inputs):
    raise ValueError("no such target")
@compile(backend=backend)
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "a backend that returns what can't be called",
    """
def backend(module, inputs):
    module.graph.print_tabular
@compile(backend=backend)
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "a backend with the wrong signature",
    """
def backend(module):
    return module.forward
@compile(backend=backend)
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)
mistake(
    "a compiled graph that returns too little",
    """
def backend(module, inputs):
    return lambda *args: ()
@compile(backend=backend)
def f(x):
    return x.sin()
f(torch.ones(2))
""",
)

# --- what has no effect ---

mistake(
    "dynamic=True",
    """
@compile(backend="eager", dynamic=True)
def f(x):
    return x.sin()
f(torch.ones(2))
f(torch.ones(3))
""",
)
mistake(
    "mark_dynamic",
    """
@compile(backend="eager")
def f(x):
    return x.sin()
x = torch.ones(2)
MARK_DYNAMIC(x, 0)
f(x)
""",
)


@dataclasses.dataclass
class Seen:
    """What a user sees of a program."""

    error: BaseException | None
    logs: str
    """What `TORCH_LOGS=graph_breaks,recompiles` writes, and the loggers that write by default."""
    warnings: list[str]

    @property
    def text(self) -> str:
        """All of it."""
        parts = [f"{type(self.error).__name__}: {self.error}"] if self.error is not None else []
        parts += self.warnings
        if self.logs:
            parts.append(self.logs)
        return "\n".join(parts)


def observe(title: str, compiler: str, folder: str) -> Seen:
    """Run a program with "magneto" or "torch" in this process."""
    path = os.path.join(folder, "program.py")
    with open(path, "w") as file:
        file.write(MISTAKES[title])
    linecache.checkcache(path)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    loggers = [logging.getLogger("magneto"), logging.getLogger("torch._dynamo")]
    import torch

    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    before = [(logger, logger.handlers[:]) for logger in loggers]
    for logger in loggers:
        logger.handlers[:] = [handler]
    error = None
    try:
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            try:
                exec(builtins.compile(MISTAKES[title], path, "exec"), _space(compiler, path))
            except Exception as raised:
                error = raised
    finally:
        for logger, handlers in before:
            logger.handlers[:] = handlers
        torch._logging.set_logs()
    return Seen(
        error,
        stream.getvalue(),
        [f"{w.category.__name__}: {w.message} ({w.filename}:{w.lineno})" for w in caught],
    )


def _space(compiler: str, path: str) -> dict[str, Any]:
    import torch

    space: dict[str, Any] = {"__name__": "program", "__file__": path, "torch": torch}
    if compiler == "magneto":
        import magneto

        space |= {
            "compile": magneto.compile,
            "CONFIG": magneto.config,
            "FORBID": magneto.forbid_in_graph,
            "SET_STANCE": magneto.set_stance,
            "MARK_DYNAMIC": magneto.mark_dynamic,
        }
    else:
        space |= {
            "compile": torch.compile,
            "CONFIG": torch._dynamo.config,
            "FORBID": torch._dynamo.forbid_in_graph,
            "SET_STANCE": torch.compiler.set_stance,
            "MARK_DYNAMIC": torch._dynamo.mark_dynamic,
        }
    return space


def in_child(title: str, compiler: str) -> str:
    """The same in a process of its own, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with tempfile.TemporaryDirectory() as folder:
                text = observe(title, compiler, folder).text
            text = re.sub(r"\S*" + re.escape(os.path.basename(folder)) + "/", "", text)
            text = re.sub(r"[^\s`'\"(]*/python3\.\d+/(site-packages/)?", "", text)
            os.write(write, text.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


PAGE = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "docs", "messages.md")
HEAD = """# Messages

What a user is told of usual mistakes, by magneto and by `torch.compile`: the error, the warnings, and what
`TORCH_LOGS=graph_breaks,recompiles` writes (of an error that says the same, the error alone). Long texts of
`torch.compile` are cut. Made by
`python tests/dropin/mistakes.py docs`; `tests/dropin/test_messages.py` checks the parts of ours that matter.
"""


def _short(text: str, most: int) -> str:
    """A message without what it says twice, and not too long."""
    kept = []
    for line in text.rstrip().splitlines():
        if kept and line.startswith("Graph break in user code at") and kept[0].startswith("Unsupported"):
            break
        kept.append(line[:157] + "..." if len(line) > 160 else line)
    while kept and not kept[-1].strip():
        kept.pop()
    return "\n".join([*kept[:most], "..."] if len(kept) > most else kept) or "(nothing)"


def main(arguments: list[str]) -> None:
    """Print what is told of the mistakes whose title has the text given, or write the page."""
    import torch._dynamo  # noqa: F401 (both are imported before the processes are forked)

    import magneto  # noqa: F401

    to_page = arguments == ["docs"]
    parts = [HEAD] if to_page else []
    for title, source in MISTAKES.items():
        if to_page or not arguments or arguments[0] in title:
            parts.append(f"\n## {title[0].upper()}{title[1:]}\n\n```message\n{source.rstrip()}\n```\n")
            for name, compiler in (("magneto", "magneto"), ("torch.compile", "torch")):
                text = in_child(title, compiler)
                shown = _short(text, 24 if compiler == "magneto" else 8) if to_page else text
                parts.append(f"\n{name}:\n```message\n{shown}\n```\n")
    if to_page:
        with open(PAGE, "w") as file:
            file.write("".join(parts))
    else:
        print("".join(parts))


if __name__ == "__main__":
    main(sys.argv[1:])
