"""Serves this machine's CPU to llama.cpp's RPC backend, in a process of its own.

Run as ``python rpc_server.py FOLDER PORT``; it ends when its standard input does, so that it never
outlives the process that started it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CPU = 0


def serve(folder: Path, port: int) -> None:
    """Serve until the process ends."""
    ggml = ctypes.CDLL(str(next(folder.glob("*ggml.[sd]*"))))
    rpc = ctypes.CDLL(str(next(folder.glob("*ggml-rpc.[sd]*"))))
    ggml.ggml_backend_dev_by_type.restype = ctypes.c_void_p
    devices = (ctypes.c_void_p * 1)(ggml.ggml_backend_dev_by_type(CPU))
    size = ctypes.c_size_t
    rpc.ggml_backend_rpc_start_server(f"127.0.0.1:{port}".encode(), None, size(1), size(1), devices)


def end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The endpoint of a server, which runs until the context ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, str(folder), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            await_port(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, f"the server ended with status {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.05)


if __name__ == "__main__":
    threading.Thread(target=end_with_input, daemon=True).start()
    serve(Path(sys.argv[1]), int(sys.argv[2]))
