"""Quantised models for export_archives.py: static ones in eager and in graph mode, and dynamic ones."""
import warnings

import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx
from torch.utils.mobile_optimizer import optimize_for_mobile

warnings.simplefilter("ignore")
torch.backends.quantized.engine = "qnnpack"


class Block(nn.Module):
    """A residual block, depthwise convolutions, pooling and joining."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU())
        self.depth = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.BatchNorm2d(6), nn.ReLU())
        self.point = nn.Conv2d(6, 6, 1)
        self.last = nn.Linear(12, 4)
        self.sum, self.both, self.scaled = (nn.quantized.FloatFunctional() for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        x = self.sum.add_relu(x, self.point(self.depth(x)))
        x = nn.functional.max_pool2d(x, 2)
        x = self.both.cat([x, self.scaled.mul_scalar(x, 0.5)], 1)
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
        return self.last(x)


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Conv1d(3, 4, 3)
        self.swish, self.leaky, self.norm = nn.Hardswish(), nn.LeakyReLU(0.1), nn.LayerNorm(6)
        self.up = nn.ConvTranspose1d(4, 2, 2, stride=2)
        self.product = nn.quantized.FloatFunctional()

    def forward(self, x):
        x = self.swish(self.line(x))
        x = self.product.mul(self.leaky(x), torch.sigmoid(x))
        return self.up(self.norm(x))


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 4)
        self.line = nn.Linear(4, 3)

    def forward(self, tokens):
        x, state = self.lstm(self.embedding(tokens))
        x, last = self.gru(x.transpose(0, 1))
        return self.line(x), last, state[1]


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(3, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 4)

    def forward(self, x):
        h, c = self.lstm(x)
        return self.rnn(self.gru(h, c), h)


def settle(model):
    torch.manual_seed(1)
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
            m.running_var.uniform_(0.5, 1.5)
    return model.eval()


def eager(model, fuse, x):
    model = settle(model)
    if fuse:
        quantization.fuse_modules(model, fuse, inplace=True)
    model = quantization.QuantWrapper(model)
    model.qconfig = quantization.get_default_qconfig("qnnpack")
    for m in model.modules():
        if isinstance(m, nn.ConvTranspose1d):  # per channel is for axis 0
            m.qconfig = quantization.default_qconfig
    quantization.prepare(model, inplace=True)
    model(x)
    return quantization.convert(model)


class Bags(nn.Module):
    def __init__(self, bags):
        super().__init__()
        self.bags = bags

    def forward(self, tokens):
        return self.bags(tokens)


def cases():
    torch.manual_seed(0)
    image, line = torch.rand(2, 2, 6, 6) * 2 - 1, torch.rand(2, 3, 8) * 2 - 1
    tokens = torch.randint(0, 10, (2, 5))
    block = eager(Block(), [["first.0", "first.1", "first.2"], ["depth.0", "depth.1", "depth.2"]], image)
    yield "static_scripted", "script", block, (image,)
    yield "static_traced", "trace", block, (image,)
    yield "static_activations", "script", eager(Activations(), [], line), (line,)
    mapping = quantization.get_default_qconfig_mapping("qnnpack")
    prepared = quantize_fx.prepare_fx(settle(Block()), mapping, (image,))
    prepared(image)
    yield "static_graph_mode", "script", quantize_fx.convert_fx(prepared), (image,)
    torch.backends.quantized.engine = "onednn"  # qnnpack does not reduce the range where it is told to
    dynamic = {nn.LSTM, nn.GRU, nn.Linear}
    yield "dynamic_sequence", "script", quantization.quantize_dynamic(Sequence().eval(), dynamic), (tokens,)
    cells = quantization.quantize_dynamic(Cells().eval(), {nn.LSTMCell, nn.GRUCell, nn.RNNCell})
    yield "dynamic_cells", "script", cells, (torch.rand(2, 3),)
    torch.backends.quantized.engine = "qnnpack"
    mobile = nn.Sequential(nn.Conv2d(2, 3, 3, stride=2), nn.BatchNorm2d(3), nn.ReLU6(), nn.Flatten(), nn.Linear(12, 3))
    yield "prepacked", "script", optimize_for_mobile(torch.jit.script(settle(mobile))), (image,)
    embedding = {nn.Embedding: quantization.float_qparams_weight_only_qconfig}
    yield "quantized_embedding", "script", quantization.quantize_dynamic(Sequence().eval(), embedding), (tokens,)
    bags = nn.quantized.EmbeddingBag(10, 6, mode="sum", dtype=torch.quint4x2)
    table = torch.ao.quantization.float_qparams_weight_only_qconfig_4bit.weight()
    weight = torch.rand(10, 6) * 2 - 1
    table(weight)
    scales, zeros = (t.float() for t in table.calculate_qparams())
    bags.set_weight(torch.quantize_per_channel(weight, scales, zeros, 0, torch.quint4x2))
    yield "quantized_bags", "trace", Bags(bags), (tokens,)
    halves = {nn.LSTM, nn.Linear}
    try:
        made = quantization.quantize_dynamic(Sequence().eval(), halves, dtype=torch.float16)
        yield "dynamic_half", "script", made, (tokens,)
    except RuntimeError:
        pass  # not every PyTorch is built for it
