"""Renders stored bodies: as they are, under another version, as Tables, or as metadata alone.

The plain form parses no JSON: a stored body gets its kind in front, a list is a join of bodies. All of it is JSON;
`yaml_aside.py` makes YAML of a response at its end.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from edl.embedded.server.http.media import Form
from edl.embedded.server.registry import Resource
from edl.embedded.server.storage.revisions import Entry
from edl.embedded.server.tables.table import PLAIN, Columns
from edl.embedded.server.verbs import event_conversion

OBJECT_SHAPES = ("Table", "PartialObjectMetadata")
LIST_SHAPES = ("Table", "PartialObjectMetadataList", "PartialObjectMetadata")

_ENDED = {
    phase: {"type": "Completed", "status": "True", "reason": phase, "message": text}
    for phase, text in {
        "Succeeded": "The pod has completed successfully.",
        "Failed": "The pod failed.",
    }.items()
}

encode = msgspec.json.encode
decode = msgspec.json.decode


class Renderer:
    """One per request: the resource, the negotiated form, and for Tables the columns and whether to include objects."""

    def __init__(
        self, resource: Resource, form: Form, columns: Columns | None = None, include: str = "Metadata"
    ) -> None:
        self.resource = resource
        self.form = form
        self._columns = columns
        self._include = include
        self.cache_key = (resource.api_version, form, include)

    def body(self, entry: Entry) -> bytes:
        """The object in plain JSON under this request's kind and apiVersion."""
        if event_conversion.needed(self.resource):
            return self.resource.render(event_conversion.outgoing(self.resource, entry.body))
        return self.resource.render(entry.body)

    def object(self, entry: Entry) -> bytes:
        if self.form.shape == "Table":
            return encode(self._table([entry], {"resourceVersion": str(entry.rv)}))
        if self.form.shape:
            return encode(self._metadata(entry))
        return self.body(entry)

    def list(self, entries: Sequence[Entry], meta: dict[str, Any]) -> bytes:
        if self.form.shape == "Table":
            return encode(self._table(entries, meta))
        if self.form.shape:
            items = [self._metadata(entry) for entry in entries]
            return encode(
                {
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": self._meta_version,
                    "metadata": meta,
                    "items": items,
                }
            )
        head = {"kind": self.resource.list_kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode(head)[:-1] + b',"items":[' + b",".join(self._items(entries)) + b"]}"

    def event(self, kind: str, entry: Entry, *, columns: bool = False) -> bytes:
        """One line of a watch. The first Table event of a watch carries the columns."""
        if self.form.shape == "Table":
            shown = encode(self._table([entry], {"resourceVersion": str(entry.rv)}, columns=columns))
        elif self.form.shape:
            shown = encode(self._metadata(entry))
        else:
            shown = self.body(entry)
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), shown)

    def bookmark(self, rv: int, *, initial_end: bool) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(rv), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        shown: dict[str, Any] = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        if self.form.shape == "Table":
            shown = {
                "kind": "Table",
                "apiVersion": self._meta_version,
                "metadata": {"resourceVersion": str(rv)},
                "columnDefinitions": None,
            }
            shown["rows"] = [
                {
                    "cells": [],
                    "object": {"kind": "PartialObjectMetadata", "apiVersion": self._meta_version, "metadata": meta},
                }
            ]
        elif self.form.shape:
            shown |= {"kind": "PartialObjectMetadata", "apiVersion": self._meta_version}
        return encode({"type": "BOOKMARK", "object": shown}) + b"\n"

    @property
    def _meta_version(self) -> str:
        return f"meta.k8s.io/{self.form.version}"

    def _items(self, entries: Iterable[Entry]) -> Iterable[bytes]:
        if self.resource.custom is not None:
            return (
                self.body(entry) for entry in entries
            )  # items of custom resources name their kind, built-in ones do not
        if event_conversion.needed(self.resource):
            return (event_conversion.outgoing(self.resource, entry.body) for entry in entries)
        return (entry.body for entry in entries)

    def _metadata(self, entry: Entry) -> dict[str, Any]:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": self._meta_version,
            "metadata": decode(entry.body)["metadata"],
        }

    def _table(self, entries: Sequence[Entry], meta: dict[str, Any], *, columns: bool = True) -> dict[str, Any]:
        assert self._columns is not None
        rows = []
        for entry in entries:
            body = decode(self.body(entry))
            row: dict[str, Any] = {"cells": self._columns.cells(body)}
            if self.resource.storage == "/pods" and body["status"].get("phase") in _ENDED:
                row["conditions"] = [_ENDED[body["status"]["phase"]]]
            if self._include == "Object":
                row["object"] = body
            elif self._include == "None":
                row["object"] = None
            else:
                row["object"] = {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": self._meta_version,
                    "metadata": body["metadata"],
                }
            rows.append(row)
        definitions = self._columns.definitions() if columns else None
        head = {"kind": "Table", "apiVersion": self._meta_version, "metadata": meta}
        return {**head, "columnDefinitions": definitions, "rows": rows or ([] if self._columns is not PLAIN else None)}
