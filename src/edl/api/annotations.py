"""Names of the annotations that users write on jobs and namespaces, and what may stand under them.

Labels and annotations that EDL itself writes are in `edl.api.labels`.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from edl.api.kubernetes import duration
from edl.api.kubernetes.names import dns_subdomain_problem
from edl.api.schema.nearest import suggestion
from edl.api.schema.problem import Path, Problem, warning

PREFIX = "edl.dev/"
PRIORITY = "edl.dev/priority"
FREEZING_WINDOW = "edl.dev/freezing-window"
PAUSE = "edl.dev/pause"
PIN = "edl.dev/pin"
ADMISSION = "edl.dev/admission"
SIZES = "edl.dev/sizes"
STALL_TIMEOUT = "edl.dev/stall-timeout"
STALLED_AFTER = "edl.dev/stalled-after"
FAIL_FAST = "edl.dev/fail-fast"
CODE = "edl.dev/code"  # the ConfigMaps that hold the code of `edl run`
RESTORED_FROM = "edl.dev/restored-from"  # written by `edl backup`: the uid under which the job has its checkpoints
RUNTIME = "edl.dev/runtime"  # where the workers' EDL comes from
SCRIPT = "edl.dev/script"  # what `edl run` was given, so that it knows its job again
SCALE_REQUEST = "edl.dev/scale-request"  # written by `edl scale` and `edl resume`
MAX_PRIORITY = "edl.dev/max-priority"  # of a namespace

OF_JOBS = (
    PRIORITY,
    FREEZING_WINDOW,
    PAUSE,
    PIN,
    ADMISSION,
    SIZES,
    STALL_TIMEOUT,
    STALLED_AFTER,
    FAIL_FAST,
    SCALE_REQUEST,
    CODE,
    RUNTIME,
)

LEVELS = {"Experiment": 10, "Experiement": 10, "Offline": 100, "Normal": 1000, "Production": 10000}
NORMAL = LEVELS["Normal"]
_MAX_SIZES = 1000
MAX_PARTS = 15


def priority(value: str | int) -> int:
    """The number of a level's name, or the number itself; ValueError says what is wrong."""
    if isinstance(value, str):
        if value in LEVELS:
            return LEVELS[value]
        if not value.isascii() or not value.isdecimal() or len(value) > 10:
            raise ValueError(f'"{value[:40]}": wants Experiment, Offline, Normal, Production or a positive number')
    number = int(value)
    if not 1 <= number < 2**31:
        raise ValueError(f"{number}: wants a positive number below 2^31, or Experiment, Offline, Normal, Production")
    return number


def sizes(text: str) -> tuple[int, ...]:
    """The sizes of `"1,2,4,8"`, ascending; ValueError says what is wrong."""
    parts = text.split(",")
    if len(parts) > _MAX_SIZES:
        raise ValueError(f"{len(parts)} sizes, at most {_MAX_SIZES} are allowed")
    found = set()
    for part in parts:
        digits = part.strip()
        if not digits.isascii() or not digits.isdecimal() or len(digits) > 7 or int(digits) < 1:
            raise ValueError(f'"{text[:40]}": wants positive numbers with commas between them, such as 1,2,4,8')
        found.add(int(digits))
    return tuple(sorted(found))


def scale_request(text: str) -> int | None:
    """The size of `5@TIME`; None of `none@TIME`, which ends a hold. The time makes each request another one."""
    size, at, _ = text.partition("@")
    if at and size == "none":
        return None
    if not at or not size.isascii() or not size.isdecimal() or len(size) > 7:
        raise ValueError(f'"{text[:40]}": wants SIZE@TIME or none@TIME, as `edl scale` and `edl resume` write it')
    return int(size)


class CodeParts(msgspec.Struct, frozen=True):
    """The ConfigMaps `<name>-0`, `<name>-1`... hold an archive in their key `part`; `digest` is its SHA-256."""

    name: str
    count: int
    digest: str

    @property
    def names(self) -> list[str]:
        return [f"{self.name}-{index}" for index in range(self.count)]

    def __str__(self) -> str:
        return f"{self.name} {self.count} {self.digest}"


def code(text: str) -> CodeParts:
    """Of `NAME COUNT DIGEST`; ValueError says what is wrong."""
    name, _, rest = text.partition(" ")
    count, _, digest = rest.partition(" ")
    if not count.isascii() or not count.isdecimal() or not 1 <= int(count[:4]) <= MAX_PARTS:
        raise ValueError(f'"{text[:40]}": wants NAME COUNT DIGEST as `edl run` writes it, COUNT 1 to {MAX_PARTS}')
    if problem := dns_subdomain_problem(f"{name}-{count}"):
        raise ValueError(f'"{name[:40]}": the name of ConfigMaps {problem}')
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError(f'"{digest[:40]}": wants the SHA-256 of the code, 64 digits of 0-9a-f')
    return CodeParts(name, int(count), digest)


def runtime(text: str) -> str:
    if text not in ("carried", "image"):
        raise ValueError(f'"{text[:40]}": wants carried (an init container brings it) or image (the image has it)')
    return text


def restored_from(text: str) -> str:
    """It names a folder of checkpoints, so it is a uid and nothing else."""
    if not re.fullmatch("[0-9A-Za-z][-0-9A-Za-z]{0,62}", text):
        raise ValueError(f'"{text[:40]}": wants the uid that the job had, as `edl backup` writes it')
    return text


def flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f'"{text[:40]}": wants "true" or "false"')
    return text == "true"


def fails_fast(annotations: Mapping[str, str]) -> bool:
    """Whether a script that cannot work ends the job before its retries are used up."""
    return annotations.get(FAIL_FAST, SCRIPT) != "false"


def admission(text: str) -> str:
    if text not in ("hold", "create"):
        raise ValueError(f'"{text[:40]}": wants hold or create')
    return text


_READERS: dict[str, Callable[[str], object]] = {
    PRIORITY: priority,
    FREEZING_WINDOW: duration.nanoseconds,
    PAUSE: flag,
    PIN: flag,
    ADMISSION: admission,
    SIZES: sizes,
    STALL_TIMEOUT: duration.nanoseconds,
    STALLED_AFTER: duration.nanoseconds,
    FAIL_FAST: flag,
    SCRIPT: str,
    CODE: code,
    RUNTIME: runtime,
    RESTORED_FROM: restored_from,
    SCALE_REQUEST: scale_request,
}


def problems(annotations: Mapping[str, str], at: Path) -> Iterator[Problem]:
    """What is wrong with the `edl.dev/` annotations of a job."""
    for name, text in annotations.items():
        reader = _READERS.get(name)
        if reader is None:
            if name.startswith(PREFIX):
                yield warning((*at, name), f"EDL knows no such annotation{suggestion(name, OF_JOBS)}")
            continue
        try:
            value = reader(text)
        except ValueError as error:
            yield Problem((*at, name), str(error))
        else:
            if name in (FREEZING_WINDOW, STALLED_AFTER) and isinstance(value, int) and value < 0:
                yield Problem((*at, name), f"{text} is negative; a duration is 0 or more")
            if name == STALL_TIMEOUT and isinstance(value, int) and value <= 0:
                yield Problem((*at, name), f"{text} is no time; give the longest silence that is no stall, such as 5m")
