"""PyTorch modules for the digits model: the right one, and others that go wrong."""

import os
import signal
import time

import torch
from torch import nn


class Digits(nn.Module):
    """As `benchmarks.models.digits` has it, and by the same names."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = torch.max_pool2d(x, 2).flatten(1)
        return self.fc2(self.drop(torch.relu(self.fc1(x))))


class Frozen(Digits):
    """Only its first layer is trained."""

    def __init__(self):
        super().__init__()
        for layer in (self.conv2, self.fc1, self.fc2):
            layer.requires_grad_(False)


class _Late(Digits):
    """Something happens after so many steps."""

    first = 0

    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        if self.steps > self.first:
            self.happen()
        return super().forward(x)


class Crash(_Late):
    """Dies in its sixth step: after parity, in the second turn."""

    first = 5

    def happen(self):
        os.kill(os.getpid(), signal.SIGSEGV)


class Hang(_Late):
    """Stays in its first step."""

    def happen(self):
        time.sleep(3600)


class Greedy(_Late):
    """Wants 32 GiB."""

    def happen(self):
        torch.ones(8 << 30)


class Lacking(_Late):
    """Says that it lacks something."""

    def happen(self):
        raise NotImplementedError("no such operator\nat length")


NUMBER = 7
