"""Trains a small GPT on the text of Python's own modules, in PyTorch."""

import argparse
import os
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from touchstone_steps import report, steps

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--length", type=int, default=64)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--steps", type=int, default=1_000_000)
arguments = parser.parse_args()
length, width = arguments.length, arguments.width


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        heads = width // 32
        parts = self.project(self.before(x)).view(*x.shape[:2], 3, heads, 32)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block() for _ in range(arguments.layers)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, text):
        x = self.letters(text) + self.places.weight
        return self.head(self.last(self.blocks(x)))


def batches(text):
    for _ in range(arguments.steps):
        begins = torch.randint(len(text) - length - 1, (arguments.batch_size,)).tolist()
        yield torch.stack([text[begin : begin + length + 1] for begin in begins])


torch.manual_seed(1)
files = sorted(Path(os.__file__).parent.glob("*.py"))[:50]
text = torch.frombuffer(bytearray(b"".join(map(Path.read_bytes, files))), dtype=torch.uint8)
device = "cuda" if torch.cuda.is_available() else "cpu"
text, model = text.long().to(device), GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
for step, batch in enumerate(steps(batches(text), examples=arguments.batch_size)):
    logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 256), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        report(loss=loss)
print("last loss", loss.item())
