"""Keeps torch's rendezvous server on the loopback interface when that is the address it was given.

torch's TCPStore listens on every interface, whatever host its users name, and anyone who reaches it can
read and change what the processes agree on. Here the server gets a socket that is bound to the host. Not
here: torchrun's own store, which train/ranks.py keeps in a file.
"""

from __future__ import annotations

import importlib
import socket
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost")


def install(rendezvous: Any = None) -> None:
    """Change `rendezvous`, the module torch.distributed.rendezvous; harmless when done already."""
    # The name in torch.distributed is a function's.
    rendezvous = rendezvous or importlib.import_module("torch.distributed.rendezvous")
    inner = rendezvous._create_c10d_store
    if getattr(inner, "on_loopback", False):
        return

    def create(
        hostname: str, port: int, rank: int, world_size: int, timeout: Any, use_libuv: bool = True
    ) -> Any:
        if rank != 0 or hostname not in LOOPBACK or rendezvous._torchelastic_use_agent_store():
            return inner(hostname, port, rank, world_size, timeout, use_libuv)
        server = socket.create_server(("127.0.0.1", port))
        return rendezvous.TCPStore(
            host_name="127.0.0.1",
            port=server.getsockname()[1],
            world_size=world_size,
            is_master=True,
            timeout=timeout,
            multi_tenant=True,
            use_libuv=use_libuv,
            master_listen_fd=server.detach(),
        )

    create.on_loopback = True  # type: ignore[attr-defined]
    rendezvous._create_c10d_store = create
