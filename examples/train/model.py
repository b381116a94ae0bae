# SPDX-License-Identifier: Apache-2.0
"""A small transformer over bytes: pre-norm blocks of causal attention with rope, and SwiGLU."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Size:
    layers: int
    heads: int
    head_dim: int
    hidden: int
    seq: int
    batch: int  # of a rank
    dtype: torch.dtype

    @property
    def width(self):
        return self.heads * self.head_dim


SIZES = {
    # Seconds on a CPU; what ./check torch runs.
    "tiny": Size(layers=2, heads=2, head_dim=64, hidden=256, seq=64, batch=8, dtype=torch.float32),
    # A GPU has something to do: 124 million weights.
    "small": Size(layers=12, heads=12, head_dim=64, hidden=2048, seq=1024, batch=16, dtype=torch.bfloat16),
}


class Block(nn.Module):
    def __init__(self, size, ops):
        super().__init__()
        self.size, self.ops = size, ops
        width = size.width
        self.norm_attention = nn.Parameter(torch.ones(width))
        self.norm_mlp = nn.Parameter(torch.ones(width))
        # Not one weight for q, k and v: its parts would be strided, and kernels would be given copies.
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, size.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(size.hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        """x: [seq, batch, width], which is what rope's kernel takes."""
        seq, batch, width = x.shape
        heads = (seq, batch, self.size.heads, self.size.head_dim)
        normed = self.ops.rms_norm(x, self.norm_attention)
        q, k, v = (project(normed).view(heads) for project in (self.q, self.k, self.v))
        q, k = self.ops.rope(q, k, cosine, sine)
        # [batch, heads, seq, head_dim]
        q, k, v = (one.permute(1, 2, 0, 3).contiguous() for one in (q, k, v))
        mixed = self.ops.causal_attention(q, k, v)
        x = x + self.out(mixed.permute(2, 0, 1, 3).reshape(seq, batch, width))
        normed = self.ops.rms_norm(x, self.norm_mlp)
        return x + self.down(self.ops.swiglu(self.gate(normed), self.up(normed)))


class Transformer(nn.Module):
    def __init__(self, size, ops):
        super().__init__()
        self.ops = ops
        self.embedding = nn.Embedding(256, size.width)
        self.blocks = nn.ModuleList(Block(size, ops) for _ in range(size.layers))
        self.norm = nn.Parameter(torch.ones(size.width))
        self.head = nn.Linear(size.width, 256, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)
        turns = 10000.0 ** (-torch.arange(0, size.head_dim, 2).float() / size.head_dim)
        angles = torch.arange(size.seq).float()[:, None] * turns[None, :]
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, text):
        """text: bytes as [batch, seq]; returns the logits of the next ones, [batch, seq, 256]."""
        x = self.embedding(text).transpose(0, 1).contiguous()
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return self.head(self.ops.rms_norm(x, self.norm)).transpose(0, 1)
