"""The warm server: imports once, then forks a ready interpreter for each request of python.py.

`python -m rlhf_pipeline.warm.server SOCKET MODULE...` imports the modules, then listens until it is
killed; every fork carries its environment's marker, so process.py ends them together. It stays
single-threaded: a fork copies only the thread that forks.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

HIGH_FD = 600
"""The server keeps its own descriptors up here, out of the way of those it hands on."""
MAX_FDS = 250
FIRST_JOB_ID = "01000000"


class Server:
    """Forks for requests and reports each fork's end to its shadow.

    Args:
        made: environment variables that the imports set, which a fork would set by importing.
    """

    def __init__(self, path: str, made: dict[str, str]):
        self.made = made
        self.selector = selectors.DefaultSelector()
        self.listener = high(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self.listener.bind(path)
        self.listener.listen(64)
        self.shadows: dict[int, socket.socket] = {}
        self.wake_r, self.wake_w = (high_fd(fd) for fd in os.pipe())
        os.set_blocking(self.wake_w, False)
        os.set_blocking(self.wake_r, False)

    def serve(self) -> None:
        """Answer requests until this process is killed."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_w, warn_on_full_buffer=False)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(self.wake_r, selectors.EVENT_READ, self.reap)
        try:
            while True:
                for key, _ in self.selector.select():
                    key.data()
        finally:
            for pid in self.shadows:
                kill(pid)

    def accept(self) -> None:
        connection, _ = self.listener.accept()
        shadow = high(connection)
        header, passed, _, _ = shadow.recvmsg(4, socket.CMSG_SPACE(MAX_FDS * 4))
        if len(header) < 4:
            shadow.close()
            return
        fds = array.array("i")
        for _, _, data in passed:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        held = [high_fd(fd) for fd in fds]
        request = json.loads(receive(shadow, struct.unpack("!I", header)[0]))
        pid = os.fork()
        if pid == 0:
            child(self, request, held)
        for fd in held:
            os.close(fd)
        self.shadows[pid] = shadow
        try:
            shadow.sendall(struct.pack("!i", pid))
            self.selector.register(shadow, selectors.EVENT_READ, lambda: self.abandoned(pid))
        except OSError:
            kill(pid)

    def abandoned(self, pid: int) -> None:
        """The shadow was killed: so is its fork, as an ordinary child's parent would expect."""
        self.selector.unregister(self.shadows[pid])
        kill(pid)

    def reap(self) -> None:
        os.read(self.wake_r, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            shadow = self.shadows.pop(pid, None)
            if shadow is not None:
                if shadow in [key.fileobj for key in self.selector.get_map().values()]:
                    self.selector.unregister(shadow)
                with contextlib.suppress(OSError):  # the shadow may be gone
                    shadow.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
                shadow.close()


def child(server: Server, request: dict[str, Any], held: list[int]) -> None:
    """Become the requested interpreter; never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        server.selector.close()
        for shadow in server.shadows.values():
            shadow.close()
        for fd, wanted in zip(held, request["fds"], strict=True):
            os.dup2(fd, wanted, inheritable=True)
            os.close(fd)
        os.closerange(HIGH_FD, HIGH_FD + 400)
        os.environ.clear()
        os.environ.update({**server.made, **request["environment"]})
        os.chdir(request["folder"])
        for stream, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            setattr(sys, stream, open(fd, mode, buffering=1, closefd=False))  # noqa: SIM115
            setattr(sys, f"__{stream}__", getattr(sys, stream))
        # What Ray starts (its agents and workers) or multiprocessing spawns (vLLM's engine and workers)
        # from here is warm as well.
        sys.executable = request["environment"]["RLHF_WARM_PYTHON"]
        multiprocessing.set_executable(sys.executable)
        refresh()
        code = interpret(request["arguments"])
    except SystemExit as stop:
        code = exit_code(stop.code)
    except BaseException:  # noqa: BLE001 - as an interpreter does with whatever ends its program
        traceback.print_exc()
    finally:
        leave(code)


def refresh() -> None:
    """Let libraries that read the environment when they were imported read it again."""
    tempfile.tempdir = None
    if "ray._raylet" in sys.modules:
        # Ray's C++ configuration, among it the job's id and the authentication mode.
        sys.modules["ray._raylet"].Config.initialize("")


def interpret(arguments: list[str]) -> int:
    """Do what `python <arguments>` does; options before the program are dropped (-u, -X, -S ...)."""
    rest = list(arguments)
    while rest:
        first = rest.pop(0)
        if first == "-c":
            sys.argv = ["-c", *rest[1:]]
            sys.path[0] = ""
            names = {"__name__": "__main__", "__builtins__": __builtins__}
            exec(compile(rest[0], "<string>", "exec"), names)
            return 0
        if first == "-m":
            sys.argv = ["-m", *rest[1:]]
            sys.path[0] = os.getcwd()
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
            return 0
        if first in ("-X", "-W"):
            rest.pop(0)
        elif not first.startswith("-"):
            sys.argv = [first, *rest]
            sys.path[0] = str(Path(first).resolve().parent)
            runpy.run_path(first, run_name="__main__")
            return 0
    raise SystemExit("the warm interpreter has no interactive mode")


def exit_code(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    print(value, file=sys.stderr)
    return 1


def leave(code: int) -> None:
    """End as an interpreter ends: wait for threads, run exit handlers, flush."""
    import atexit
    import threading

    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def high_fd(fd: int) -> int:
    """The same open file under a number above HIGH_FD; `fd` is closed."""
    import fcntl

    new = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    os.close(fd)
    return new


def high(connection: socket.socket) -> socket.socket:
    return socket.socket(fileno=high_fd(connection.detach()))


def receive(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("the shadow went away in the middle of its request")
        data += part
    return data


def foreign_threads() -> list[str]:
    """Names of threads that a fork would lose; Arrow's allocator brings its own back after a fork."""
    own = str(os.getpid())
    names = [
        Path(f"/proc/self/task/{thread}/comm").read_text().strip()
        for thread in os.listdir("/proc/self/task")
        if thread != own
    ]
    return [name for name in names if name != "jemalloc_bg_thd"]


def main() -> None:
    path, *modules = sys.argv[1:]
    # Ray's C++ keeps these from the moment it is imported, and workers insist on them. A local
    # cluster's first job has this id; the process without which a worker is to end is this one.
    os.environ |= {"RAY_JOB_ID": FIRST_JOB_ID, "RAY_RAYLET_PID": str(os.getpid())}
    before = dict(os.environ)
    for module in modules:
        importlib.import_module(module)
    if threads := foreign_threads():
        raise SystemExit(f"the warm server cannot fork safely: its imports started the threads {threads}")
    gc.collect()
    gc.freeze()  # shared pages stay shared when a fork collects garbage
    Server(path, {name: value for name, value in os.environ.items() if before.get(name) != value}).serve()


if __name__ == "__main__":
    main()
