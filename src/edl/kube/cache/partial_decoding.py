"""Decodes only the parts of an object that an event changed: nearly all events change the status and nothing else.

An object is decoded partially first: its labels, owners and spec are still the server's bytes. Bytes equal to those of
the cached version get the values of that version: nothing is built, compared or freed, and no index is updated. Other
bytes are decoded at once, so that what does not fit its type is noticed as it arrives. Then the partial object becomes
the object.

Whether the bytes are equal is decided by a hash of 64 bits with a key of this process alone (SipHash; do not set
PYTHONHASHSEED). Chance would need 2^64 changes of one object to hit the hash of its last version, and nobody can aim
who does not know the key.
"""

from sys import intern
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import FieldInfo, fields

from edl.kube.cache.objects import Object
from edl.kube.rest.decoding import decode, decoder

T = TypeVar("T", bound=Object)
_MOST = 1 << 16  # lists of owners; beyond so many they are forgotten, as to have each once saves nothing then


class PartialDecoder(Generic[T]):
    """`type` is what to decode into, and `complete` makes an object of `kind` of that. Use `for_kind`."""

    def __init__(self, kind: type[T], meta: type[Any], labels: FieldInfo, owners: FieldInfo, spec: FieldInfo) -> None:
        self._kind, self._meta = kind, meta
        self._labels, self._owners, self._spec = labels, owners, spec
        self._read_labels, self._read_spec = decoder(labels.type).decode, decoder(spec.type).decode
        self._known_owners: dict[bytes, Any] = {}
        self.type: Any = _partial_type(kind, spec, metadata=_partial_type(meta, labels, owners))

    @classmethod
    def for_kind(cls, kind: type[T]) -> "PartialDecoder[T] | None":
        """None for a kind without a spec, or with a `__post_init__`, which would meet bytes in a partial object."""
        struct: Any = kind
        found = {field.name: field for field in fields(struct)}
        meta = found["metadata"].type
        found |= {f"metadata.{field.name}": field for field in fields(meta)}
        parts = [found[path] for path in ("metadata.labels", "metadata.owner_references", "spec") if path in found]
        if len(parts) < 3 or hasattr(kind, "__post_init__") or hasattr(meta, "__post_init__"):
            return None
        return cls(kind, meta, *parts)

    def complete(self, partial: Any, old: T | None, known: int | None) -> int:
        """Makes `partial` a whole object. Returns the hash of its bytes: `known` if they are those of `old`.

        Raises msgspec.ValidationError.
        """
        meta = partial.metadata
        digest = hash(b"\0".join((meta.labels, meta.owner_references, partial.spec)))
        if digest == known:
            whole: Any = old
            before = whole.metadata
            meta.name, meta.namespace = before.name, before.namespace
            meta.labels, meta.owner_references, partial.spec = before.labels, before.owner_references, whole.spec
        else:
            self._decode(partial, meta)
        meta.__class__ = self._meta
        partial.__class__ = self._kind
        return digest

    def _decode(self, partial: Any, meta: Any) -> None:
        """The same few namespaces, labels and owners are all over a cluster: each is kept once."""
        try:
            labels, partial.spec = self._read_labels(meta.labels), self._read_spec(partial.spec)
        except msgspec.DecodeError:
            labels, partial.spec = _decode_part(meta.labels, self._labels), _decode_part(partial.spec, self._spec)
        if type(labels) is dict:
            for key, text in labels.items():
                labels[key] = intern(text)
        data, known = bytes(meta.owner_references), self._known_owners
        owners = known.get(data)
        if owners is None:
            if len(known) >= _MOST:
                known.clear()
            owners = known[data] = _decode_part(data, self._owners)
        meta.namespace, meta.labels, meta.owner_references = intern(meta.namespace), labels, owners


def _partial_type(kind: type[Any], *parts: FieldInfo, **others: type[Any]) -> type[Any]:
    """A kind of the same layout (so that its objects can become ones of `kind`), with bytes in place of the parts."""
    raw = [(part.name, msgspec.Raw, msgspec.field(name=part.encode_name, default=msgspec.Raw())) for part in parts]
    return msgspec.defstruct(kind.__name__, [*raw, *others.items()], bases=(kind,), frozen=False, kw_only=True)


def _decode_part(data: bytes | msgspec.Raw, field: FieldInfo) -> Any:
    """Absent and null mean the default."""
    if bytes(data) not in (b"", b"null"):
        return decode(data, field.type)
    if field.required:
        raise msgspec.ValidationError(f"Object missing required field `{field.encode_name}`")
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
