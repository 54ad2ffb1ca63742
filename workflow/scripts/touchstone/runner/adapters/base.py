"""What the runner calls of a framework's adapter. An adapter prints nothing.

An adapter is a folder: `capabilities.py`, which imports nothing of the framework, and `adapter.py`
with a class `Adapter` of the kind below that it can be. What is optional has a default here.

Where the job's `execution` has several `replicas`, they train one model. With "devices", the
adapter splits every batch evenly over them; with "processes", each gets its share, and finds its
place in `job.group`. Losses are means over all replicas, `threads` those of one replica, and
`settings` has the `replicas` at work and the batch size of all. With several `nodes` each has
`replicas`, in processes with a rank or as devices of one; `settings` then has the `nodes` at work.
"""

from abc import ABC, abstractmethod
from typing import Any, Dict, List, Optional, Sequence, Tuple

from touchstone.runner.job import Job
from touchstone.schema.capabilities import Capabilities
from touchstone.schema.events import Software
from touchstone.schema.profile import StepTrace
from touchstone.schema.types import Array


class Adapter(ABC):
    """One framework, for one run of basic operations.

    The constructor imports nothing more. It raises NotImplementedError with the reason if the job
    asks for what the framework cannot do here.
    """

    capabilities: Capabilities

    @abstractmethod
    def __init__(self, job: Job, threads: int) -> None: ...

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all that the device was given."""

    @abstractmethod
    def matrix_products(self, a: Array, b: Array) -> Tuple[Array, Array]:
        """The product of float64 matrices in the precision of the network, as training computes
        it: by the framework's matrix product, and by its 1 x 1 convolution; arrays of the type of
        the weights."""

    @abstractmethod
    def software(self) -> Software:
        """The framework, its version, and those of the libraries that it uses."""

    def device_memory_peak(self) -> Optional[float]:
        """MiB that the framework's allocator had at most, or None."""
        return None

    @abstractmethod
    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether that exception means that memory ran out."""

    def unsupported_reason(self, error: Exception) -> Optional[str]:
        """The reason, where that exception means that the framework cannot do what the job asks
        for; else None."""
        return None

    def make_deterministic(self) -> None:
        """Before all else: have the framework use its deterministic algorithms, seeded; `settings`
        must then have `deterministic`, a boolean."""
        name = self.__module__.split(".")[-2]
        raise NotImplementedError("{} cannot be made deterministic here".format(name))

    def extra_settings(self) -> Dict[str, Any]:
        """Settings that this adapter adds to those of the job, such as the layout: `settings` must
        give back these values. None: it reports the setting and accepts any value."""
        return {}

    def differs(self, device: str) -> Tuple[str, ...]:
        """Sentences on where a run on that device has not what the framework does by itself."""
        return self.capabilities.differs.get(device, ())

    def hints(self) -> List[str]:
        """What may be faster on this machine but is not the framework's own choice: sentences that
        the report shows below its answer."""
        return []


class InferenceAdapter(Adapter):
    """One framework, for one run that predicts."""

    @abstractmethod
    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        """All records of the files `shards` + their suffix, in stored order: uint8 images
        (examples, height, width, channels), and labels. Of a photo ("encoding": "jpeg") its middle,
        decoded with the exact transform and turned by no EXIF tag."""

    @abstractmethod
    def build(self, weights: Dict[str, Array]) -> None:
        """The network, from float32 arrays in canonical layout; running statistics of batch
        normalisation are among them."""

    @abstractmethod
    def prepare(self, images: Array) -> Any:
        """float32 images (examples, height, width, channels) in host memory as `predict` takes
        them: slices of what it returns are batches."""

    @abstractmethod
    def predict(self, batch: Any) -> Any:
        """Begin to compute the network's output of a batch in evaluation mode, without what
        training needs; returns a handle at once if it can."""

    @abstractmethod
    def fetch_outputs(self, handle: Any) -> Array:
        """Wait for it; the output in host memory, array (batch, classes)."""

    @abstractmethod
    def inference_settings(self) -> Dict[str, Any]:
        """The effective settings of prediction, read back."""


class TrainingAdapter(InferenceAdapter):
    """One framework, for one run that trains, and whose network also predicts.

    What has a default raises NotImplementedError with the reason, which makes a run that needs it
    `unsupported`.
    """

    def prepare(self, images: Array) -> Any:
        raise NotImplementedError("this adapter does not predict")

    def predict(self, batch: Any) -> Any:
        raise NotImplementedError("this adapter does not predict")

    def fetch_outputs(self, handle: Any) -> Array:
        raise NotImplementedError("this adapter does not predict")

    def inference_settings(self) -> Dict[str, Any]:
        raise NotImplementedError("this adapter does not predict")

    def open_records(self, shards: Sequence[str]) -> int:
        """Where the input is "records", before `build`: the training set, left in its record files.

        Checks every record, raises ValueError with the file's name if it is damaged, and returns
        their number."""
        raise NotImplementedError("this adapter has its examples in memory only")

    def fetch_records(self, indices: Array) -> Any:
        """The records that were opened, for int64 indices (steps, batch size), as `train` takes
        them; runs beside other calls."""
        raise NotImplementedError("this adapter has its examples in memory only")

    def close_records(self) -> None:
        """After training: close the files that were opened, for not all can be read twice at a
        time."""

    @abstractmethod
    def load_examples(self, images: Array, labels: Array) -> None:
        """Put the training set, float32 as in `prepare`, where steps take it from."""

    @abstractmethod
    def train_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> Any:
        """Begin one step for each row of int64 indices (steps, batch size) into the training set
        that was loaded, of neighbours where the input is "synthetic"; or, where it was opened, one
        for each batch of a list of what `fetch` gave.

        Where the job has a `rest`, a batch of so many examples comes in a call of its own.
        Each has its learning rate, float64 (steps,), and, where the job augments, int32 draws
        (steps, batch size, 3): see `batches.BatchSampler`. Returns a handle at once if it can."""

    @abstractmethod
    def losses(self, handle: Any) -> Array:
        """Wait for these steps; their mean losses, float array (steps,)."""

    def why_no_profile(self) -> Optional[str]:
        """Why there is no profile of layers, known before `build`; None where there is one."""
        return "{}'s adapter has no profile of layers".format(self.__module__.split(".")[-2])

    def profile_steps(self, batches: Any, rates: Array, draws: Optional[Array]) -> StepTrace:
        """Do the steps of `train_steps` under the framework's own profiler, wait for them, and
        return its records of the graph's layers. No measured run calls it."""
        raise NotImplementedError(self.why_no_profile())

    @abstractmethod
    def logits(self, images: Array) -> Array:
        """The network's output in evaluation mode, array (batch, classes)."""

    @abstractmethod
    def weights(self) -> Dict[str, Array]:
        """The present weights, in canonical layout."""

    def velocities(self) -> Dict[str, Array]:
        """Only with momentum: v of v = m v + g, in canonical layout; after the first step it is the
        gradient, decay and penalties included."""
        raise NotImplementedError("this adapter has no momentum")

    def set_masks(self, masks: Dict[str, Array]) -> None:
        """Only where the job has `supplied_masks`: what the dropout layers multiply by in the
        steps to come, float32 arrays (batch size,) + shape of the layer."""
        if masks:
            raise NotImplementedError("this adapter has no dropout")

    @abstractmethod
    def settings(self) -> Dict[str, Any]:
        """The effective settings of training, read back from the live framework."""
