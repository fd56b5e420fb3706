"""A Shampoo-like optimizer: blocks of a gradient are preconditioned by inverse fourth roots, by one batched eigh."""

from __future__ import annotations

import sys
from typing import Any

import torch

import mansard as ms

BLOCK = 4  # rows and columns of a block that has its own pair of preconditioners


class Shampoo(torch.optim.Optimizer):
    """W -= lr L^-1/4 G R^-1/4 for every block, where L and R are the sums of G G^T and G^T G."""

    def __init__(self, parameters: Any, lr: float = 0.1, floor: float = 1e-6) -> None:
        super().__init__(parameters, {"lr": lr, "floor": floor})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                blocks = split(weight.grad)
                state = self.state[weight]
                if not state:
                    unit = group["floor"] * torch.eye(BLOCK, dtype=weight.dtype)
                    state["sums"] = unit.expand(2, len(blocks), BLOCK, BLOCK).clone()
                state["sums"][0] += ms.blas.syrk(blocks)
                state["sums"][1] += ms.blas.syrk(blocks, trans="T")
                left, right = inverse_fourth_root(state["sums"].reshape(-1, BLOCK, BLOCK)).chunk(2)
                move = ms.matmul(ms.matmul(left, blocks), right)
                weight -= group["lr"] * join(move, weight.shape)


def split(matrix: Any) -> Any:
    """Blocks (count, BLOCK, BLOCK) of a matrix whose sizes are multiples."""
    rows, columns = (size // BLOCK for size in matrix.shape)
    return matrix.reshape(rows, BLOCK, columns, BLOCK).transpose(1, 2).reshape(-1, BLOCK, BLOCK).contiguous()


def join(blocks: Any, shape: Any) -> Any:
    """The matrix of these blocks."""
    rows, columns = (size // BLOCK for size in shape)
    return blocks.reshape(rows, columns, BLOCK, BLOCK).transpose(1, 2).reshape(shape)


def inverse_fourth_root(a: Any) -> Any:
    """a^-1/4 of positive definite matrices."""
    w, z = ms.linalg.eigh(a)
    return ms.matmul(z * w.clamp_min(1e-12)[:, None, :] ** -0.25, z.mT.contiguous())


def train(steps: int) -> tuple[float, float]:
    """The loss of a badly scaled regression before and after so many steps."""
    torch.manual_seed(0)
    x = torch.randn(200, 8, dtype=torch.float64) * torch.logspace(0, -1.5, 8, dtype=torch.float64)
    wanted = x @ torch.randn(8, 8, dtype=torch.float64)
    weight = torch.nn.Parameter(torch.zeros(8, 8, dtype=torch.float64))
    optimizer = Shampoo([weight])
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (ms.matmul(x, weight) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses[0], losses[-1]


if __name__ == "__main__":
    first, last = train(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    print(f"loss {first:.3e} before, {last:.3e} after training")
    assert last < first / 5
