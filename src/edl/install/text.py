"""Manifests as YAML that people and every parser can read: no anchors, fields in the order they were made in."""

from collections.abc import Iterable
from typing import Any

import yaml


class _Dumper(yaml.CSafeDumper):
    """Parts that two objects share, such as the schema of two versions, are written out in each."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def yaml_text(manifests: Iterable[dict[str, Any]]) -> str:
    text: str = yaml.dump_all(manifests, None, Dumper=_Dumper, sort_keys=False, width=120, explicit_start=True)
    return text
