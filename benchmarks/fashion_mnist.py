"""Accuracy and loss on Fashion-MNIST by d2l.ai's recipe, over several seeds.

    python benchmarks/fashion_mnist.py --seeds 5 [--folder FOLDER] [--download]

The recipe: 784-256-10, ReLU, normal weights of deviation 0.01, zero biases, SGD with a learning
rate of 0.1, minibatches of 256, 10 epochs.  The seed decides first weights and order.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from chainrule.examples.digits import evaluate, trainer_of
from chainrule.examples.fashion_mnist import FashionSettings, begin


def trained(seed: int, epochs: int, folder: str | None, download: bool) -> tuple[float, ...]:
    """Test accuracy, test loss, training loss, and seconds per epoch."""
    training = begin(FashionSettings(seed=seed, epochs=epochs), folder, download=download)
    trainer = trainer_of(training, progress=False)
    start = time.perf_counter()
    trainer.fit(epochs)
    seconds = (time.perf_counter() - start) / epochs
    parameters = trainer.state.parameters
    loss, accuracy = evaluate(training.forward, parameters, training.test)
    return accuracy, loss, evaluate(training.forward, parameters, training.train)[0], seconds


def spread(values: Sequence[float], digits: int) -> str:
    """`0.8490 (0.8431 to 0.8533)`."""
    mean = sum(values) / len(values)
    return f"{mean:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="d2l.ai's recipe on Fashion-MNIST")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 on")
    parser.add_argument("--epochs", type=int, default=FashionSettings.epochs)
    parser.add_argument("--folder", help="where the four IDX files are")
    parser.add_argument("--download", action="store_true", help="fetch them if they are nowhere")
    given = parser.parse_args()
    print("seed  test accuracy  test loss  training loss  seconds per epoch")
    found = []
    for seed in range(given.seeds):
        found.append(trained(seed, given.epochs, given.folder, given.download))
        accuracy, loss, training_loss, seconds = found[-1]
        print(
            f"{seed:4}  {accuracy:13.4f}  {loss:9.4f}  {training_loss:13.4f}  {seconds:17.2f}",
            flush=True,
        )
    accuracies, losses, _, seconds = zip(*found, strict=True)
    print(f"test accuracy  {spread(accuracies, 4)}")
    print(f"test loss      {spread(losses, 4)}")
    print(f"seconds        {spread(seconds, 2)} per epoch, validation included")


if __name__ == "__main__":
    main()
