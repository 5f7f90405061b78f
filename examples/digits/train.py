"""Learn to read handwritten digits, in plain Python: a network with one hidden layer, trained by gradient descent.

No package is needed. Under `svc` its metrics are charted and its checkpoints kept; by hand it does the same work:

    python3 train.py --epochs 40 --seed 0 --lr 0.3
"""

import argparse
import csv
import gzip
import json
import os
import random
import time
from math import exp, log

try:
    import svc  # there when a control plane runs this
except ImportError:
    import plain as svc  # the few functions that are needed, without the package

HERE = os.path.dirname(os.path.abspath(__file__))
PIXELS, CLASSES = 64, 10
BATCH = 16
TEST_SHARE = 5  # every fifth image is kept for testing


def load():
    """The images as (pixels from 0 to 1, digit), split into training and test in the order of the file."""
    with gzip.open(os.path.join(HERE, "digits.csv.gz"), "rt", encoding="ascii") as file:
        rows = [[int(float(cell)) for cell in row] for row in csv.reader(file)]
    images = [([pixel / 16 for pixel in row[:PIXELS]], row[PIXELS]) for row in rows]
    test = images[::TEST_SHARE]
    training = [image for index, image in enumerate(images) if index % TEST_SHARE]
    return training, test


class Network:
    """64 pixels -> hidden units (tanh) -> 10 scores (softmax). Weights are rows, the last entry of a row is its bias."""

    def __init__(self, hidden, source):
        self.first = [[source.gauss(0, (1 / PIXELS) ** 0.5) for _ in range(PIXELS)] + [0.0] for _ in range(hidden)]
        self.second = [[source.gauss(0, (1 / hidden) ** 0.5) for _ in range(hidden)] + [0.0] for _ in range(CLASSES)]

    def forward(self, pixels):
        """The hidden values and the probability of each digit."""
        inputs = pixels + [1.0]
        hidden = [1 - 2 / (exp(2 * sum(map(times, row, inputs))) + 1) for row in self.first]
        inputs = hidden + [1.0]
        scores = [sum(map(times, row, inputs)) for row in self.second]
        top = max(scores)
        weights = [exp(score - top) for score in scores]
        total = sum(weights)
        return hidden, [weight / total for weight in weights]

    def learn(self, batch, rate):
        """One step of gradient descent; the sum of the losses and the number of right answers before it."""
        first_step = [[0.0] * len(row) for row in self.first]
        second_step = [[0.0] * len(row) for row in self.second]
        columns = list(zip(*self.second))
        loss, right = 0.0, 0
        for pixels, digit in batch:
            hidden, chances = self.forward(pixels)
            loss -= log(max(chances[digit], 1e-12))
            right += chances.index(max(chances)) == digit
            wrong = chances[:]
            wrong[digit] -= 1
            inputs = hidden + [1.0]
            for row, error in zip(second_step, wrong):
                row[:] = [old + error * value for old, value in zip(row, inputs)]
            inputs = pixels + [1.0]
            for row, value, column in zip(first_step, hidden, columns):
                error = (1 - value * value) * sum(map(times, wrong, column))
                row[:] = [old + error * pixel for old, pixel in zip(row, inputs)]
        scale = rate / len(batch)
        for rows, steps in ((self.first, first_step), (self.second, second_step)):
            for row, step in zip(rows, steps):
                row[:] = [weight - scale * change for weight, change in zip(row, step)]
        return loss, right

    def accuracy(self, images):
        """The share of images that are read right."""
        right = 0
        for pixels, digit in images:
            chances = self.forward(pixels)[1]
            right += chances.index(max(chances)) == digit
        return right / len(images)


def times(a, b):
    return a * b


def main():
    options = arguments()
    training, test = load()
    print("{} images to learn from, {} to test on".format(len(training), len(test)))
    network = Network(options.hidden, random.Random(options.seed))
    done = resume(network)
    for epoch in range(done + 1, options.epochs + 1):
        began = time.perf_counter()
        # Each epoch has its own order, drawn from the seed: a resumed run goes on as if it had never stopped.
        order = training[:]
        random.Random(options.seed * 1_000_003 + epoch).shuffle(order)
        rate = options.lr / (1 + 0.05 * (epoch - 1))
        loss, right = 0.0, 0
        for start in range(0, len(order), BATCH):
            batch_loss, batch_right = network.learn(order[start : start + BATCH], rate)
            loss += batch_loss
            right += batch_right
        values = {
            "loss": loss / len(training),
            "train_accuracy": right / len(training),
            "test_accuracy": network.accuracy(test),
            "seconds_per_epoch": time.perf_counter() - began,
        }
        print(
            "epoch {:2d}/{}  loss {:.4f}  test accuracy {:.2f} %".format(
                epoch, options.epochs, values["loss"], 100 * values["test_accuracy"]
            )
        )
        svc.log(values, step=epoch)
        if epoch % options.save_every == 0 or epoch == options.epochs:
            save(network, epoch)
    final = network.accuracy(test)
    print("final test accuracy: {:.2f} % after {} epochs".format(100 * final, max(done, options.epochs)))


def arguments():
    parser = argparse.ArgumentParser(description="Train a small network to read handwritten digits.")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training images (40)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same result (0)")
    parser.add_argument("--lr", type=float, default=0.3, help="learning rate (0.3)")
    parser.add_argument("--hidden", type=int, default=32, help="hidden units (32)")
    parser.add_argument("--save-every", type=int, default=5, metavar="EPOCHS", help="epochs between checkpoints (5)")
    options = parser.parse_args()
    for name in ("epochs", "hidden", "save_every"):
        if getattr(options, name) < 1:
            parser.error("--{} must be at least 1".format(name.replace("_", "-")))
    return options


def resume(network):
    """Loads the latest checkpoint where there is one that fits; the number of epochs that it stands for."""
    path = svc.latest_checkpoint()
    if path is None:
        return 0
    with open(path, encoding="ascii") as file:
        saved = json.load(file)
    if len(saved["first"]) != len(network.first):
        print("{} has another number of hidden units: starting afresh".format(path))
        return 0
    network.first, network.second = saved["first"], saved["second"]
    print("continuing after epoch {} from {}".format(saved["epoch"], path))
    return saved["epoch"]


def save(network, epoch):
    weights = {"epoch": epoch, "first": network.first, "second": network.second}
    with svc.atomic_save("weights-{:03d}.json".format(epoch), step=epoch) as path:
        with open(path, "w", encoding="ascii") as file:
            json.dump(weights, file)
    print("saved weights-{:03d}.json".format(epoch))


if __name__ == "__main__":
    main()
