"""Training with Lightning: a small network learns the labels that a fixed random one gives to random points."""

import argparse
import os

import svc
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from svc.integrations.lightning import SvcLogger, SvcStop
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CLASSES = 16, 4


class Network(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, CLASSES))

    def training_step(self, batch, _):
        points, labels = batch
        scores = self.layers(points)
        loss = nn.functional.cross_entropy(scores, labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        self.log("accuracy", (scores.argmax(dim=1) == labels).float().mean(), on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def data(size=2048):
    source = torch.Generator().manual_seed(0)
    points = torch.randn(size, FEATURES, generator=source)
    teacher = torch.randn(FEATURES, CLASSES, generator=source)
    return DataLoader(TensorDataset(points, (points @ teacher).argmax(dim=1)), batch_size=64, shuffle=True)


def main():
    parser = argparse.ArgumentParser(description="Train a small network with Lightning.")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the data (5)")
    options = parser.parse_args()

    seed_everything(0)
    trainer = Trainer(
        max_epochs=options.epochs,
        # As many processes as the launcher started; by hand, what Lightning finds.
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 0)) or "auto",
        num_nodes=int(os.environ.get("SVC_NUM_NODES", 1)),
        logger=SvcLogger(),
        callbacks=[ModelCheckpoint(dirpath=svc.checkpoint_dir(), save_last=True), SvcStop()],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    latest = svc.latest_checkpoint()
    if latest is not None:
        print("continuing from", latest)
    trainer.fit(Network(), data(), ckpt_path=latest)


if __name__ == "__main__":
    main()
