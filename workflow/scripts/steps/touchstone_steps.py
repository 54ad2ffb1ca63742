"""Lets Touchstone measure the loop of a script.

    from touchstone_steps import steps

    for images, labels in steps(loader, examples=64):
        loss = train_step(images, labels)

Without Touchstone `steps` returns the loader itself, so that the script is what it was. This file
needs nothing but Python 3.6; a copy beside a script works as well. docs/programs.md has the rest.
"""

import sys
from typing import Any, Callable, Optional, Union

Examples = Union[int, Callable[[Any], int]]


def _measuring() -> Any:
    """What measures this process; None in one that nobody measures."""
    runner = sys.modules.get("touchstone.runner.program")
    return getattr(runner, "LOOP", None)


def steps(iterable: Any, examples: Examples = 1, wait: Optional[Callable[[], Any]] = None) -> Any:
    """The iterable, whose every item is a step: from one request for an item to the next.

    Args:
        examples: of a step: a number, or a function of the item, as `lambda batch: len(batch[0])`,
            where the last batch may be shorter.
        wait: a function that returns when the device has done all steps. Without it Touchstone
            waits for PyTorch, TensorFlow, MXNet and JAX as far as the script has imported them.
    """
    loop = _measuring()
    return iterable if loop is None else _Steps(iterable, examples, wait, loop)


class _Steps:
    """The iterable of a script that is measured, with its length and its attributes."""

    def __init__(self, iterable: Any, examples: Examples, wait: Any, loop: Any) -> None:
        self._parts = iterable, examples, wait, loop

    def __len__(self) -> int:
        return len(self._parts[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parts[0], name)

    def __iter__(self) -> Any:
        iterable, examples, wait, loop = self._parts
        left = loop.open(wait)  # steps until somebody wants to know how many were done
        done = total = 0
        try:
            for item in iterable:
                count = examples(item) if callable(examples) else examples
                yield item
                done += 1
                total += count
                if done == left:
                    left = loop.advance(done, total)
                    done = total = 0
                loop.doing = done
        finally:
            loop.close(done, total)


def report(loss: Any = None, accuracy: Any = None) -> None:
    """Have the report show a loss, or an accuracy from 0 to 1, beside those of other scripts.

    Args:
        loss, accuracy: of what the script likes; numbers, or what `float` makes numbers of, which
            may wait for the device.
    """
    loop = _measuring()
    if loop is not None:
        numbers = (None if value is None else float(value) for value in (loss, accuracy))
        loop.report(*numbers)


def step_callback(examples: Any = 1, wait: Optional[Callable[[], Any]] = None) -> Any:
    """A callback of Keras's `fit` that counts training steps: `callbacks=[step_callback(64)]`.

    Args:
        examples: of a step.
        wait: as of `steps`.
    """
    for name in ("keras", "tensorflow.keras", "tf_keras"):
        keras = sys.modules.get(name)
        if keras is not None:
            break
    else:
        raise ImportError("step_callback: import Keras before it is called")
    loop = _measuring()
    if loop is None:
        return keras.callbacks.Callback()

    class StepCallback(keras.callbacks.Callback):  # type: ignore
        """Counts by Keras's number of the batch, which may grow by several at once."""

        left = done = seen = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            """The training loop of an epoch begins."""
            self.left, self.done, self.seen = loop.open(wait), 0, -1

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Some steps were done."""
            self.done += batch - self.seen
            self.seen = batch
            if self.done >= self.left:
                self.left = loop.advance(self.done, self.done * examples)
                self.done = 0

        def on_test_begin(self, logs: Any = None) -> None:
            """The training loop of an epoch has ended: validation begins."""
            loop.close(self.done, self.done * examples)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            """It has ended without a validation."""
            loop.close(self.done, self.done * examples)

    return StepCallback()
