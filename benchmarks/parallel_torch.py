"""One process of `parallel.py`: the same steps in PyTorch, alone or as a rank of torch.distributed.

    parallel_torch.py alone SECONDS
    parallel_torch.py ranks SECONDS RANK COUNT FILE

Prints the seconds of each job, measured in turns, as JSON; of ranks, the first one does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from cases.transformer import HEADS
from parallel_ranks import BATCH, PARTS, ROWS, TRANSFORMER, mlp_arrays, transformer_arrays
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel

Job = Callable[[], Any]


class Layer(nn.Module):
    """tanh(x W)."""

    def __init__(self, matrix: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(matrix.T.copy()))

    def forward(self, x: Any) -> Any:
        return torch.tanh(F.linear(x, self.weight))


class Block(nn.Module):
    """A pre-norm block: attention, then feed-forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attended = nn.Linear(width, 3 * width, bias=False)
        self.mixed = nn.Linear(width, width, bias=False)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.attended(self.first(x)).split(width, dim=-1)
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.second(x)), approximate="tanh"))


class Transformer(nn.Module):
    """As cases/transformer_objective.py."""

    def __init__(self, vocabulary: int, length: int, width: int, depth: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions)))


def entropy(logits: Any, targets: Any) -> Any:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def stepping(model: Any, optimizer: Any, loss: Any, x: Any, y: Any, parts: int = 1) -> Job:
    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for one, other in zip(x.chunk(parts), y.chunk(parts), strict=True):
            (loss(model(one), other) / parts).backward()
        optimizer.step()

    return step


def models() -> tuple[Any, Any]:
    """The two networks, with the batches that both libraries train on."""
    weights, batch = mlp_arrays()
    torch.manual_seed(0)
    mlp = nn.Sequential(*(Layer(one) for one in weights.values()))
    _, tokens = transformer_arrays()
    found = ((mlp, batch["x"], batch["y"]), (Transformer(**TRANSFORMER), *tokens.values()))
    return tuple((one, torch.from_numpy(x), torch.from_numpy(y)) for one, x, y in found)


def optimizers(mlp: Any, transformer: Any) -> tuple[Any, Any]:
    adamw = torch.optim.AdamW(transformer.parameters(), 1e-3, fused=True)
    return torch.optim.SGD(mlp.parameters(), 0.1), adamw


def alone() -> dict[str, Job]:
    """Whole batches, and one in parts."""
    (mlp, x, y), (transformer, tokens, targets) = models()
    sgd, adamw = optimizers(mlp, transformer)
    return {
        "mlp": stepping(mlp, sgd, F.mse_loss, x, y),
        f"mlp in {PARTS} parts": stepping(mlp, sgd, F.mse_loss, x, y, PARTS),
        "transformer": stepping(transformer, adamw, entropy, tokens, targets),
    }


def ranks(rank: int, count: int) -> dict[str, Job]:
    """Pipelines of two stages, and DistributedDataParallel."""
    found: dict[str, Job] = {}
    for name, schedule in (("gpipe", ScheduleGPipe), ("1f1b", Schedule1F1B)):
        (mlp, x, y), _ = models()
        half = mlp[2 * rank : 2 * rank + 2]
        stage = PipelineStage(half, rank, count, torch.device("cpu"))
        pipeline = schedule(stage, PARTS, loss_fn=F.mse_loss)
        sgd = torch.optim.SGD(half.parameters(), 0.1)

        def step(pipeline: Any = pipeline, sgd: Any = sgd, x: Any = x, y: Any = y) -> None:
            sgd.zero_grad(set_to_none=True)
            if rank == 0:
                pipeline.step(x)
            else:
                pipeline.step(target=y, losses=[])
            sgd.step()

        found[f"pipeline, {name}"] = step
    (mlp, x, y), (transformer, tokens, targets) = models()
    sgd, adamw = optimizers(mlp, transformer)
    for name, model, optimizer, loss, inputs, wanted, rows in (
        ("replicas of the mlp", mlp, sgd, F.mse_loss, x, y, ROWS),
        ("replicas of the transformer", transformer, adamw, entropy, tokens, targets, BATCH),
    ):
        own = slice(rank * rows // count, (rank + 1) * rows // count)
        replicated = DistributedDataParallel(model, gradient_as_bucket_view=True)
        found[name] = stepping(replicated, optimizer, loss, inputs[own], wanted[own])
    return found


def in_turns(jobs: dict[str, Job], seconds: float, together: bool) -> dict[str, list[float]]:
    """As in `parallel_ranks.py`."""

    def meet() -> None:
        if together:
            dist.barrier()

    for job in jobs.values():
        job()
        job()
    begun = perf_counter()
    for job in jobs.values():
        job()
    count = torch.tensor(max(5, round(seconds / (perf_counter() - begun))))
    if together:
        dist.broadcast(count, 0)
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(int(count)):
        for name, job in jobs.items():
            job()
            meet()
            begun = perf_counter()
            job()
            found[name].append(perf_counter() - begun)
    for name, own in found.items() if together else ():
        each = torch.tensor(own, dtype=torch.float64)
        dist.all_reduce(each, dist.ReduceOp.MAX)  # the rank that ends last
        found[name] = each.tolist()
    return found


def main() -> None:
    kind, seconds = sys.argv[1], float(sys.argv[2])
    torch.set_num_threads(1)
    if kind == "alone":
        print(json.dumps({"seconds": in_turns(alone(), seconds, together=False)}), flush=True)
        return
    rank, count, file = int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])
    dist.init_process_group("gloo", init_method=file.as_uri(), rank=rank, world_size=count)
    found = in_turns(ranks(rank, count), seconds, together=True)
    if rank == 0:
        print(json.dumps({"seconds": found}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
