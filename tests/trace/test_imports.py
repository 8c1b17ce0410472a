"""What a capture imports: each program runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

_HEAD = """
import sys
import torch
from torch import nn
from torch.nn import functional as F
import magneto
assert "torch._dynamo" not in sys.modules and "sympy" not in sys.modules, "import magneto"
before = set(sys.modules)
"""

_TAIL = """
function = model.eval() if isinstance(model, nn.Module) else model
expected = function(*args)
compiled = magneto.compile(function, backend="eager", fullgraph=True)
assert torch.equal(compiled(*args), expected)
heavy = ("torch._dynamo", "sympy", "torch.onnx", "torch._inductor", "torch._functorch._aot_autograd")
print(sorted(name for name in heavy if name in set(sys.modules) - before))
"""

_PROGRAMS = {
    "a transformer": """
        class Layer(nn.Module):
            def __init__(self, width=32, heads=4):
                super().__init__()
                self.heads = heads
                self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
                self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
                self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
                self.dropout = nn.Dropout(0.1)

            def forward(self, x, mask):
                b, n, d = x.shape
                q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
                scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5 + mask
                y = (self.dropout(torch.softmax(scores, -1)) @ v).transpose(1, 2).reshape(b, n, d)
                x = self.norms[0](x + self.dropout(self.out(y)))
                return self.norms[1](x + self.narrow(F.gelu(self.wide(x))))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.places = nn.Embedding(100, 32), nn.Embedding(64, 32)
                self.layers = nn.ModuleList([Layer() for _ in range(2)])

            def forward(self, ids, mask):
                x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
                mask = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
                for layer in self.layers:
                    x = layer(x, mask)
                return x[:, 0].mean(-1)

        model, args = Model(), (torch.randint(0, 100, (2, 8)), torch.ones(2, 8, dtype=torch.int64))
    """,
    "a decoder": """
        def rotate(x):
            left, right = x.chunk(2, dim=-1)
            return torch.cat((-right, left), dim=-1)

        class Model(nn.Module):
            def __init__(self, width=32, heads=4):
                super().__init__()
                self.heads = heads
                self.words = nn.Embedding(100, width)
                self.weight = nn.Parameter(torch.ones(width))
                self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
                self.gate, self.up, self.down = nn.Linear(width, 64), nn.Linear(width, 64), nn.Linear(64, width)
                self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8))

            def norm(self, x):
                return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

            def forward(self, ids):
                x = self.words(ids)
                b, n, d = x.shape
                angles = torch.outer(torch.arange(n).float(), self.frequencies)
                angles = torch.cat((angles, angles), dim=-1)[None, None]
                q, k, v = self.qkv(self.norm(x)).split(d, dim=2)
                q, k, v = (t.view(b, n, self.heads, d // self.heads).transpose(1, 2) for t in (q, k, v))
                q, k = (t * angles.cos() + rotate(t) * angles.sin() for t in (q, k))
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).contiguous().view(b, n, d))
                h = self.norm(x)
                x = x + self.down(F.silu(self.gate(h)) * self.up(h))
                return F.log_softmax(x[:, -1] @ self.words.weight.t(), dim=-1)

        model, args = Model(), (torch.randint(0, 100, (2, 8)),)
    """,
    "a convolutional network": """
        class Block(nn.Module):
            def __init__(self, ins, outs, stride):
                super().__init__()
                self.first, self.second = nn.Conv2d(ins, outs, 3, stride, 1, bias=False), nn.Conv2d(outs, outs, 3, 1, 1)
                self.norms = nn.ModuleList([nn.BatchNorm2d(outs), nn.BatchNorm2d(outs)])
                self.down = nn.Conv2d(ins, outs, 1, stride, bias=False) if ins != outs else nn.Identity()

            def forward(self, x):
                y = torch.relu(self.norms[0](self.first(x)))
                return F.relu(self.norms[1](self.second(y)) + self.down(x))

        model = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), Block(8, 8, 1),
            Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
        )
        args = (torch.randn(2, 3, 32, 32),)
    """,
    "recurrent layers": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(100, 8)
                self.lstm = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, dropout=0.5)
                self.gru, self.rnn = nn.GRU(12, 4, bias=False, batch_first=True), nn.RNN(4, 5, 2, batch_first=True)
                self.cells = nn.ModuleList([nn.LSTMCell(5, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 3, nonlinearity="relu")])

            def forward(self, ids):
                x, (h, c) = self.lstm(self.words(ids))
                x, last = self.gru(x, h.sum(-1)[:1, :, None].expand(-1, -1, 4) + c.mean())
                x, _ = self.rnn(x + last.transpose(0, 1))
                h, c = self.cells[0](x[:, -1])
                return self.cells[2](self.cells[1](h, c)).sum(-1)

        model, args = Model(), (torch.randint(0, 100, (2, 5)),)
    """,
    "the training of recurrent layers": """
        nets = nn.ModuleList([nn.LSTM(4, 4, 2), nn.GRU(4, 4, 2), nn.RNN(4, 4, 2)])

        def model(x):
            for net in nets:
                x, _ = net(x)
            return x

        args = (torch.randn(5, 2, 4),)
    """,
    "a function": """
        def model(x, y):
            z = torch.where(x > 0, x * y, -y).clamp(-1, 1)
            z[:, 0] = 0
            w = torch.zeros_like(z)
            w += z.sum(1, keepdim=True)
            return torch.stack([w, z], 0).amax(0)[..., None].expand(-1, -1, 2).reshape(4, -1)

        args = (torch.randn(4, 5), torch.randn(5))
    """,
}


@pytest.mark.no_leak_hunt(reason="runs in other processes")
@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_capture_imports_neither_dynamo_nor_sympy(name: str) -> None:
    program = _HEAD + textwrap.dedent(_PROGRAMS[name]) + _TAIL
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
