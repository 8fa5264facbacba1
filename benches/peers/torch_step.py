"""Peer 1: PyTorch eager on CPU in one process. Prints one JSON line.

python torch_step.py --sequences 4 --threads 2
"""

import os

import torch

import peer


def main():
    args = peer.arguments(__doc__.splitlines()[0])
    if args.allocator == "keep":
        peer.keep_freed_memory()
    torch.set_num_threads(args.threads or os.cpu_count())
    torch.set_flush_denormal(True)
    seconds, loss = peer.measure(peer.build(args), args)
    peer.report(args, "torch-eager", seconds, loss)


if __name__ == "__main__":
    main()
