"""Content negotiation: the form of a response (plain JSON, YAML, a Table, metadata alone)."""

from functools import lru_cache

import msgspec

from edl.embedded.server import status

SUPPORTED = ("application/json", "application/yaml")


class Form(msgspec.Struct, frozen=True):
    """`shape` is "", Table, PartialObjectMetadata or PartialObjectMetadataList; `version` that of meta.k8s.io."""

    shape: str = ""
    version: str = "v1"
    yaml: bool = False

    @property
    def content_type(self) -> str:
        return "application/yaml" if self.yaml else "application/json"


PLAIN = Form()


@lru_cache(maxsize=128)
def negotiate(accept: str, shapes: tuple[str, ...] = ()) -> Form:
    """The first clause of an Accept header that can be served. `shapes` are the transformations this endpoint knows."""
    if not accept or accept == "application/json":
        return PLAIN
    for clause in accept.split(","):
        media, _, rest = clause.strip().partition(";")
        parameters = dict(item.strip().partition("=")[::2] for item in rest.split(";") if item.strip())
        form = _form(media.strip(), parameters, shapes)
        if form is not None:
            return form
    raise status.not_acceptable(SUPPORTED)


def _form(media: str, parameters: dict[str, str], shapes: tuple[str, ...]) -> Form | None:
    yaml = media == "application/yaml"
    if media not in ("application/json", "application/*", "*/*") and not yaml:
        return None
    shape = parameters.get("as", "")
    if not shape:
        return Form(yaml=yaml)
    if shape in shapes and parameters.get("g") == "meta.k8s.io" and parameters.get("v") in ("v1", "v1beta1"):
        return Form(shape, parameters["v"], yaml)
    return None
