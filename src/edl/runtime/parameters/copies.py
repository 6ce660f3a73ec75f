"""Copies of checkpoint files between parameter servers, in parts, so that a file outlives the disk of its server.

A server sends each file that it saves to the next one, and fetches a file that it does not have from whoever does. On
a volume that servers share nothing is sent: the other one has the file already. A part is written in place; the file
gets its name when it is complete and its digest is right.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from edl.runtime.parameters import checkpoint
from edl.runtime.parameters.checkpoint import Bytes, DamagedCheckpointError, ShardFile
from edl.runtime.parameters.messages import CopyPart, FetchPart, Offer, Part, Wanted
from edl.runtime.rpc import Client, Nothing, RefusalError

log = logging.getLogger(__name__)

PART = 1 << 25
TIMEOUT = 60.0  # seconds for one part


class UnreachableCopyError(Exception):
    """Nobody who answers has the file, but not all have answered."""


class Copies:
    """The checkpoint files of one server, as other servers see them."""

    def __init__(self, directory: Path, token: str) -> None:
        self._directory, self._token = directory, token

    def send(self, address: str, epoch: int, file: ShardFile) -> None:
        """Returns when the server at `address` has the file. OSError, RefusalError: it may not."""
        data = file.read(self._directory)
        client = Client(address, self._token, timeout=TIMEOUT)
        try:
            offer = Offer(epoch, file.number, file.shard, file.shards, checkpoint.digest_of(data))
            if not client.call(offer, Wanted).wanted:
                return
            for offset in range(0, len(data), PART):
                last = offset + PART >= len(data)
                message = CopyPart(epoch, file.number, file.shard, file.shards, offset, last)
                client.call(message, Nothing, [data[offset : offset + PART].data])
        finally:
            client.close()

    def fetch(self, addresses: Iterable[str], file: ShardFile) -> checkpoint.Contents:
        """The contents of the file from the first server that has it."""
        silent = ""
        for address in addresses:
            try:
                if (data := self._fetch(address, file)) is not None:
                    log.info("%s comes from the parameter server at %s", file, address)
                    return checkpoint.decode(data, str(file))
            except DamagedCheckpointError as error:
                log.warning("the copy at %s: %s", address, error)
            except (OSError, RefusalError) as error:
                silent = f"{address}: {error}"
        if silent:
            raise UnreachableCopyError(f"{file} is on no parameter server that answers; {silent}")
        raise DamagedCheckpointError(f"{file} is on no parameter server that is left, nor is a copy of it")

    def has(self, file: ShardFile, digest: bytes) -> bool:
        try:
            return file.stored_digest(self._directory) == digest
        except OSError:
            return False

    def write_part(self, file: ShardFile, offset: int, last: bool, data: memoryview) -> None:
        draft = file.path(self._directory).with_suffix(".copy")
        draft.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("r+b" if offset else "wb") as out:
            out.seek(offset)
            out.write(data)
        if last:
            checkpoint.adopt(draft, file, self._directory)

    def read_part(self, file: ShardFile, offset: int) -> tuple[int, bytes]:
        """The size of the file and a part of it; 0 and nothing if it is not here."""
        try:
            with file.path(self._directory).open("rb") as found:
                size = found.seek(0, 2)
                found.seek(offset)
                return size, found.read(PART)
        except OSError:
            return 0, b""

    def _fetch(self, address: str, file: ShardFile) -> Bytes | None:
        client = Client(address, self._token, timeout=TIMEOUT)
        try:
            data, at = np.zeros(0, np.uint8), 0
            while True:
                client.send(FetchPart(file.number, file.shard, file.shards, at))
                part, size = client.receive(Part)
                if not at:
                    data = np.empty(part.file_size, np.uint8)
                if at + size > len(data) or (not size and part.file_size):
                    raise DamagedCheckpointError(f"{file} changed while it was read")
                client.into(data[at : at + size].data)
                at += size
                if at == len(data):
                    return data if at else None
        finally:
            client.close()
