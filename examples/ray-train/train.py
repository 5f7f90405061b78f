"""Data-parallel training with Ray Train. `RAY_ADDRESS` names the cluster; without it, a small one is started here.

The script runs once, on the head; its workers run where Ray puts them. What they record and save is theirs: `svc.log` is called
in the worker, and the worker of rank 0 writes the checkpoints of its own machine, which are brought home like any other.
"""

import argparse
import io

import ray
import svc
import torch
from ray.train import RunConfig, ScalingConfig, get_context
from ray.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, CLASSES = 16, 4


def data(size=2048):
    source = torch.Generator().manual_seed(0)
    points = torch.randn(size, FEATURES, generator=source)
    teacher = torch.randn(FEATURES, CLASSES, generator=source)
    return DataLoader(TensorDataset(points, (points @ teacher).argmax(dim=1)), batch_size=64, shuffle=True)


def work(config):
    """Runs in every worker."""
    rank = get_context().get_world_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    done = 0
    if config["start"] is not None:
        saved = torch.load(io.BytesIO(ray.get(config["start"])), map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["epoch"]
    wrapped = prepare_model(model)
    loader = prepare_data_loader(data())
    for state in optimizer.state.values():  # loaded on the CPU
        state.update({key: value.to(get_device()) for key, value in state.items() if key != "step"})
    for epoch in range(done + 1, config["epochs"] + 1):
        if get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        for points, labels in loader:
            loss = nn.functional.cross_entropy(wrapped(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        svc.log({"loss": loss}, step=epoch)
        if rank == 0:
            with svc.atomic_save("last.pt", step=epoch) as path:
                torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def main():
    parser = argparse.ArgumentParser(description="Train a small network with Ray Train.")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the data (5)")
    parser.add_argument("--workers", type=int, default=0, help="processes (one per GPU of the cluster, else 2)")
    options = parser.parse_args()

    ray.init()
    gpus = int(ray.cluster_resources().get("GPU", 0))
    workers = options.workers or gpus or 2
    start = None
    latest = svc.latest_checkpoint()
    if latest is not None:
        # The bytes travel with Ray: a worker on another machine does not have the file.
        with open(latest, "rb") as file:
            start = ray.put(file.read())
        print("continuing from", latest)
    trainer = TorchTrainer(
        work,
        train_loop_config={"epochs": options.epochs, "start": start},
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpus >= workers),
        run_config=RunConfig(name="svc"),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
