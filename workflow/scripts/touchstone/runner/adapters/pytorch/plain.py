"""PyTorch as its tutorials write it: a module, a `DataLoader`, and an optimiser of `torch.optim`.

Images stay in PyTorch's own layout, and the optimiser's kernels are those that PyTorch chooses.
What augments images is that of the style `tuned`.
"""

from typing import Any, Dict, Optional, Tuple

import torch
from torch.utils.data import DataLoader, TensorDataset

from touchstone.runner.adapters.pytorch import adapter
from touchstone.runner.adapters.pytorch.network import module_of
from touchstone.runner.job import Job
from touchstone.schema.types import Array


class Adapter(adapter.Adapter):
    fused = None

    def __init__(self, job: Job, threads: int) -> None:
        super().__init__(job, threads)
        torch.backends.cudnn.benchmark = False
        self.layout, self.channels_last = "NCHW", False

    def _module(self) -> Any:
        return module_of(self.job.network, self.job.supplied_masks, tuned=False)

    def differs(self, device: str) -> Tuple[str, ...]:
        return ()

    def extra_settings(self) -> Dict[str, Any]:
        return dict(super().extra_settings(), cudnn_benchmark=False)

    def load_examples(self, images: Array, labels: Array) -> None:
        images = images.transpose(0, 3, 1, 2)
        tensors = torch.from_numpy(images.copy()).to(self.dtype), torch.from_numpy(labels)
        self.examples = TensorDataset(*tensors)

    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        losses = []
        loader = DataLoader(
            self.examples, batch_sampler=batches.tolist(), pin_memory=self.device.type == "cuda"
        )
        for i, (images, labels) in enumerate(loader):
            images, labels = images.to(self.device), labels.to(self.device)
            if draws is not None:
                cut = torch.from_numpy(draws[i]).to(self.device, torch.int64)
                images = self._augmented(images, cut)
            self.optimizer.zero_grad()
            loss, logits = self.loss(images, labels)
            self.scaler.scale(loss).backward()
            self._update(float(rates[i]))
            losses.append(loss.detach())
        self._note(images, labels, loss, logits)
        return losses
