# SPDX-License-Identifier: Apache-2.0
"""Muon for the matrices of the layers (momentum, then orthogonalised by Newton-Schulz), AdamW for the rest."""
import torch


def orthogonalise(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """g [n, rows, cols]: the nearest matrices with singular values near one."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    turned = x.shape[-2] > x.shape[-1]
    if turned:
        x = x.mT
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True).to(x.dtype) + 1e-7)
    for _ in range(steps):
        xx = x @ x.mT
        x = a * x + (b * xx + c * (xx @ xx)) @ x
    return (x.mT if turned else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"]
                m.mul_(group["momentum"]).add_(p.grad)
                shapes.setdefault(p.shape, []).append((p, p.grad + group["momentum"] * m))
            for shape, items in shapes.items():
                updates = orthogonalise(torch.stack([u for _, u in items]))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5 * group["lr"]
                for (p, _), u in zip(items, updates):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).add_(u, alpha=-scale)


def make_optimisers(model, muon_lr: float, adam_lr: float, weight_decay: float = 0.0):
    matrices = [p for n, p in model.named_parameters() if n.endswith("_proj.weight")]
    others = [p for n, p in model.named_parameters() if not n.endswith("_proj.weight")]
    return [Muon(matrices, lr=muon_lr, weight_decay=weight_decay),
            torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0)]
