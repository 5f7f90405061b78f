"""Training with Accelerate: a small network learns the labels that a fixed random one gives to random points."""

import argparse
import re

import svc
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from svc.integrations.accelerate import SvcTracker, save_state
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CLASSES = 16, 4


def data(size=2048):
    source = torch.Generator().manual_seed(0)
    points = torch.randn(size, FEATURES, generator=source)
    teacher = torch.randn(FEATURES, CLASSES, generator=source)
    return DataLoader(TensorDataset(points, (points @ teacher).argmax(dim=1)), batch_size=64, shuffle=True)


def main():
    parser = argparse.ArgumentParser(description="Train a small network with Accelerate.")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the data (5)")
    options = parser.parse_args()

    set_seed(0)
    # Told so, several ranks on a CPU train together; else each would train alone.
    accelerator = Accelerator(log_with=SvcTracker(), cpu=not torch.cuda.is_available())
    accelerator.init_trackers("svc")
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, data())

    done = 0
    latest = svc.latest_checkpoint()
    if latest is not None:
        accelerator.load_state(latest)
        done = int(re.search(r"\d+$", latest)[0])
        accelerator.print("continuing after epoch {} from {}".format(done, latest))
    for epoch in range(done + 1, options.epochs + 1):
        for points, labels in loader:
            loss = nn.functional.cross_entropy(model(points), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.log({"loss": accelerator.reduce(loss.detach(), "mean")}, step=epoch)
        accelerator.print("epoch {}  loss {:.4f}".format(epoch, loss.item()))
        save_state(accelerator, "epoch-{:04d}".format(epoch), step=epoch)
    accelerator.end_training()


if __name__ == "__main__":
    main()
