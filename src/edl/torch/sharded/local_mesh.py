"""The mesh of this pod's workers, over which a script shards its model: it lives as long as they do.

They meet without the rendezvous of the job, which is about pods: the first of them opens a store and tells the others
its port on a socket whose name only workers of the same agent know. In the group that they form there, which is torch's
default one, no other pod ever takes part.
"""

import os
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore, PrefixStore, TCPStore

from edl.runtime.torch.lines import LINK, Lines, connect
from edl.torch.refusal import NotElasticError
from edl.torch.sharded.siblings import PATIENCE, PodSiblings

HOST = "127.0.0.1"
COME = 600.0  # seconds that the workers of a pod may take until all are there
LOOK = 0.02
_made: tuple[Any, PodSiblings] | None = None


def local_mesh(device: str = "", env: Mapping[str, str] = os.environ) -> Any:
    """The same one at every call."""
    global _made
    if _made is None:
        from torch.distributed.device_mesh import init_device_mesh  # takes its time, and few need it

        kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
        rank, size = int(env.get("LOCAL_RANK", "0")), int(env.get("LOCAL_WORLD_SIZE", "1"))
        store = _meet(rank, size, env)
        backend = "gloo" if kind == "cpu" else f"cpu:gloo,{kind}:nccl"
        dist.init_process_group(backend, store=PrefixStore("group", store), rank=rank, world_size=size)
        mesh = init_device_mesh(kind, (size,), mesh_dim_names=("pod",))
        dist.all_reduce(torch.zeros(1, device=kind))  # connects now: later, its sockets might be taken for a round's
        _made = mesh, PodSiblings(PrefixStore("siblings", store), rank, size)
    return _made[0]


def siblings() -> PodSiblings | None:
    """None if there is no mesh."""
    return _made[1] if _made is not None else None


def is_local(mesh: Any) -> bool:
    return _made is not None and bool(mesh == _made[0])


def _meet(rank: int, size: int, env: Mapping[str, str]) -> Any:
    """A store of their own."""
    if dist.is_initialized():
        raise NotElasticError(
            "torch.distributed is initialised already: leave out init_process_group(), for local_mesh() makes the "
            "group of this pod's workers"
        )
    if size == 1:
        return HashStore()
    if LINK not in env:
        if env.get("WORLD_SIZE") != str(size):
            raise NotElasticError("local_mesh() outside of a job is for one machine: take init_device_mesh()")
        store, _, _ = next(iter(dist.rendezvous("env://", rank, size)))
        return PrefixStore("edl/mesh", store)
    name, _, token = env[LINK].partition(":")
    return _open(f"{name}-mesh", token, size - 1) if rank == 0 else _reach(f"{name}-mesh", token)


def _open(name: str, token: str, others: int) -> TCPStore:
    """By the first worker, which waits until all others have asked."""
    store = TCPStore(HOST, 0, is_master=True, wait_for_workers=False, timeout=PATIENCE)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(64)
        listener.settimeout(COME)
        while others:
            connection, _ = listener.accept()
            lines = Lines(connection)
            if secrets.compare_digest(str(next(lines.received(), {}).get("token")), token):
                lines.send("port", port=store.port)
                others -= 1
            lines.close()
    return store


def _reach(name: str, token: str) -> TCPStore:
    end = time.monotonic() + COME
    while True:
        try:
            lines = connect(name)
            lines.send("hello", token=token)
            port = next(lines.received(), {}).get("port")
            lines.close()
            if port:
                return TCPStore(HOST, int(port), is_master=False, wait_for_workers=False, timeout=PATIENCE)
        except OSError:  # it does not listen yet
            if time.monotonic() > end:
                raise
        time.sleep(LOOK)
