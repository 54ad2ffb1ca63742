"""A Vision Transformer and a GPT, as `expert_pytorch.py` trains them."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        batch, steps, width = x.shape
        qkv = self.qkv(x).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(*qkv, is_causal=self.causal)
        self.macs = 2 * steps**2 * width
        return self.out(x.transpose(1, 2).reshape(batch, steps, width))


class Skipped(nn.Module):
    """Stochastic depth of a branch."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.rate or not self.training:
            return x
        kept = torch.empty(len(x), 1, 1, dtype=x.dtype, device=x.device)
        return x * kept.bernoulli_(1 - self.rate).div_(1 - self.rate)


class Block(nn.Module):
    def __init__(self, width, heads, causal, gelu, epsilon, rate=0.0):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, epsilon) for _ in range(2))
        self.attention = Attention(width, heads, causal)
        inner = nn.Linear(width, 4 * width), nn.GELU(gelu), nn.Linear(4 * width, width)
        self.dense, self.skipped = nn.Sequential(*inner), Skipped(rate)

    def forward(self, x):
        x = x + self.skipped(self.attention(self.norm1(x)))
        return x + self.skipped(self.dense(self.norm2(x)))


class VisionTransformer(nn.Module):
    def __init__(self, side, classes, width, heads, layers=12, patch=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, 1 + (side // patch) ** 2, width))
        rates = torch.linspace(0, 0.1, layers).tolist()
        blocks = [Block(width, heads, False, "none", 1e-6, rate) for rate in rates]
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(width, 1e-6))
        self.logits = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.position
        return self.logits(self.blocks(x)[:, 0])


class GPT(nn.Module):
    def __init__(self, steps, vocabulary, width, heads, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.01 * torch.randn(steps, width))
        nn.init.normal_(self.embedding.weight, std=0.02)
        blocks = [Block(width, heads, True, "tanh", 1e-5) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(width))

    def forward(self, tokens):
        x = self.blocks(self.embedding(tokens) + self.position)
        self.macs = x.shape[1] * self.embedding.weight.numel()
        return F.linear(x, self.embedding.weight)
