"""The models of samples/models, as PyTorch modules."""
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn


class LeNetFeatExtractor(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.conv2 = nn.Conv2d(6, 16, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return x


class LeNetClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16 * 6 * 6, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        x = self.fc3(x)
        return x


class LeNet(nn.Module):
    """The network of the TRTorch article, with its two submodules and their names."""

    def __init__(self):
        super().__init__()
        self.feat = LeNetFeatExtractor()
        self.classifer = LeNetClassifier()

    def forward(self, x):
        x = self.feat(x)
        x = self.classifer(x)
        return x


class BeamSearch(nn.Module):
    """Loops and conditions over a small recurrent network: decodes greedily until an end mark or a step limit."""

    end: int
    limit: int

    def __init__(self, words: int = 12, width: int = 16, limit: int = 8):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.output = nn.Linear(width, words)
        self.end = 0
        self.limit = limit

    def forward(self, start: torch.Tensor, temperature: float):
        word = start
        state = torch.zeros(start.size(0), 16)
        words: List[torch.Tensor] = []
        score = torch.zeros(start.size(0))
        steps = 0
        while steps < self.limit:
            state = self.cell(self.embedding(word), state)
            logits = self.output(state)
            if temperature > 0.0:
                logits = logits / temperature
            else:
                logits = logits - logits.mean()
            likely, word = torch.max(F.log_softmax(logits, dim=1), 1)
            score = score + likely
            words.append(word)
            steps += 1
            if bool((word == self.end).all()):
                break
            if steps % 3 == 2 and float(score.min()) < -20.0:
                continue
            for i in range(word.size(0)):
                if int(word[i]) == self.end:
                    score[i] += 0.5
        return torch.stack(words, 1), score, steps


class Tagger(nn.Module):
    """Lists, dicts, optionals and strings: counts words of a text and tags the long ones."""

    def forward(self, text: str, minimum: int, prefix: Optional[str]) -> Tuple[List[str], Dict[str, int], str, List[float]]:
        counts: Dict[str, int] = {}
        for word in text.lower().split():
            word = word.strip(".,;!")
            if len(word) == 0:
                continue
            if word in counts:
                counts[word] += 1
            else:
                counts[word] = 1
        tags: List[str] = []
        lengths: List[float] = []
        for word in sorted(counts.keys()):
            if len(word) < minimum:
                continue
            tag = "{}:{}".format(word, counts[word])
            if prefix is not None:
                tag = prefix + tag
            tags.append(tag)
            lengths.append(len(word) / max(counts[word], 1))
        summary = "%d of %d words" % (len(tags), len(counts))
        if len(tags) > 0:
            summary += ", first " + tags[0][:4] + ", last " + tags[-1]
        return tags, counts, summary, lengths
