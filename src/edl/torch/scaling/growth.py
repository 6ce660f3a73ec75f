"""The batch of the present number of workers, the scale that the learning rate follows, and the noise of gradients."""

from collections.abc import Sequence

from edl.torch.cursor import Cursor
from edl.torch.scaling import noise_scale
from edl.torch.scaling.batch_rule import BatchRule, ramped
from edl.torch.scaling.noise_scale import NoiseScale


class Growth:
    """`most` is the largest global batch, where it grows with the workers; 0: there is none. `tuned` is the batch that
    the script asks for, 0 without a loader."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.most = self.tuned = self.batch = 0
        self.batches = 0
        """Of an epoch; 0 where nobody knows."""
        self.blind = False
        """No worker sees its own gradient as a whole."""
        self.noise = NoiseScale()

    def batch_of(self, tuned: int, workers: int) -> int:
        """The global batch of so many workers."""
        self.tuned, self.batch = tuned, BatchRule(self._cursor.base, self.most).batch(tuned, workers)
        return self.batch

    def committed(self) -> None:
        if self.tuned:
            self._cursor.scale = ramped(self._cursor.scale, self.batch / self.tuned)

    @property
    def measures(self) -> bool:
        """Whether the gradients of the present step are measured: the same on all workers."""
        return bool(self.tuned) and not self.blind and self._cursor.step % noise_scale.EVERY == 0

    def measured(self, sums: Sequence[float], of_batch: float, workers: int) -> None:
        """The first of the sums is the samples of the step, the last the squared norms of the workers' gradients."""
        whole = sums[0]
        self.noise.add(of_share=sums[-1] / workers, of_batch=of_batch, share=whole / workers, batch=whole)
