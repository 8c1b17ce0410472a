"""Stands in for a process that compiles: answers graphs as it is told by its first argument, and compiles nothing."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import time


def main(what: str) -> None:
    while True:
        head = sys.stdin.buffer.read(8)
        if len(head) < 8:
            return
        sys.stdin.buffer.read(struct.unpack("<Q", head)[0])
        if what == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "ends":
            return
        if what == "hangs":
            time.sleep(600)
        if what == "half":
            sys.stdout.buffer.write(struct.pack("<Q", 1000) + b"x")
            return
        data = pickle.dumps((what, "said so"))
        sys.stdout.buffer.write(struct.pack("<Q", len(data)) + data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
