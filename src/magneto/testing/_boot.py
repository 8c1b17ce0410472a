"""Two twin virtual environments: in one, every Python process runs its frames in magneto's interpreter.

The switch is a `.pth` file, which `site` executes at start-up, also under `-E` and `-I`, and whatever
environment variables a test gives to the processes that it starts. It loads the extension straight from its
file: neither the package `magneto` nor torch is imported, no module but `magneto._core` appears in
`sys.modules`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Mode = Literal["plain", "interpreted"]
MODES: tuple[Mode, Mode] = ("plain", "interpreted")

CORE_NAME = "magneto._core"
NO_CORE = "none"

# In a sub-interpreter (where set_wakeup_fd refuses) the extension may be unable to load; that is no error.
_BOOT_SOURCE = """
def boot(name, path):
    import sys
    if name in sys.modules:
        return
    import _frozen_importlib, _frozen_importlib_external
    loader = _frozen_importlib_external.ExtensionFileLoader(name, path)
    spec = _frozen_importlib.ModuleSpec(name, loader, origin=path)
    try:
        core = _frozen_importlib._load(spec)
    except ImportError:
        import _signal
        try:
            _signal.set_wakeup_fd(-1)
        except ValueError:
            return
        raise
    core.interpret_all(True)
boot({name!r}, {path!r})
"""


class CoreNotFoundError(Exception):
    """The extension `magneto._core` is not built or not installed."""


@dataclass(frozen=True)
class Environments:
    """The Python executables of the two environments, and the extension that the interpreted one loads."""

    plain: Path
    interpreted: Path
    core: Path | None

    def python(self, mode: Mode) -> Path:
        """The executable for a mode."""
        return self.plain if mode == "plain" else self.interpreted


def find_core() -> Path | None:
    """The file of the extension: `$MAGNETO_CORE` if set ("none": no core), else the installed one."""
    override = os.environ.get("MAGNETO_CORE")
    if override == NO_CORE:
        return None
    if override:
        path = Path(override).resolve()
        if not path.is_file():
            raise CoreNotFoundError(f"MAGNETO_CORE is {override!r}, which is not a file")
        return path
    try:
        spec = importlib.util.find_spec(CORE_NAME)
    except ImportError as error:
        raise CoreNotFoundError(f"{CORE_NAME} can't be found: {error}") from error
    if spec is None or spec.origin is None:
        raise CoreNotFoundError(f"{CORE_NAME} is not built (set MAGNETO_CORE to its file, or to {NO_CORE!r})")
    return Path(spec.origin).resolve()


def boot_line(core: Path | None) -> str:
    """The line of the `.pth` file; without a core it is one that does nothing."""
    if core is None:
        return "import sys\n"
    source = _BOOT_SOURCE.format(name=CORE_NAME, path=str(core))
    return f"import sys; exec({source!r}, {{}})\n"


def make_environments(root: Path, core: Path | None) -> Environments:
    """Makes both environments under `root`; they differ in the `.pth` alone."""
    pythons = []
    for name, line in (("plain", boot_line(None)), ("magne", boot_line(core))):
        target = root / name
        venv.EnvBuilder(symlinks=True, with_pip=False).create(target)
        site_packages = (
            target / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        )
        (site_packages / "magneto_boot.pth").write_text(line, encoding="utf-8")
        pythons.append(target / "bin" / "python")
    return Environments(plain=pythons[0], interpreted=pythons[1], core=core)


def child_environment(mode: Mode) -> dict[str, str]:
    """The environment variables of a test process: ours, without those that change how Python runs.

    The choice of the allocator stays: a sanitizer sees single objects only if each comes from malloc.
    """
    dropped = ("VIRTUAL_ENV", "MAGNETO_CORE")
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in dropped and (key == "PYTHONMALLOC" or not key.startswith("PYTHON"))
    }
    kept["MAGNETO_INTERPRET"] = "1" if mode == "interpreted" else "0"
    return kept
