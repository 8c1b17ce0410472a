"""`TORCH_COMPILE_CPROFILE`: where the time of each compilation goes, as files for `pstats` and as tables.

Captured code runs for real, and a profile would change what is captured. So the capture is one row, with the time that
the core has taken; what is done with the graph afterwards, by magneto and by the backend, has a row for each function.
"""

from __future__ import annotations

import contextlib
import cProfile
import logging
import marshal
import pstats
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magneto._session import Session

log = logging.getLogger("magneto")

_MOST_ROWS = 20


class Profile:
    """The profile of one session."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile()
        self.seconds = 0.0
        """What the captures took."""
        self.captures = 0

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Profile the functions that are called in a `with` block."""
        try:
            self._profile.enable()
        except (
            ValueError
        ):  # as in torch: the program, or a session around this one, has a profiler of its own
            log.exception("cProfile can't be switched on")
            yield
            return
        try:
            yield
        finally:
            self._profile.disable()

    def write(self, session: Session) -> None:
        """Write the file, which is named as torch names it, and say where it is."""
        code = session.code
        self._profile.create_stats()
        stats: dict[Any, Any] = self._profile.stats
        row = (code.co_filename, session.line, f"capture of {session.name}")
        stats[row] = (self.captures, self.captures, self.seconds, self.seconds, {})
        path = Path(tempfile.gettempdir(), f"_compile_inner_{str(session.id).replace('/', '_')}.profile")
        whole = sum(time for _, _, time, _, _ in stats.values())
        log.warning(
            "### Cprofile for %s compile id [%s] took %.3f seconds ###", code.co_name, session.id, whole
        )
        try:
            path.write_bytes(marshal.dumps(stats))
        except OSError:
            log.exception("Cannot write to %s", path)
            return
        log.warning("Raw profile at %s", path)
        if not _draw(path):
            table = pstats.Stats(str(path))
            table.sort_stats(pstats.SortKey.TIME).print_stats(_MOST_ROWS)
            table.sort_stats(pstats.SortKey.CUMULATIVE).print_stats(_MOST_ROWS)


def _draw(path: Path) -> bool:
    """Make a picture of a profile. False if there is no gprof2dot, or no dot."""
    picture = path.with_suffix(".svg")
    labels = [
        f"--node-label={name}" for name in ("total-time-percentage", "self-time-percentage", "total-time")
    ]
    try:
        graph = subprocess.run(
            ["gprof2dot", "-f", "pstats", *labels, str(path)], capture_output=True, check=True
        )
        subprocess.run(["dot", "-Tsvg", "-o", str(picture)], input=graph.stdout, check=True)
    except FileNotFoundError:
        log.warning("There is no picture of the profile: gprof2dot and dot, which draw it, are not installed")
        return False
    except subprocess.CalledProcessError as error:
        log.warning("There is no picture of the profile: %s", error)
        return False
    log.warning("Generated SVG from profile at %s", picture)
    return True
