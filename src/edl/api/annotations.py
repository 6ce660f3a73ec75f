"""The names that users and other programs rely on, and what may stand under them."""

from collections.abc import Callable, Iterator, Mapping

from edl.api import duration
from edl.api.nearest import suggestion
from edl.api.problem import Path, Problem, warning

PREFIX = "edl.dev/"
PRIORITY = "edl.dev/priority"
FREEZING_WINDOW = "edl.dev/freezing-window"
PAUSE = "edl.dev/pause"
PIN = "edl.dev/pin"
ADMISSION = "edl.dev/admission"
SIZES = "edl.dev/sizes"
STALL_TIMEOUT = "edl.dev/stall-timeout"
MAX_PRIORITY = "edl.dev/max-priority"  # of a namespace

LABEL_JOB = "edl.dev/job"
LABEL_KIND = "edl.dev/kind"  # of the job: two kinds may each have one of the same name
LABEL_ROLE = "edl.dev/role"
LABEL_INDEX = "edl.dev/index"
LABEL_ATTEMPT = "edl.dev/attempt"

OF_JOBS = (PRIORITY, FREEZING_WINDOW, PAUSE, PIN, ADMISSION, SIZES, STALL_TIMEOUT)

LEVELS = {"Experiment": 10, "Experiement": 10, "Offline": 100, "Normal": 1000, "Production": 10000}
NORMAL = LEVELS["Normal"]
_MAX_SIZES = 1000


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


def flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f'"{text[:40]}": wants "true" or "false"')
    return text == "true"


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
            if name == FREEZING_WINDOW and isinstance(value, int) and value < 0:
                yield Problem((*at, name), f"{text} is negative; a duration is 0 or more")
            if name == STALL_TIMEOUT and isinstance(value, int) and value <= 0:
                yield Problem((*at, name), f"{text} is no time; give the longest silence that is no stall, such as 5m")
