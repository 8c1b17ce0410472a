"""`python -m magneto run script.py ARGS...`: a program, unchanged, with magneto in place of torch.compile.

`python -m magneto cache ...`: the cache on disk.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
import types

USAGE = """\
usage: python -m magneto run SCRIPT [ARGUMENT...]
       python -m magneto run -m MODULE [ARGUMENT...]
       python -m magneto cache list|clear|export|import

Runs a program as `python SCRIPT` and `python -m MODULE` do, with magneto in place of torch.compile, as after
magneto.install(). Processes that it starts are told the same by MAGNETO=1. `cache` shows, empties and moves the cache
of compiled graphs; `python -m magneto cache --help` tells more.
"""


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; returns the exit status unless the program exits by itself."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if arguments else 2
    if arguments[0] == "cache":
        from magneto import _cachecommand

        return _cachecommand.main(arguments[1:])
    if arguments[0] != "run" or len(arguments) < 2 or arguments[1:] == ["-m"]:
        print(USAGE, end="", file=sys.stderr)
        return 2
    import magneto

    os.environ["MAGNETO"] = "1"
    magneto.install()
    if arguments[1] == "-m":
        sys.argv = arguments[2:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[2], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments[1:]
        _run_script(arguments[1])
    return 0


def _run_script(path: str) -> None:
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        sys.path.pop(0)  # run_path puts the folder itself there
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        sys.exit(f"python -m magneto run: can't open {path!r}: {error.strerror}")
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    program = types.ModuleType("__main__")
    program.__file__ = path
    program.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = program
    exec(compile(source, path, "exec", dont_inherit=True), program.__dict__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
