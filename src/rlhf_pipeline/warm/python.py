"""Stands in for the Python interpreter: asks the warm server for a fork and becomes its shadow.

Run as `python -I -S python.py <python's arguments>`; RLHF_WARM_SOCKET names the server. Everything a
child of exec would inherit is handed over: arguments, environment, working folder and every open
file under its own number. The shadow passes signals on and ends with the fork's exit code, so a
parent (raylet, multiprocessing) sees an ordinary child. Standard library only: this must start fast.
Without a server the real interpreter is executed instead.
"""

import array
import contextlib
import json
import os
import signal
import socket
import struct
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
MAX_FDS = 250  # Linux passes at most 253 descriptors in one message


def main() -> int:
    arguments = sys.argv[1:]
    try:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.connect(os.environ["RLHF_WARM_SOCKET"])
    except (KeyError, OSError):
        real = os.environ.get("RLHF_REAL_PYTHON", sys.executable)
        os.execv(real, [real, *arguments])
    fds = inherited(server.fileno())
    request = json.dumps(
        {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd(), "fds": fds}
    ).encode()
    server.sendmsg(
        [struct.pack("!I", len(request))],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))],
    )
    server.sendall(request)
    pid = struct.unpack("!i", receive(server, 4))[0]
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: forward(pid, number))
    for fd in fds:
        if fd > 2:
            os.close(fd)  # the fork holds them; a pipe must see its end when the fork goes
    status = struct.unpack("!i", receive(server, 4))[0]
    return status if status >= 0 else 128 - status


def inherited(own: int) -> list[int]:
    """Open descriptors that exec would have passed on."""
    fds = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd != own and (fd <= 2 or os.get_inheritable(fd)):
                fds.append(fd)
        except OSError:
            continue  # the descriptor of the listing itself
    return sorted(fds)[:MAX_FDS]


def receive(server: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = server.recv(length - len(data))
        if not part:
            sys.exit(1)  # the server is gone, and every fork with it
        data += part
    return data


def forward(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main())
