"""MXNet as Gluon's tutorials write it: a hybridised block, a `DataLoader`, and a `Trainer`.

What augments images is that of the style `tuned`.
"""

from typing import Any, List, Optional

import numpy as np
from mxnet import autograd, gluon

from touchstone.runner.adapters.mxnet import adapter
from touchstone.schema.types import Array, Arrays


class Adapter(adapter.Adapter):
    def build(self, weights: Arrays) -> None:
        super().build(weights)
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def _hybridize(self) -> None:
        self.block = self.network
        super()._hybridize()

    def load_examples(self, images: Array, labels: Array) -> None:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)
        examples = gluon.data.ArrayDataset(images, labels.astype(np.float32))
        self.order: List[List[int]] = []
        # Made once, as a user does: making one takes 40 ms, for it collects garbage.
        self.loader = gluon.data.DataLoader(examples, batch_sampler=self.order)

    def why_no_profile(self) -> Optional[str]:
        return "of plain code only PyTorch's has a profile of layers"

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses = []
        self.order[:] = batches.tolist()
        for i, (images, labels) in enumerate(self.loader):
            images = images.as_in_context(self.context)
            labels = labels.as_in_context(self.context)
            if draws is not None:
                images = self._augmented(images, draws[i], self.context)
            with autograd.record():
                loss = self.loss(self.network(images), labels)
            loss.backward()
            self._update(float(rates[i]), len(batches[i]))
            losses.append([loss.mean().reshape(1)])
        self.last = [images]
        return losses
