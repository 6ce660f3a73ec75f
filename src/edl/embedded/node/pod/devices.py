"""GPUs as counted tokens. A pod holds its tokens until it is finished, through restarts of its containers."""


class Devices:
    """`first` sets the nodes of one machine apart: two nodes with four GPUs each hold 0-3 and 4-7."""

    def __init__(self, count: int, *, first: int = 0) -> None:
        self._free = list(range(first, first + count))
        self._held: dict[tuple[str, str], list[int]] = {}

    def take(self, pod: str, container: str, count: int) -> list[int]:
        """The tokens of a container, the same ones when it asks again. ValueError if there are not enough."""
        held = self._held.get((pod, container), [])
        if len(held) >= count:
            return held[:count]
        if len(self._free) < count - len(held):
            raise ValueError(f"{count} devices wanted, {len(self._free)} are free")
        while len(held) < count:
            held.append(self._free.pop(0))
        self._held[pod, container] = held
        return held

    def give_back(self, pod: str) -> None:
        for key in [key for key in self._held if key[0] == pod]:
            self._free += self._held.pop(key)
        self._free.sort()
