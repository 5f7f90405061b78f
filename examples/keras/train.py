"""Training with Keras 3 on the PyTorch backend (or the one that KERAS_BACKEND names): a small network learns labels of points."""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras  # noqa: E402  reads the variable when it is imported
import numpy as np  # noqa: E402
from svc.integrations.keras import SvcCallback, load_latest  # noqa: E402

FEATURES, CLASSES = 16, 4


def data(size=2048):
    source = np.random.default_rng(0)
    points = source.standard_normal((size, FEATURES), dtype="float32")
    teacher = source.standard_normal((FEATURES, CLASSES), dtype="float32")
    return points, (points @ teacher).argmax(axis=1)


def build():
    model = keras.Sequential(
        [keras.Input((FEATURES,)), keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(CLASSES, activation="softmax")]
    )
    model.compile(keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser(description="Train a small network with Keras.")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the data (5)")
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    model, done = load_latest()
    if model is None:
        model = build()
    else:
        print("continuing after epoch", done)
    points, labels = data()
    model.fit(
        points, labels, batch_size=64, epochs=options.epochs, initial_epoch=done, verbose=2, callbacks=[SvcCallback()]
    )


if __name__ == "__main__":
    main()
