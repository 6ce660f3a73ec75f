"""Bytes of the Kubernetes API into objects: single ones, pages of a list, lines of a watch.

Decoding is into the caller's type and so costs only the fields that type names. An object that does not fit its type
must not hide the others: it is handed on as Malformed, with the metadata needed to say which one it is.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from .errors import ApiError, ConnectionLostError, Status

T = TypeVar("T", default=dict[str, Any])
LONGEST_LINE = 64 * 2**20  # etcd takes 1.5 MB; beyond this the stream is not a watch


class Identity(msgspec.Struct, frozen=True, rename="camel"):
    """The part of any object's metadata that says which object, and which version of it, this is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Malformed(msgspec.Struct, frozen=True):
    """An object that does not fit the type asked for, and why. `type` is empty for an item of a list."""

    type: str
    identity: Identity
    error: str


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """`type` is ADDED, MODIFIED or DELETED."""

    type: str
    object: T


class Bookmark(msgspec.Struct, frozen=True):
    version: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. `next` is the continue token, empty on the last page."""

    items: list[T]
    version: str
    next: str = ""
    remaining: int | None = None
    malformed: list[Malformed] = []


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _Named(msgspec.Struct):
    metadata: Identity = Identity()


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Building a decoder costs far more than using it, so there is one per type."""
    found = _decoders.get(wanted)
    if found is None:
        found = _decoders[wanted] = msgspec.json.Decoder(wanted)
    return found


def decode(body: bytes | msgspec.Raw, wanted: type[T]) -> T:
    """To Kubernetes null means absent, to most types it does not: what does not fit is tried without its nulls."""
    answer: T
    try:
        answer = decoder(wanted).decode(body)
    except msgspec.ValidationError:
        answer = msgspec.convert(_without_nulls(msgspec.json.decode(body)), wanted)
    return answer


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value


def decode_page(body: bytes, wanted: type[T]) -> Page[T]:
    generic: Any = _List
    try:
        page = decoder(generic[wanted]).decode(body)
        items = page.items or []
        malformed: list[Malformed] = []
    except msgspec.ValidationError:
        page = decoder(generic[msgspec.Raw]).decode(body)
        items, malformed = _one_by_one(page.items or [], wanted)
    meta = page.metadata
    return Page(items, meta.resource_version, meta.continue_, meta.remaining_item_count, malformed)


def _one_by_one(raws: list[msgspec.Raw], wanted: type[T]) -> tuple[list[T], list[Malformed]]:
    items: list[T] = []
    malformed: list[Malformed] = []
    for raw in raws:
        try:
            items.append(decode(raw, wanted))
        except msgspec.ValidationError as error:
            malformed.append(Malformed("", _identity(raw), str(error)))
    return items, malformed


def _identity(raw: msgspec.Raw) -> Identity:
    try:
        return msgspec.json.decode(raw, type=_Named).metadata
    except msgspec.ValidationError:
        return Identity()


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Complete lines, as many as each chunk completes. An unfinished last one is dropped: its event will come again."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        if not chunk:  # the stream is open
            yield []
            continue
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            whole = b"".join((*rest, head)) if rest else head
            rest, size = [tail] if tail else [], len(tail)
            yield whole.split(b"\n")
        else:
            rest.append(tail)
            size += len(tail)
            if size > LONGEST_LINE:
                raise ConnectionLostError(f"a line of the watch is longer than {LONGEST_LINE} bytes")


class LineDecoder(Generic[T]):
    """One line of a watch. Raises ApiError for an ERROR event, ConnectionLostError for what is no event at all."""

    def __init__(self, wanted: type[T]) -> None:
        generic: Any = Event
        self._wanted = wanted
        self._typed: msgspec.json.Decoder[Event[T]] = msgspec.json.Decoder(generic[wanted])

    def decode(self, batch: list[bytes]) -> Iterator[Event[T] | Bookmark | Malformed]:
        typed = self._typed.decode
        for line in batch:
            if not line:
                continue
            try:
                event = typed(line)
            except msgspec.DecodeError as error:  # ValidationError is one
                yield self._rare(line, str(error))
                continue
            if event.type == "MODIFIED" or event.type == "ADDED" or event.type == "DELETED":
                yield event
            else:
                yield self._rare(line, f"unknown event type {event.type!r}")

    def _rare(self, line: bytes, error: str) -> Event[T] | Bookmark | Malformed:
        try:
            event = decoder(Event[msgspec.Raw]).decode(line)
            if event.type == "BOOKMARK":
                return Bookmark(decode(event.object, _Named).metadata.resource_version)
            if event.type == "ERROR":
                raise ApiError(decode(event.object, Status))
        except msgspec.DecodeError as broken:
            raise ConnectionLostError(f"a line of the watch is no event: {broken}") from broken
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise ConnectionLostError(error)
        try:
            return Event(event.type, decode(event.object, self._wanted))
        except msgspec.ValidationError as unfit:
            return Malformed(event.type, _identity(event.object), str(unfit))
