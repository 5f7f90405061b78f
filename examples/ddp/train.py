"""Data-parallel training in plain PyTorch: one process per GPU, or several on a CPU, or just one.

A small network learns the labels that a fixed random one gives to random points. Started by hand:

    python3 train.py --epochs 10
    python3 -m torch.distributed.run --standalone --nproc_per_node=2 train.py --epochs 10
"""

import argparse
import os

import svc
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FEATURES, CLASSES = 16, 4


def dataset(size=4096):
    """The same points on every rank."""
    source = torch.Generator().manual_seed(0)
    points = torch.randn(size, FEATURES, generator=source)
    teacher = torch.randn(FEATURES, CLASSES, generator=source)
    return TensorDataset(points, (points @ teacher).argmax(dim=1))


def main():
    options = arguments()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    dist_on = "RANK" in os.environ  # set by the launcher; a single process needs no group
    if dist_on:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, CLASSES)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    done = resume(model, optimizer, rank, dist_on, device)
    wrapped = DistributedDataParallel(model, [device.index] if device.type == "cuda" else None) if dist_on else model

    data = dataset()
    sampler = DistributedSampler(data, ranks, rank, shuffle=True, seed=0)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    for epoch in range(done + 1, options.epochs + 1):
        sampler.set_epoch(epoch)  # another order each epoch, the same one in a run that was resumed
        total = torch.zeros(3, device=device)  # loss, right answers, points
        for points, labels in loader:
            points, labels = points.to(device), labels.to(device)
            scores = wrapped(points)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                right = (scores.argmax(dim=1) == labels).sum()
                total += torch.stack([loss * len(labels), right, torch.tensor(len(labels), device=device)])
        if dist_on:
            dist.all_reduce(total)
        loss, right, count = total.tolist()
        svc.log({"loss": loss / count, "accuracy": right / count}, step=epoch)  # rank 0 records
        if rank == 0:
            print("epoch {}  loss {:.4f}  accuracy {:.1%}".format(epoch, loss / count, right / count))
            with svc.atomic_save("last.pt", step=epoch) as path:
                torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    if dist_on:
        dist.destroy_process_group()


def resume(model, optimizer, rank, dist_on, device):
    """Loads the last complete checkpoint; the number of epochs that it stands for.

    Rank 0 reads it and sends it to the others, which may be on machines that do not have the file.
    """
    box = [None]
    if rank == 0:
        path = svc.latest_checkpoint()
        if path is not None:
            box[0] = torch.load(path, map_location="cpu", weights_only=True)
            print("continuing after epoch {} from {}".format(box[0]["epoch"], path))
    if dist_on:
        dist.broadcast_object_list(box, src=0, device=device)
    if box[0] is None:
        return 0
    model.load_state_dict(box[0]["model"])
    optimizer.load_state_dict(box[0]["optimizer"])
    return box[0]["epoch"]


def arguments():
    parser = argparse.ArgumentParser(description="Train a small network on all ranks.")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the data (10)")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate (0.01)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
