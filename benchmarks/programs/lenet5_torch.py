"""LeNet-5 in PyTorch, as its tutorials train, on noise in the shape of CIFAR-10."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from touchstone_steps import steps

BATCH_SIZE = int(sys.argv[1])
examples = TensorDataset(3.45 * torch.rand(4096, 3, 32, 32) - 1.725, torch.randint(10, (4096,)))
loader = DataLoader(examples, BATCH_SIZE, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(3, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(576, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
)  # fmt: skip
loss_of = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
while True:
    for images, labels in steps(loader, examples=BATCH_SIZE):
        optimizer.zero_grad()
        loss_of(model(images), labels).backward()
        optimizer.step()
