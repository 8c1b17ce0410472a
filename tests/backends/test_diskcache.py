"""The files of the cache on disk: whole or not there, ours or not used, bounded; many processes at once."""

from __future__ import annotations

import logging
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from magneto import _cachecommand, _core, _diskcache

pytestmark = pytest.mark.no_leak_hunt("libc keeps each value that an environment variable has had")

KEY = "ab" * 32


def key(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("MAGNETO_CACHE_DIR", str(path))
    monkeypatch.delenv("MAGNETO_CACHE_SIZE", raising=False)
    return path


def test_what_was_put_there_is_found(folder: Path) -> None:
    assert _diskcache.find(KEY) is None
    assert _diskcache.keep(KEY, {"name": "f"}, b"content")
    header, content = _diskcache.find(KEY) or ({}, b"")
    assert header == {"name": "f", "key": KEY}
    assert bytes(content) == b"content"


def test_the_folder_is_only_for_its_owner(folder: Path) -> None:
    _diskcache.keep(KEY, {}, b"")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / f"{KEY}.graph").stat().st_mode) == 0o600


def test_the_folder_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAGNETO_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _diskcache.folder() == str(tmp_path / "magneto")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _diskcache.folder() == str(tmp_path / ".cache" / "magneto")


@pytest.mark.parametrize("place", [0, 9, 45, 60, -1])
def test_a_damaged_file_is_as_none(folder: Path, place: int, caplog: pytest.LogCaptureFixture) -> None:
    _diskcache.keep(KEY, {"name": "f"}, b"content" * 9)
    path = folder / f"{KEY}.graph"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, "magneto"):
        assert _diskcache.find(KEY) is None
    assert "is damaged" in caplog.text
    assert not path.exists()


@pytest.mark.parametrize("size", [0, 1, 8, 39, 40, 44, 60])
def test_a_truncated_file_is_as_none(folder: Path, size: int) -> None:
    _diskcache.keep(KEY, {"name": "f"}, b"content" * 9)
    path = folder / f"{KEY}.graph"
    path.write_bytes(path.read_bytes()[:size])
    assert _diskcache.find(KEY) is None


def test_a_file_under_another_name_is_not_used(folder: Path) -> None:
    _diskcache.keep(KEY, {}, b"content")
    os.rename(folder / f"{KEY}.graph", folder / f"{key(1)}.graph")
    assert _diskcache.find(key(1)) is None


def test_a_folder_that_others_can_write_to_is_not_used(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _diskcache.keep(KEY, {}, b"content")
    folder.chmod(0o777)
    with caplog.at_level(logging.WARNING, "magneto"):
        assert _diskcache.find(KEY) is None
        assert not _diskcache.keep(key(1), {}, b"content")
    assert caplog.text.count("others can write to it") == 1
    folder.chmod(0o700)
    assert _diskcache.find(KEY) is not None


def test_a_file_that_others_can_write_to_is_not_used(folder: Path) -> None:
    _diskcache.keep(KEY, {}, b"content")
    (folder / f"{KEY}.graph").chmod(0o666)
    assert _diskcache.find(KEY) is None


def test_a_link_is_not_followed(folder: Path) -> None:
    _diskcache.keep(KEY, {}, b"content")
    os.rename(folder / f"{KEY}.graph", folder / "elsewhere")
    os.symlink("elsewhere", folder / f"{KEY}.graph")
    assert _diskcache.find(KEY) is None


def test_a_folder_that_can_not_be_made_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.write_text("a file")
    with caplog.at_level(logging.WARNING, "magneto"):
        assert not _diskcache.keep(KEY, {}, b"content")
    assert "can't be put into the cache folder" in caplog.text
    assert _diskcache.find(KEY) is None


def test_a_folder_without_the_right_to_write_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _diskcache.keep(KEY, {}, b"content")

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)
    with caplog.at_level(logging.INFO, "magneto"):
        assert not _diskcache.keep(key(1), {}, b"content")
        assert _diskcache.find(KEY) is None
    assert caplog.text.count("Permission denied") == 2


def test_a_full_disk_leaves_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    _diskcache.keep(KEY, {}, b"content")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with caplog.at_level(logging.WARNING, "magneto"):
            assert not _diskcache.keep(key(1), {}, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "can't be put into the cache folder" in caplog.text
    assert os.listdir(folder) == [f"{KEY}.graph"]


def test_what_was_used_longest_ago_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        _diskcache.keep(key(number), {}, b"x" * 1000)
        os.utime(folder / f"{key(number)}.graph", (number, number))
    assert _diskcache.find(key(0)) is not None
    monkeypatch.setenv("MAGNETO_CACHE_SIZE", "4500")
    _diskcache.keep(key(5), {}, b"x" * 1000)
    left = {name[:64] for name in os.listdir(folder)}
    assert left == {key(0), key(4), key(5)} or left == {key(0), key(3), key(4), key(5)}


def test_a_clock_that_jumps_only_changes_the_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, used in enumerate((-5.0, 0.0, time.time() + 1e9, time.time())):
        _diskcache.keep(key(number), {}, b"x" * 1000)
        os.utime(folder / f"{key(number)}.graph", (used, used))
    monkeypatch.setattr(time, "time", lambda: -1e9)
    assert len(_diskcache.entries()) == 4
    assert _diskcache.shrink(2500) == 2
    assert _diskcache.find(key(2)) is not None
    assert _cachecommand.main(["list"]) == 0


def test_what_a_killed_process_has_left_is_removed(folder: Path) -> None:
    _diskcache.keep(KEY, {}, b"content")
    old, new = folder / f".{key(1)}.12ab", folder / f".{key(2)}.12ab"
    old.write_text("half")
    new.write_text("half")
    os.utime(old, (1, 1))
    _diskcache.keep(key(3), {}, b"content")
    assert not old.exists()
    assert new.exists()  # another process may be writing it


def test_ten_processes_at_once(folder: Path) -> None:
    program = """
import random, sys
from magneto import _diskcache
random.seed(int(sys.argv[1]))
for _ in range(150):
    number = random.randrange(12)
    key = f"{number:064x}"
    if random.random() < 0.5:
        assert _diskcache.keep(key, {"number": number}, bytes([number]) * 5000)
    else:
        found = _diskcache.find(key)
        assert found is None or (found[0]["number"] == number and bytes(found[1]) == bytes([number]) * 5000)
"""
    environment = {**os.environ, "MAGNETO_CACHE_SIZE": "30000"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(number)], env=environment, stderr=subprocess.PIPE
        )
        for number in range(10)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
        assert b"damaged" not in errors
    assert sum(entry.size for entry in _diskcache.entries()) <= 30000 + 10 * 5200


def test_the_command_shows_and_empties(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _diskcache.keep(KEY, {"name": "f", "operations": 2, "torch": "2"}, b"content")
    _diskcache.keep(key(1), {"name": "g", "operations": 3, "torch": "2", "refused": "why"}, b"")
    (folder / f"{key(2)}.graph").write_bytes(b"rubbish")
    assert _cachecommand.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "f, 2 operations" in shown and "inductor's own cache: why" in shown and "damaged" in shown
    assert "3 graphs" in shown
    assert _cachecommand.main(["clear"]) == 0
    assert os.listdir(folder) == []


def test_a_cache_is_exported_and_imported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _diskcache.keep(KEY, {"name": "f"}, b"content")
    _diskcache.keep(key(1), {"name": "g"}, b"more")
    (folder / f"{key(2)}.graph").write_bytes(b"rubbish")
    archive = str(tmp_path / "graphs.tar.gz")
    assert _cachecommand.main(["export", archive]) == 0
    monkeypatch.setenv("MAGNETO_CACHE_DIR", str(tmp_path / "other"))
    assert _cachecommand.main(["import", archive]) == 0
    assert [name[:64] for name in sorted(os.listdir(tmp_path / "other"))] == [key(1), KEY]
    found = _diskcache.find(KEY)
    assert found is not None and bytes(found[1]) == b"content"


def test_an_import_takes_nothing_else(folder: Path, tmp_path: Path) -> None:
    import tarfile

    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as file:
        for name in ("../escape.graph", f"{KEY}.graph", "notes.txt"):
            info = tarfile.TarInfo(name)
            file.addfile(info)
    assert _cachecommand.main(["import", str(archive)]) == 0
    assert os.listdir(folder) == []
    assert not (tmp_path / "escape.graph").exists()


@pytest.mark.parametrize("arguments", [[], ["remove"], ["export"], ["list", "more"]])
def test_a_wrong_command_shows_how_it_is_used(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cachecommand.main(arguments) == 2
    assert "usage" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cachecommand.main(["import", "/nowhere/at/all"]) == 1
    assert "No such file" in capsys.readouterr().err


def test_the_command_is_found_by_its_name(
    folder: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_python("import sys; from magneto.__main__ import main; sys.exit(main(['cache', 'list']))")
    assert done.returncode == 0 and "0 graphs" in done.stdout, done.stderr


@pytest.mark.parametrize("content", [b"", b"junk", b"\x7fELF" + bytes(200)])
def test_what_is_no_library_is_an_error(content: bytes) -> None:
    import magneto._runtime  # noqa: F401

    with pytest.raises(OSError, match="can't be loaded"):
        _core.Library(content, (0,), ((0, 0),), ())


def test_a_library_of_something_else_is_an_error() -> None:
    with (
        open(_core.__file__, "rb") as file,  # type: ignore[attr-defined]
        pytest.raises(OSError, match="the library of a graph"),
    ):
        _core.Library(file.read(), (0,), ((0, 0),), ())
