"""Lists: selectors, pages, and which revision they show."""

import pytest

from tests.conformance.samples import Object, config, pod
from tests.conformance.trace import Trace


def names(found: Object) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


async def three(t: Trace) -> None:
    for name, labels in (("a", {"app": "x"}), ("b", {"app": "y", "n": "5"}), ("c", {"tier": "z"})):
        await t.make(f"{t.core}/secrets", {"metadata": {"name": name, "labels": labels}})


async def test_list_of_nothing(t: Trace) -> None:
    await t.get(f"{t.core}/secrets", code=200)


async def test_items_of_built_in_lists_have_no_kind(t: Trace) -> None:
    await three(t)
    await t.get(f"{t.core}/secrets", code=200)


@pytest.mark.parametrize(
    "selector",
    [
        "app=x",
        "app==x",
        "app!=x",
        "app",
        "!app",
        "app in (x,y)",
        "app notin (x)",
        "app in (x),tier",
        "n>4",
        "n<5",
        "app=",
        "",
        "tier = z",
        "a b",
        "=b",
        "app in x",
        "app in (x",
        "app=x,",
        "-bad-",
        "app=-bad-",
        "n>x",
        "app=a b",
        ",",
        "app=x,,tier",
        "ex.com/a=b",
        "a/b/c=d",
    ],
)
async def test_label_selector(t: Trace, selector: str) -> None:
    await three(t)
    await t.get(
        f"{t.core}/secrets",
        query={"labelSelector": selector},
        view=lambda found: names(found) if "items" in found else found,
    )


@pytest.mark.parametrize(
    "selector",
    [
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.name=a,metadata.namespace=nowhere",
        "type=Opaque",
        "type!=Opaque",
        "metadata.labels.app=x",
        "abc",
        "metadata.name==b",
        "metadata.name in (a)",
    ],
)
async def test_field_selector(t: Trace, selector: str) -> None:
    await three(t)
    await t.get(
        f"{t.core}/secrets",
        query={"fieldSelector": selector},
        view=lambda found: names(found) if "items" in found else found,
    )


@pytest.mark.parametrize(
    "selector",
    [
        "spec.nodeName=",
        "spec.nodeName!=",
        "status.phase=Pending",
        "spec.restartPolicy=Never",
        "spec.host=x",
        "spec.hostNetwork=false",
    ],
)
async def test_pod_field_selector(t: Trace, selector: str) -> None:
    await t.make(f"{t.core}/pods", pod("a"))
    await t.make(f"{t.core}/pods", pod("b", nodeName="n", restartPolicy="Never"))
    await t.get(
        f"{t.core}/pods",
        query={"fieldSelector": selector},
        view=lambda found: names(found) if "items" in found else found,
        code=200,
    )


async def test_pages_show_one_snapshot(t: Trace) -> None:
    await three(t)
    first = await t.get(
        f"{t.core}/secrets",
        query={"limit": "2"},
        view=lambda f: [names(f), f["metadata"].get("remainingItemCount"), bool(f["metadata"].get("continue"))],
        code=200,
    )
    await t.make(f"{t.core}/secrets", {"metadata": {"name": "d"}})
    await t.send("DELETE", f"{t.core}/secrets/c")
    _, rest, _ = await t.send(
        "GET", f"{t.core}/secrets", query={"limit": "2", "continue": first["metadata"]["continue"]}
    )
    assert names(rest) == ["c"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_pages_with_a_selector_do_not_count_the_rest(t: Trace) -> None:
    await three(t)
    await t.get(
        f"{t.core}/secrets",
        query={"limit": "1", "labelSelector": "app"},
        view=lambda f: [names(f), f["metadata"].get("remainingItemCount")],
        code=200,
    )


@pytest.mark.parametrize(
    "query",
    [
        {"continue": "abc"},
        {"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJ4In0"},
        {"limit": "abc"},
        {"resourceVersion": "abc"},
        {"resourceVersion": "99999999"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Sometimes", "resourceVersion": "1"},
        {"sendInitialEvents": "true"},
    ],
    ids=lambda query: "-".join(f"{key}={value[:8]}" for key, value in query.items()),
)
async def test_refused_list_options(t: Trace, query: dict[str, str]) -> None:
    await t.get(f"{t.core}/secrets", query=query)


async def test_not_older_than(t: Trace) -> None:
    made = await t.make(f"{t.core}/secrets", {"metadata": {"name": "a"}})
    version = made["metadata"]["resourceVersion"]
    for match in ("", "NotOlderThan"):
        _, found, _ = await t.send(
            "GET",
            f"{t.core}/secrets",
            query={"resourceVersion": version, "resourceVersionMatch": match}
            if match
            else {"resourceVersion": version},
        )
        assert names(found) == ["a"]
    await t.get(f"{t.core}/secrets", query={"resourceVersion": "0"}, view=names, code=200)


async def test_exact_revision_shows_the_past(t: Trace) -> None:
    first = await t.make(f"{t.core}/secrets", {"metadata": {"name": "a"}})
    await t.make(f"{t.core}/secrets", {"metadata": {"name": "b"}})
    query = {"resourceVersion": first["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
    code, found, _ = await t.send("GET", f"{t.core}/secrets", query=query)
    assert (code, names(found)) == (200, ["a"])
    assert found["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_get_at_a_future_revision(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config("a"))
    await t.get(f"{t.core}/configmaps/a", query={"resourceVersion": "99999999"}, code=504)


async def test_list_metadata_only(t: Trace) -> None:
    await three(t)
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    await t.get(f"{t.core}/secrets", query={"labelSelector": "tier"}, accept=accept, code=200)


async def test_get_metadata_only(t: Trace) -> None:
    await t.make(f"{t.core}/configmaps", config("a", x="y"))
    await t.get(
        f"{t.core}/configmaps/a", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", code=200
    )
