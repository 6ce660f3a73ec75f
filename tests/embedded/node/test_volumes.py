"""Volumes: what they hold, that they change as a whole, and what is refused."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edl.api.kubernetes.core import ConfigMap, Secret
from edl.embedded.node.pod.inputs import ConfigurationError, PodInputs
from edl.embedded.node.pod.types import Container, Pod, TokenSource, Volume
from edl.embedded.node.supervisor.sandbox import Mount
from edl.embedded.node.volumes import files_of, mounts_of, prepare, write_files

POD = msgspec.convert({"metadata": {"name": "p", "labels": {"app": "x"}}}, Pod)
FACTS = PodInputs(
    config_maps={"c": ConfigMap(data={"a": "1", "b": "2"}), "none": None},
    secrets={"s": Secret(data={"key": base64.b64encode(b"\x00secret").decode()})},
    tokens={TokenSource(path="token", expiration_seconds=3600): "abc"},
)


def volume(**fields: Any) -> Volume:
    return msgspec.convert({"name": "v", **fields}, Volume)


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ({"configMap": {"name": "c"}}, {"a": (b"1", 0o644), "b": (b"2", 0o644)}),
        ({"configMap": {"name": "c", "defaultMode": 256}}, {"a": (b"1", 0o400), "b": (b"2", 0o400)}),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "d/x", "mode": 384}]}}, {"d/x": (b"1", 0o600)}),
        ({"configMap": {"name": "none", "optional": True}}, {}),
        ({"secret": {"secretName": "s"}}, {"key": (b"\x00secret", 0o644)}),
        (
            {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"labels": (b'app="x"', 0o644)},
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"configMap": {"name": "c", "items": [{"key": "a", "path": "a"}]}},
                        {"secret": {"name": "s"}},
                        {"serviceAccountToken": {"path": "token"}},
                    ]
                }
            },
            {"a": (b"1", 0o644), "key": (b"\x00secret", 0o644), "token": (b"abc", 0o600)},
        ),
    ],
)
def test_what_a_volume_of_files_holds(source: dict[str, Any], files: dict[str, tuple[bytes, int]]) -> None:
    assert files_of(volume(**source), POD, FACTS) == files


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "x"}}, 'secret "x" not found'),
        ({"configMap": {"name": "c", "items": [{"key": "z", "path": "z"}]}}, "references non-existent key: z"),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../x"}]}}, "must be relative"),
        ({"hostPath": {"path": "/no/such/place", "type": "Directory"}}, "/no/such/place is not a Directory"),
        ({"persistentVolumeClaim": {"claimName": "x"}}, "not supported by process nodes"),
    ],
)
def test_what_is_refused(tmp_path: Path, source: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        prepare(volume(**source), POD, FACTS, tmp_path)


def test_an_empty_directory_is_kept_between_restarts(tmp_path: Path) -> None:
    path = prepare(volume(emptyDir={}), POD, FACTS, tmp_path)
    (path / "file").write_text("x")
    assert prepare(volume(emptyDir={}), POD, FACTS, tmp_path) == path
    assert (path / "file").read_text() == "x"


def test_host_paths(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    assert prepare(volume(hostPath={"path": str(fresh), "type": "DirectoryOrCreate"}), POD, FACTS, tmp_path) == fresh
    assert fresh.is_dir()
    assert prepare(volume(hostPath={"path": str(tmp_path)}), POD, FACTS, tmp_path) == tmp_path


def test_files_change_as_a_whole(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": (b"1", 0o644), "d/b": (b"1", 0o600)})
    before = (tmp_path / "..data").resolve()
    held = (tmp_path / "..data" / "a").resolve()
    write_files(tmp_path, {"a": (b"1", 0o644), "d/b": (b"1", 0o600)})
    assert (tmp_path / "..data").resolve() == before, "nothing changed, so nothing is touched"
    write_files(tmp_path, {"a": (b"2", 0o644), "c": (b"3", 0o644)})
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["a", "c"]
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "c").read_bytes()) == (b"2", b"3")
    assert not held.exists()
    assert not before.exists()


def test_mounts(tmp_path: Path) -> None:
    one = msgspec.convert(
        {
            "volumeMounts": [
                {"name": "v", "mountPath": "/data/"},
                {"name": "v", "mountPath": "/sub", "subPath": "x/y", "readOnly": True},
                {"name": "v", "mountPath": "/expr", "subPathExpr": "$(POD)"},
            ]
        },
        Container,
    )
    assert mounts_of(one, {"v": tmp_path}, {"POD": "p-0"}) == [
        Mount(str(tmp_path), "/data", False),
        Mount(str(tmp_path / "x/y"), "/sub", True),
        Mount(str(tmp_path / "p-0"), "/expr", False),
    ]
    assert (tmp_path / "x/y").is_dir()
    with pytest.raises(ConfigurationError, match="the pod has no volume of this name"):
        mounts_of(one, {}, {})


@pytest.mark.case("attack-low-data-tmp")
def test_containers_that_start_together_write_their_volume_at_once(tmp_path: Path) -> None:
    """Each with other contents, as when a ConfigMap changes meanwhile: none fails, and one of them holds."""
    place, versions = tmp_path / "v", [{"a": (f"{number}".encode() * 1000, 0o644)} for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            list(threads.map(lambda files: write_files(place, files), versions))
    assert (place / "a").read_bytes() in [files["a"][0] for files in versions]
    assert sorted(path.name for path in place.iterdir() if not path.name.startswith("..")) == ["a"]
    assert len(list(place.glob("..*"))) == 2, "the link and what it leads to"


@pytest.mark.case("attack-low-data-tmp")
def test_what_a_crash_left_of_a_volume_is_in_nobodys_way(tmp_path: Path) -> None:
    place = tmp_path / "v"
    write_files(place, {"a": (b"old", 0o644)})
    (place / "..data_tmp").symlink_to("nowhere")
    (place / "..123").mkdir()
    (place / "..123_tmp").symlink_to("..123")
    write_files(place, {"a": (b"new", 0o644)})
    assert (place / "a").read_bytes() == b"new"
    assert len(list(place.glob("..*"))) == 2
