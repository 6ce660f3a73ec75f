"""The order of samples in an epoch: a function of seed and epoch alone, whoever asks and however many there are."""

from typing import Any

import torch
from torch.utils.data import RandomSampler, SequentialSampler

from edl.torch.data.random_numbers import own_random_numbers, seed_of


def order_of(sampler: Any, samples: int, seed: int, epoch: int) -> list[int]:
    """As the loader's own sampler would draw it; any other sampler is drawn once, with the seed of the epoch."""
    drawn = seed_of(seed, epoch)
    if isinstance(sampler, SequentialSampler):
        return list(range(samples))
    if isinstance(sampler, RandomSampler) and not sampler.replacement and sampler.num_samples == samples:
        return torch.randperm(samples, generator=torch.Generator().manual_seed(drawn)).tolist()  # type: ignore[no-any-return]  # torch has no types here
    with own_random_numbers() as set_seed:
        set_seed(drawn)
        if getattr(sampler, "generator", None) is not None:
            sampler.generator.manual_seed(drawn)
        return [int(index) for index in sampler]
