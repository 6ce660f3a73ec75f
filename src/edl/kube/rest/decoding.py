"""Decodes what the Kubernetes API sends: single objects, pages of a list, lines of a watch.

Decoding is into the caller's type and so costs only the fields that type names. An object that does not fit its type
must not hide the others: it is handed on as Malformed, with the metadata needed to say which one it is.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Generic, Literal, get_args

import msgspec
from typing_extensions import TypeVar

from edl.kube.rest.errors import ApiError, ConnectionLostError, Status

T = TypeVar("T", default=dict[str, Any])
Verb = Literal["ADDED", "MODIFIED", "DELETED"]
VERBS = frozenset(get_args(Verb))
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
    type: Verb
    object: T


class Bookmark(msgspec.Struct, frozen=True):
    version: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. `next` is the continue token, empty on the last page."""

    items: list[T]
    version: str
    next: str = ""
    malformed: list[Malformed] = []


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _Named(msgspec.Struct):
    metadata: Identity = Identity()


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    """Building a decoder costs far more than using it, so there is one per type."""
    found = _decoders.get(wanted)
    if found is None:
        found = _decoders[wanted] = msgspec.json.Decoder(wanted)
    return found


def decode(body: bytes | bytearray | msgspec.Raw, wanted: type[T]) -> T:
    """To Kubernetes null means absent, to most types it does not: what does not fit is tried without its nulls."""
    answer: T
    try:
        answer = decoder(wanted).decode(body)
    except msgspec.ValidationError:
        answer = decoder(wanted).decode(msgspec.json.encode(_without_nulls(msgspec.json.decode(body))))
    return answer


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value


def decode_page(body: bytes | bytearray, wanted: type[T]) -> Page[T]:
    generic: Any = _List
    try:
        page = decoder(generic[wanted]).decode(body)
        items = page.items or []
        malformed: list[Malformed] = []
    except msgspec.ValidationError:
        page = decoder(generic[msgspec.Raw]).decode(body)
        items, malformed = _one_by_one(page.items or [], wanted)
    return Page(items, page.metadata.resource_version, page.metadata.continue_, malformed)


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


async def whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes | memoryview]:
    """What each chunk completes, up to a line's end; an unfinished last line is dropped: its event will come again."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if not chunk:  # the stream has begun: that is passed on
            yield chunk
        if end:
            head = memoryview(chunk)[:end]  # no copy: this is most of what a busy watch moves through memory
            yield b"".join((*rest, head)) if rest else head
            rest, size = [], 0
        if end < len(chunk):
            rest.append(chunk[end:])
            size += len(chunk) - end
            if size > LONGEST_LINE:
                raise ConnectionLostError(f"a line of the watch is longer than {LONGEST_LINE} bytes")


class LineDecoder(Generic[T]):
    """Lines of a watch. Raises ApiError for an ERROR event, ConnectionLostError for what is no event at all."""

    def __init__(self, wanted: type[T]) -> None:
        generic: Any = Event
        self._wanted = wanted
        self._typed: msgspec.json.Decoder[Event[T]] = msgspec.json.Decoder(generic[wanted])

    def decode(self, data: bytes | memoryview) -> Iterable[Event[T] | Bookmark | Malformed]:
        """All at once, as nearly always possible; else one by one, so that the good ones before a bad one count."""
        try:
            return self._typed.decode_lines(data)
        except msgspec.DecodeError:
            return (self._one(line) for line in bytes(data).split(b"\n") if line)

    def _one(self, line: bytes) -> Event[T] | Bookmark | Malformed:
        try:
            event = decoder(_Line).decode(line)
            if event.type == "BOOKMARK":
                return Bookmark(decode(event.object, _Named).metadata.resource_version)
            if event.type == "ERROR":
                raise ApiError(decode(event.object, Status))
        except msgspec.DecodeError as error:
            raise ConnectionLostError(f"a line of the watch is no event: {error}") from error
        if event.type not in VERBS:
            raise ConnectionLostError(f"the watch sent an event of type {event.type!r}, which is unknown")
        try:
            return Event(event.type, decode(event.object, self._wanted))
        except msgspec.ValidationError as error:
            return Malformed(event.type, _identity(event.object), str(error))
