"""One full training beside PyTorch, in float64: the same loss curve and the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trainings import BATCH, EXECUTORS, data, plain, weights

import chainrule as cr

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

EPOCHS = 20  # of 13 steps
# Rounding of each step is passed on by the next ones: 260 steps of Adam, each of ~1e-16 relative.
RTOL = 1e-9


@pytest.mark.sweep(2)
@pytest.mark.parametrize("executor", EXECUTORS[::-1])
def test_the_loss_curve_is_that_of_pytorch(executor: str):
    key, steps = cr.random.key(11), EPOCHS * 13
    rate = cr.schedules.cosine(0.05, steps=steps, warmup=13)
    trainer = cr.Trainer(
        plain,
        weights(),
        cr.clip_by_global_norm(cr.adamw(rate, weight_decay=0.02), 1.0),
        data(),
        batch_size=BATCH,
        validation=data(50, seed=2),
        accuracy=("o", "y"),
        key=key,
        progress=False,
        executor=executor,
    )
    ours = list(trainer.epochs(EPOCHS))

    theirs = {name: torch.tensor(w, requires_grad=True) for name, w in weights().items()}
    optimizer = torch.optim.AdamW(theirs.values(), lr=0.05, weight_decay=0.02)

    def factor(t: int) -> float:
        if t < 13:
            return t / 13
        return 0.5 * (1 + np.cos(np.pi * min(1.0, (t - 13) / (steps - 13))))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

    def scores(x: np.ndarray) -> Any:
        return torch.tanh(torch.tensor(x) @ theirs["W1"]) @ theirs["W2"]

    def loss(batch: dict[str, np.ndarray]) -> Any:
        return torch.nn.functional.cross_entropy(scores(batch["x"]), torch.tensor(batch["y"]))

    curve = []
    for number in range(1, EPOCHS + 1):
        total, right = 0.0, 0
        order = cr.random.permutation(cr.random.fold_in(cr.random.fold_in(key, 0), number), 100)
        for begin in range(0, 100, BATCH):
            rows = order[begin : begin + BATCH]
            batch = {name: array[rows] for name, array in data().items()}
            optimizer.zero_grad()
            value = loss(batch)
            right += int((scores(batch["x"]).argmax(1) == torch.tensor(batch["y"])).sum())
            value.backward()
            torch.nn.utils.clip_grad_norm_(theirs.values(), 1.0)
            optimizer.step()
            scheduler.step()
            total += value.item() * len(rows)
        with torch.no_grad():
            held_out = data(50, seed=2)
            found = scores(held_out["x"]).argmax(1) == torch.tensor(held_out["y"])
            curve.append((total / 100, right / 100, loss(held_out).item(), found.double().mean()))

    for epoch, (objective, accuracy, validation, validation_accuracy) in zip(
        ours, curve, strict=True
    ):
        assert epoch.objective == pytest.approx(objective, rel=RTOL)
        assert epoch.accuracy == accuracy
        assert epoch.validation is not None
        assert epoch.validation.objective == pytest.approx(validation, rel=RTOL)
        assert epoch.validation.accuracy == pytest.approx(float(validation_accuracy), abs=1e-15)
    assert ours[-1].objective < 0.5 * ours[0].objective
    for name, tensor in theirs.items():
        np.testing.assert_allclose(trainer.state[name], tensor.detach().numpy(), RTOL, RTOL)
