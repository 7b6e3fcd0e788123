"""Recurrent and one-dimensional nets: characters, translation, keywords."""

from itertools import pairwise

import torch
from torch import Tensor, nn


class CharCnnLstm(nn.Module):
    """Characters through convolutions of several widths, then an LSTM (after Kim et al. 2016).

    int64[N,T] to logits [N,classes].
    """

    def __init__(
        self,
        alphabet: int = 96,
        width: int = 32,
        filters: int = 64,
        hidden: int = 128,
        layers: int = 2,
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(alphabet, width)
        self.convs = nn.ModuleList(
            nn.Conv1d(width, filters, size, padding=size // 2) for size in (3, 5, 7)
        )
        self.pool = nn.MaxPool1d(2)
        self.lstm = nn.LSTM(3 * filters, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, characters: Tensor) -> Tensor:
        """Logits of the last state."""
        x = self.embedding(characters).transpose(1, 2)
        x = torch.cat([torch.relu(conv(x)) for conv in self.convs], 1)
        x, _ = self.lstm(self.pool(x).transpose(1, 2))
        return self.head(x[:, -1])


class CharLstm(nn.Module):
    """The next character of a text, by stacked LSTMs (after Graves 2013).

    int64[N,T] to logits [N,alphabet].
    """

    def __init__(
        self, alphabet: int = 96, width: int = 64, hidden: int = 256, layers: int = 2
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(alphabet, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, alphabet)

    def forward(self, characters: Tensor) -> Tensor:
        """Logits of the last state."""
        x, _ = self.lstm(self.embedding(characters))
        return self.head(x[:, -1])


class Seq2Seq(nn.Module):
    """Translation with attention (Luong et al. 2015, dot score), with teacher forcing.

    source int64[N,S] and target int64[N,T] to logits [N,T,vocabulary].
    """

    def __init__(self, vocabulary: int = 1000, width: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(vocabulary, width)
        self.target_embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.LSTM(width, hidden // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(width, hidden, batch_first=True)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of each next token of the target."""
        memory, (hidden, cell) = self.encoder(self.source_embedding(source))
        start = tuple(torch.cat([state[0], state[1]], 1).unsqueeze(0) for state in (hidden, cell))
        states, _ = self.decoder(self.target_embedding(target), start)
        weights = torch.softmax(states @ memory.transpose(1, 2), -1)
        context = weights @ memory
        return self.head(torch.tanh(self.combine(torch.cat([states, context], -1))))


def keyword_net(
    channels: tuple[int, ...] = (64, 64, 128, 256), first: int = 80, classes: int = 35
) -> nn.Sequential:
    """Keyword spotting on raw sound (M5, Dai et al. 2017): float32[N,1,samples] to logits."""
    layers: list[nn.Module] = [nn.Conv1d(1, channels[0], first, stride=first // 5)]
    for before, after in pairwise((*channels, 0)):
        layers += [nn.BatchNorm1d(before), nn.ReLU(), nn.MaxPool1d(4)]
        if after:
            layers.append(nn.Conv1d(before, after, 3))
    head = [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels[-1], classes)]
    return nn.Sequential(*layers, *head)
