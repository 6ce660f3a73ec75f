"""Custom resources: schemas, pruning, defaults, subresources, versions, and the definitions themselves."""

import asyncio

import pytest

from tests.conformance.defining import define
from tests.conformance.samples import DEFINITIONS, GADGETS, Object, definition, gadget, made
from tests.conformance.trace import TABLE, Trace


def place(t: Trace, name: str = "") -> str:
    return f"{t.group(f'{GADGETS}/v1')}/gadgets" + (f"/{name}" if name else "")


async def test_create_prunes_and_defaults(t: Trace) -> None:
    await define(t, definition(GADGETS))
    body = gadget(unknown=1, free={"any": 1}, keyed=[{"k": "a", "zz": 1}], nested={}, maybe=None, mode=None)
    await t.post(place(t), {**body, "status": {"replicas": 5}, "extra": 1}, code=201)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"replicas": "x"}, id="string-for-integer"),
        pytest.param({"replicas": 0}, id="too-small"),
        pytest.param({"replicas": 9}, id="too-large"),
        pytest.param({"mode": "c"}, id="enum"),
        pytest.param({"title": "A"}, id="too-short"),
        pytest.param({"title": "abcdefgh"}, id="too-long"),
        pytest.param({"title": "AB"}, id="pattern"),
        pytest.param({"list": []}, id="too-few"),
        pytest.param({"list": ["a", "b", "c"]}, id="too-many"),
        pytest.param({"list": ["a", 1]}, id="wrong-item"),
        pytest.param({"list": "a"}, id="string-for-list"),
        pytest.param({"keyed": [{"k": "a"}, {"k": "a"}]}, id="duplicate-key"),
        pytest.param({"keyed": [{"v": 1}]}, id="missing-key"),
        pytest.param({"set": ["a", "a"]}, id="duplicate-element"),
        pytest.param({"either": 1.5}, id="neither-integer-nor-string"),
        pytest.param({"either": "50%"}, id="either"),
        pytest.param({"map": {"a": "x"}}, id="wrong-value"),
        pytest.param({"when": "x"}, id="date"),
        pytest.param({"number": "x"}, id="string-for-number"),
        pytest.param({"number": 1}, id="integer-is-a-number"),
        pytest.param({"flag": "true"}, id="string-for-bool"),
        pytest.param({"one": {}}, id="none-of"),
        pytest.param({"one": {"x": "1", "y": "1"}}, id="two-of"),
        pytest.param({"free": []}, id="list-for-object"),
        pytest.param({"title": None}, id="null"),
    ],
)
async def test_schema(t: Trace, spec: Object) -> None:
    await define(t, definition(GADGETS))
    await t.post(
        place(t),
        gadget(**spec),
        query={"dryRun": "All"},
        view=lambda found: found.get("spec", found) if found.get("kind") == "Gadget" else found,
    )


async def test_every_problem_is_named(t: Trace) -> None:
    await define(t, definition(GADGETS))
    body = gadget(mode="c", title="A", list=[], keyed=[{}])
    await t.post(
        place(t), body, view=lambda found: sorted(cause["field"] for cause in found["details"]["causes"]), code=422
    )


async def test_required_fields(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.post(place(t), made("Gadget", "g", f"{GADGETS}/v1"), code=422)
    await t.post(place(t), made("Gadget", "g", f"{GADGETS}/v1", spec={}), code=422)


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
async def test_unknown_fields(t: Trace, mode: str) -> None:
    await define(t, definition(GADGETS))
    body = gadget(foo=1, free={"z": 1}, keyed=[{"k": "a", "zz": 1}])
    await t.post(place(t), body, query={"fieldValidation": mode, "dryRun": "All"}, show="spec")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": {"name": "x"}, "spec": {"replicas": 1}}, id="no-kind"),
        pytest.param(made("Gizmo", "x", f"{GADGETS}/v1"), id="other-kind"),
        pytest.param(made("Gadget", "x", f"{GADGETS}/v2"), id="other-version"),
        pytest.param(made("Gadget", "X", f"{GADGETS}/v1", spec={"replicas": 1}), id="bad-name"),
    ],
)
async def test_refused_bodies(t: Trace, body: Object) -> None:
    await define(t, definition(GADGETS))
    await t.post(place(t), body)


async def test_replacement_needs_a_version(t: Trace) -> None:
    await define(t, definition(GADGETS))
    first = await t.make(place(t), gadget())
    await t.put(place(t, "g"), gadget(replicas=2), code=422)
    await t.put(place(t, "g"), {**first, "spec": {"replicas": 3}}, code=200)
    await t.put(place(t, "g"), {**first, "spec": {"replicas": 4}}, code=409)


async def test_status_and_generation(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.make(place(t), gadget())
    view = lambda found: [found["metadata"]["generation"], found["spec"], found.get("status")]  # noqa: E731
    await t.patch(
        place(t, "g/status"),
        {"status": {"replicas": 3, "junk": 1}, "spec": {"replicas": 5}, "metadata": {"labels": {"a": "b"}}},
        view=view,
        code=200,
    )
    await t.patch(place(t, "g"), {"status": {"replicas": 9}}, view=view, code=200)
    await t.patch(place(t, "g"), {"spec": {"replicas": 2}}, view=view, code=200)
    await t.patch(place(t, "g"), {"metadata": {"labels": {"a": "b"}}}, view=view, code=200)
    await t.patch(place(t, "g/status"), {"status": {"replicas": "x"}}, code=422)


async def test_scale(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.make(place(t), gadget(replicas=2))
    await t.get(place(t, "g/scale"), code=200)
    await t.patch(place(t, "g/scale"), {"spec": {"replicas": 3}}, code=200)
    await t.patch(place(t, "g/status"), {"status": {"replicas": 2, "selector": "a=b"}}, show="status", code=200)
    await t.get(place(t, "g/scale"), code=200)
    await t.patch(place(t, "g/scale"), {"spec": {"replicas": 99}}, code=422)
    await t.patch(place(t, "g/scale"), {"spec": {"replicas": -1}}, code=422)


@pytest.mark.parametrize("kind", ["strategic", "application/json"])
async def test_unsupported_patches(t: Trace, kind: str) -> None:
    await define(t, definition(GADGETS))
    await t.make(place(t), gadget())
    await t.patch(place(t, "g"), {"spec": {"replicas": 2}}, kind, code=415)


async def test_json_patch(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.make(place(t), gadget())
    await t.patch(
        place(t, "g"), [{"op": "replace", "path": "/spec/replicas", "value": 4}], "json", show="spec", code=200
    )
    await t.patch(place(t, "g"), [{"op": "test", "path": "/spec/replicas", "value": 7}], "json", code=422)
    await t.patch(place(t, "g"), [{"op": "remove", "path": "/spec/replicas"}], "json", code=422)


async def test_list_items_name_their_kind(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.make(place(t), gadget())
    await t.get(place(t), code=200)


async def test_table(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.make(place(t), gadget())
    await t.get(place(t), accept=TABLE, code=200)


async def test_delete_answers_a_status(t: Trace) -> None:
    await define(t, definition(GADGETS))
    await t.make(place(t), gadget())
    await t.delete(place(t, "g"), code=200)
    await t.get(place(t, "g"), code=404)


async def test_two_versions_show_one_object(t: Trace) -> None:
    crd = definition("versions.edl.dev", "things", "Thing")
    first = crd["spec"]["versions"][0]
    crd["spec"]["versions"].append({**first, "name": "v1alpha1", "storage": False})
    await define(t, crd)
    base = t.group("versions.edl.dev/v1alpha1")
    await t.post(f"{base}/things", made("Thing", "x", "versions.edl.dev/v1alpha1", spec={"replicas": 1}), code=201)
    await t.get(
        f"{t.group('versions.edl.dev/v1')}/things/x", view=lambda found: [found["apiVersion"], found["spec"]], code=200
    )
    await t.get("/apis/versions.edl.dev", view=lambda found: found, code=200)


async def _is_established(t: Trace) -> bool:
    _, found, _ = await t.send("GET", f"{DEFINITIONS}/boxes.complete.edl.dev")
    return [one["status"] for one in found["status"]["conditions"] or ()] == ["True", "True"]


async def test_definition_is_completed(t: Trace) -> None:
    crd = definition("complete.edl.dev", "boxes", "Box")
    del crd["spec"]["names"]["shortNames"]
    await t.post(DEFINITIONS, crd, show="spec.names", code=201)
    async with asyncio.timeout(30):
        # Kubernetes accepts its names, installs it and tells of it in three steps.
        while not (await _is_established(t) and (await t.send("GET", "/apis/complete.edl.dev/v1"))[0] == 200):
            await asyncio.sleep(0.05)
    await t.get(f"{DEFINITIONS}/boxes.complete.edl.dev", show="status", code=200)
    await t.get(
        "/apis/complete.edl.dev/v1",
        view=lambda found: [{**entry, "storageVersionHash": ""} for entry in found["resources"]],
        code=200,
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"name": "wrong.bad.edl.dev"}}, id="name"),
        pytest.param({"spec": {"scope": "Galaxy"}}, id="scope"),
        pytest.param({"spec": {"versions": []}}, id="no-versions"),
    ],
)
async def test_refused_definitions(t: Trace, change: Object) -> None:
    crd = definition("bad.edl.dev", "bads", "Bad")
    for key, value in change.items():
        crd[key] = {**crd[key], **value}
    await t.post(
        DEFINITIONS,
        crd,
        view=lambda found: [found["code"], found["reason"], sorted(c["field"] for c in found["details"]["causes"])],
        code=422,
    )


async def test_definition_needs_a_schema(t: Trace) -> None:
    crd = definition("bad.edl.dev", "bads", "Bad")
    del crd["spec"]["versions"][0]["schema"]
    await t.post(DEFINITIONS, crd, code=422)


async def test_deleting_a_definition_deletes_its_objects(t: Trace) -> None:
    crd = definition("going.edl.dev", "goers", "Goer")
    await define(t, crd)
    await t.make(f"{t.group('going.edl.dev/v1')}/goers", made("Goer", "g", "going.edl.dev/v1", spec={"replicas": 1}))
    await t.send("DELETE", f"{DEFINITIONS}/goers.going.edl.dev")
    async with asyncio.timeout(60):
        while (await t.send("GET", f"{DEFINITIONS}/goers.going.edl.dev"))[0] != 404:
            await asyncio.sleep(0.1)
    async with asyncio.timeout(60):
        while (await t.send("GET", "/apis/going.edl.dev/v1/goers"))[0] != 404:
            await asyncio.sleep(0.1)
    await define(t, crd)
    await t.get(f"{t.group('going.edl.dev/v1')}/goers", show="items", code=200)
