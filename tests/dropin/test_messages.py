"""What users are told of usual mistakes: the line, the reason, both values, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import magneto
from tests.dropin.mistakes import MISTAKES, PAGE, observe

pytestmark = pytest.mark.no_leak_hunt("programs of mistakes leave tracebacks behind")

BREAK = "with fullgraph"

PARTS: dict[str, list[str]] = {
    "a branch on the value of a tensor, with fullgraph": [
        'program.py", line 4',
        "if y.sum() > 0:",
        "torch.where",
    ],
    "a branch on the value of a tensor": ["program.py:4", "torch.where"],
    "a number taken out of a tensor": ["program.py:3", "x.max().item()", "capture_scalar_outputs = True"],
    "a number taken out of a tensor decides, with fullgraph": ["line 4", "if scale > 0:", "torch._check"],
    "a tensor turned into a numpy array, with fullgraph": [
        "line 3",
        "TensorBase.numpy",
        "in place of numpy's",
    ],
    "print in a graph, with fullgraph": ["line 4", "builtins.print", "ignore_logging_functions"],
    "a size that depends on data": [
        "program.py:3",
        "aten.nonzero",
        "capture_dynamic_output_shape_ops = True",
    ],
    "np.random in a graph, with fullgraph": ["line 4", "np.random.rand()", "torch.rand"],
    "a method of a numpy Generator, with fullgraph": ["line 5", "Generator", "normal", "torch.rand"],
    "a C function without a rule, with fullgraph": ["line 4", "zlib.crc32", "custom_op"],
    "the clock, with fullgraph": ["line 4", "time.time", "before and after the call"],
    "random.random, with fullgraph": ["line 4", "random.Random.gauss", "torch.rand"],
    "a generator that is returned, with fullgraph": ["line 3, in f", "return (row.sin()", "Use it up"],
    "a deep copy of a module, with fullgraph": ["line 5", "Parameter", "copy.deepcopy), before"],
    "torch.save in a graph, with fullgraph": ["line 5", "_io.BytesIO", "return what is to be saved"],
    "a lock, with fullgraph": ["line 5", "_thread.lock", "around the call"],
    "input(), with fullgraph": ["line 3", "builtins.input", "Ask before"],
    "a file that is opened, with fullgraph": ["line 3", "open(__file__)", "Read files before"],
    "logging, with fullgraph": ["line 6", "logging.Logger.info", "ignore_logging_functions"],
    "warnings, with fullgraph": ["line 4", "_warnings.warn", "Warn before or after"],
    "a disabled function, with fullgraph": ["line 6", "program.helper", "Remove the decorator"],
    "a function that is forbidden in graphs": ["line 6", "program.load", "hint: Make the call before"],
    "set_stance in a graph": ["line 3", "set_stance", "hint: Make the call before"],
    "seeding in a graph, with fullgraph": ["line 3", "manual_seed", "Seed before"],
    "backward in a graph, with fullgraph": ["line 4", "backward", "Return the loss"],
    "a backend with a typing error": ["'inductr'; did you mean 'inductor'?"],
    "a mode with a typing error": ["max-autotun", "did you mean 'max-autotune'?"],
    "an option with a typing error": ["'max_autotun'; did you mean 'max_autotune'?"],
    "an option of the wrong type": ["max_autotune", "str", "bool"],
    "mode and options": ["either mode or options"],
    "a mode for a backend that has none": ["'eager' has no use for mode='max-autotune'", "no effect"],
    "an argument with a typing error": ["'full_graph'; did you mean 'fullgraph'?"],
    "a backend that is a number": ["a name or a callable, not 0"],
    "fullgraph is a text": ["fullgraph is True or False, not 'no'"],
    "dynamic is a number": ["dynamic is True, False or None, not 3"],
    "the result is compiled in place of the function": ["compile(f)(x)", "compile(f(x))"],
    "the model is None": ["Is the model None"],
    "the model is a path": ["'model.pt'", "loaded before it is compiled"],
    "a setting with a typing error": ["'recompile_limits'; did you mean 'recompile_limit'?"],
    "a setting of the wrong type": ["recompile_limit", "int", "'64'"],
    "a stance with a typing error": ["'force-eager'; did you mean 'force_eager'?"],
    "an int that changes": ["L['step'] == 1, but it is 2", "program.py:4 in f: return y * step"],
    "a float that changes": ["L['rate'] == 0.1, but it is 0.2", "program.py:4 in f: return y * rate"],
    "a string that changes": ["L['kind'] == 'sin', but it is 'cos'", "program.py:3 in f"],
    "an argument that is None, then a tensor": ["L['mask'] is None", "Tensor", "program.py:3 in f"],
    "a global that changes": ["G['RATE'] == 1, but it is 2", "program.py:4 in f"],
    "an attribute of a module that changes": ["calls == 0, but it is 1", "program.py:6 in forward"],
    "a dict that gets a key": ["'b' is new", "program.py:4 in f: for key in batch:"],
    "a list of another length": ["len(L['items']) == 1, but it is 2", "program.py:3"],
    "requires_grad changes": ["L['x'].requires_grad == False, but it is True", "program.py:3"],
    "the dtype changes": ["L['x'].dtype == torch.float32, but it is torch.float64", "program.py:3"],
    "the device changes": ["L['x'].device == cpu, but it is meta", "program.py:3"],
    "the size of a tensor changes": ["L['x'].size(0) == 2, but it is 5", "program.py:3"],
    "the number of dimensions changes": ["L['x'].dim() == 1, but it is 2", "program.py:3"],
    "the layout of a tensor changes": ["L['x'].stride() == (3, 1), but it is (1, 2)", "program.py:3"],
    "grad mode changes": ["torch.is_grad_enabled() == True, but it is False"],
    "train and eval": ["training is True, but it is False", "program.py:6 in forward: return self.drop(x)"],
    "a variable of a closure changes": ["L['scale'] == 1, but it is 2", "program.py:5 in f"],
    "another function each time": ["== 1, but it is 2", "program.py:5 in <lambda>"],
    "one tensor twice": ["L['x'] is not L['y'], but they are one object"],
    "recompiles up to the limit": [
        "limit of 3",
        "L['step'] == 2, but it is 3",
        "From now on",
        "program.py:7",
    ],
    "recompiles up to the limit, with fullgraph": [
        "limit of 3",
        "L['step'] == 2, but it is 3",
        "raise the limit",
    ],
    "a recompile that is an error": ["L['step'] == 1, but it is 2", "program.py:5 in f"],
    "a backend that raises": ["'backend'", "no such target", "line 5, in f", "suppress_errors"],
    "a backend that returns what can't be called": ["must return a callable", "None", "line 5, in f"],
    "a backend with the wrong signature": ["backend(graph_module, example_inputs)", "line 5, in f"],
    "a compiled graph that returns too little": ["gave 0 outputs", "has 1"],
}


@pytest.mark.parametrize("title", PARTS)
def test_the_message_has_what_matters(title: str, tmp_path: Path) -> None:
    try:
        with (
            magneto.config.patch(recompile_limit=8, error_on_recompile=False),  # programs change them
            magneto.set_stance("default"),
        ):
            text = observe(title, "magneto", str(tmp_path)).text
    finally:
        magneto.reset()
    missing = [part for part in PARTS[title] if part not in text]
    assert not missing, f"{missing} not in\n{text}"


OWN = {
    "shapes that don't fit": ("RuntimeError", 4),
    "dtypes that don't fit": ("RuntimeError", 4),
    "a wrong argument": ("TypeError", 3),
    "an attribute that is not there": ("AttributeError", 3),
}


@pytest.mark.parametrize("title", OWN)
def test_errors_of_the_program_are_its_own_with_their_line(title: str, tmp_path: Path) -> None:
    error = observe(title, "magneto", str(tmp_path)).error
    lines = []
    traceback = error.__traceback__ if error is not None else None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.endswith("program.py"):
            lines.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    assert (type(error).__name__, lines[-1]) == OWN[title]


def test_the_page_has_every_mistake() -> None:
    with open(PAGE) as file:
        titles = [line[3:].strip().lower() for line in file if line.startswith("## ")]
    assert titles == [title.lower() for title in MISTAKES]
