"""Peer 2: PyTorch FSDP2 over gloo, parameters sharded over all processes. Rank 0 prints one JSON line.

torchrun --nproc-per-node 2 torch_fsdp2.py --sequences 2 --threads 1

Each layer, the embedding, and the head with the last norm are a unit of `fully_shard`. The experts are parameters like
any other (FSDP2 has no expert parallelism of its own), so each process computes all of them for its own tokens.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import peer


def shard(model, mesh):
    """Apply FSDP2 in place."""
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model.model.embed_tokens, mesh=mesh)
    fully_shard([model.model.norm, model.lm_head], mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)
    return model


def main():
    args = peer.arguments(__doc__.splitlines()[0])
    if args.allocator == "keep":
        peer.keep_freed_memory()
    torch.set_num_threads(args.threads or 1)
    torch.set_flush_denormal(True)
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    model = shard(peer.build(args), init_device_mesh("cpu", (world,)))
    seconds, loss = peer.measure(model, args, dist.get_rank(), world, before_step=dist.barrier)
    sums = torch.tensor([loss, peer.peak_rss_mib()], dtype=torch.float64)
    dist.all_reduce(sums)
    if dist.get_rank() == 0:
        peer.report(args, "torch-fsdp2", seconds, sums[0].item() / world, processes=world, rss=sums[1].item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
