"""Small models as users write them, with output, values and branches in forward."""

from __future__ import annotations

from programs.texts import parse

PROGRAMS = parse(r"""
### a classifier that prints its shapes
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 8)
        self.fc2 = nn.Linear(8, 4)
    def forward(self, x):
        print("in", tuple(x.shape))
        h = F.relu(self.fc1(x))
        print("hidden", tuple(h.shape))
        out = self.fc2(h)
        print("out", tuple(out.shape))
        return F.log_softmax(out, -1)
net = Net()
f = net.forward
---
f(X)
f(X)
f(T(5, 3))
f(X)
### a module that logs once
import logging
logging.getLogger("program.models").addHandler(logging.NullHandler())
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.warned = False
    def forward(self, x):
        if not self.warned:
            logging.getLogger("program.models").warning("first call")
            self.warned = True
        return self.fc(x).tanh()
net = Net()
f = net.forward
---
f(X)
f(X)
f(Y)
### a module that checks for nan
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        h = self.fc(x)
        if torch.isnan(h).any():
            raise ValueError("nan in the input")
        return h.softmax(-1)
net = Net()
f = net.forward
---
f(X)
f(X * float("nan"))
f(X)
### residual blocks with a gate on data
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)
    def forward(self, x):
        h = self.fc(x).relu()
        if h.mean() > 0.2:
            return x + h
        return x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(3) for _ in range(4))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum(-1)
torch.manual_seed(0)
torch.manual_seed(0)
net = Net()
f = net.forward
---
f(X)
f(X * 10)
f(X)
f(T(6, 3))
### mixture of experts by a loop with nonzero
class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 4)
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == i)
            if rows.numel() == 0:
                continue
            out[rows] += expert(x[rows]) * weights[rows, slot, None]
        return out
net = MoE()
f = net.forward
---
f(X)
f(Y)
f(T(8, 3))
f(X)
### mixture of experts by index_add
class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 3)) for _ in range(3))
    def forward(self, x):
        logits = self.gate(x)
        probs = F.softmax(logits, dim=1)
        weight, selected = torch.topk(probs, 2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        final = torch.zeros_like(x)
        mask = F.one_hot(selected, 3).permute(2, 1, 0)
        for i in range(3):
            idx, top = torch.where(mask[i])
            current = self.experts[i](x[top]) * weight[top, idx, None]
            final.index_add_(0, top, current)
        return final, logits
net = MoE()
f = net.forward
---
f(X)
f(T(6, 3))
f(X)
### top-1 routing by item
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
    def forward(self, x):
        out = []
        for row in x:
            k = int(row.argmax())
            out.append(self.heads[k](row))
        return torch.stack(out)
net = Router()
f = net.forward
---
f(X)
f(-X)
f(T(4, 3))
f(X)
### early exit by confidence
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(5))
        self.exits = nn.ModuleList(nn.Linear(3, 2) for _ in range(5))
    def forward(self, x):
        for i, (layer, exit) in enumerate(zip(self.layers, self.exits)):
            x = layer(x).relu()
            logits = exit(x)
            if logits.softmax(-1).max() > 0.75:
                return logits, i
        return logits, -1
net = Net()
f = net.forward
---
f(X)
f(X * 20)
f(X * 0)
f(X)
### adaptive computation
class ACT(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.halt = nn.Linear(3, 1)
    def forward(self, x):
        h = torch.zeros_like(x)
        total = torch.zeros(x.shape[0])
        steps = 0
        while (total < 1).any() and steps < 6:
            h = self.cell(x, h)
            total = total + torch.sigmoid(self.halt(h)).squeeze(-1)
            steps += 1
        return h, steps
net = ACT()
f = net.forward
---
f(X)
f(Y)
f(T(5, 3))
### recurrent network with a print for each step
cell = nn.RNNCell(3, 4)
def f(x):
    h = torch.zeros(1, 4)
    outs = []
    for t in range(x.shape[0]):
        h = cell(x[t : t + 1], h)
        print("step", t)
        outs.append(h)
    return torch.cat(outs), h
---
f(X)
f(X)
f(T(4, 3))
### greedy decoding
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 6)
        self.out = nn.Linear(6, 11)
    def forward(self, tokens):
        return self.out(self.emb(tokens).mean(1))
lm = LM()
def f(tokens, limit=6):
    for _ in range(limit):
        logits = lm(tokens)
        new = logits.argmax(-1)
        if new.item() == 3:
            break
        tokens = torch.cat([tokens, new[:, None]], 1)
    return tokens
---
f(torch.tensor([[1, 2]]))
f(torch.tensor([[4, 5]]))
f(torch.tensor([[7, 8, 9]]))
f(torch.tensor([[1, 2]]))
### sampling with a temperature
lin = nn.Linear(3, 5)
def f(x, temperature):
    ids = []
    for _ in range(4):
        logits = lin(x) / temperature
        probs = logits.softmax(-1)
        pick = torch.multinomial(probs, 1)
        ids.append(pick[0].item())
        x = x + pick * 0.1
    return ids, x
---
f(X, 1.0)
f(X, 0.5)
f(X, 1.0)
### decoding with a cache
class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.cache = []
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.cache.append((k, v))
        print("cache", len(self.cache))
        ks = torch.cat([k for k, _ in self.cache], 1)
        vs = torch.cat([v for _, v in self.cache], 1)
        return F.scaled_dot_product_attention(q, ks, vs)
net = Attn()
f = net.forward
---
f(T(1, 1, 4))
f(T(1, 1, 4, seed=1))
f(T(1, 1, 4, seed=2))
f(T(1, 1, 4, seed=3))
### beam search
step_scores = nn.Linear(1, 5)
def f(width):
    beams = [(0.0, [0])]
    for t in range(3):
        grown = []
        for score, tokens in beams:
            logits = step_scores(torch.tensor([[float(tokens[-1])]]))
            logp = logits.log_softmax(-1)[0]
            values, ids = logp.topk(width)
            for v, i in zip(values.tolist(), ids.tolist()):
                grown.append((score + v, tokens + [i]))
        grown.sort(key=lambda b: b[0], reverse=True)
        beams = grown[:width]
    return beams
---
f(2)
f(2)
f(3)
### beam search with tensors
table = T(6, 6)
def f(start):
    scores = torch.zeros(1)
    beams = start[None, :]
    for t in range(4):
        logp = table[beams[:, -1]].log_softmax(-1)
        total = (scores[:, None] + logp).flatten()
        scores, flat = total.topk(2)
        beams = torch.cat([beams[flat // 6], (flat % 6)[:, None]], 1)
        if (beams[:, -1] == 5).all():
            print("all ended", t)
            break
    return beams, scores
---
f(torch.tensor([0]))
f(torch.tensor([1]))
f(torch.tensor([2, 3]))
### a training step with logging
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
history = []
def f(x, target):
    model.zero_grad()
    loss = F.mse_loss(model(x), target)
    loss.backward()
    total = 0.0
    for p in model.parameters():
        total += p.grad.norm().item() ** 2
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    history.append(round(loss.item(), 4))
    print(f"step {len(history)}: {history[-1]}")
    return loss.detach(), total > 0
---
f(X, torch.ones(2, 1))
f(X, torch.ones(2, 1))
f(Y, torch.zeros(2, 1))
### gradient clipping
model = nn.Linear(3, 2)
def f(x):
    model.zero_grad()
    model(x).pow(2).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return norm > 0, model.weight.grad * 2
---
f(X)
f(Y * 10)
### an optimizer with momentum
p = nn.Parameter(torch.ones(2, 3))
opt = torch.optim.SGD([p], lr=0.1, momentum=0.9)
def f(x):
    opt.zero_grad()
    loss = ((p * x) ** 2).sum()
    loss.backward()
    opt.step()
    print("stepped")
    return loss.detach(), p.detach() * 2
---
f(X)
f(X)
f(Y)
### attention with a mask that is asked for
def f(q, mask=None):
    scores = q @ q.transpose(-1, -2)
    if mask is not None and not mask.all():
        scores = scores.masked_fill(~mask, -1e9)
    return scores.softmax(-1) @ q
---
f(X)
f(X, torch.ones(2, 2, dtype=torch.bool))
f(X, torch.tensor([[True, False], [True, True]]))
f(X)
### variable lengths
def f(x, lengths):
    out = []
    for row, n in zip(x, lengths.tolist()):
        out.append(row[:n].sum())
    return torch.stack(out) * 2
---
f(X, torch.tensor([1, 3]))
f(X, torch.tensor([1, 3]))
f(X, torch.tensor([2, 2]))
### padding to the longest
def f(rows):
    longest = max(len(r) for r in rows)
    out = torch.zeros(len(rows), longest)
    for i, r in enumerate(rows):
        out[i, : len(r)] = r
        print("row", i)
    return out * 2
---
f([T(3), T(2)])
f([T(3), T(2)])
f([T(1), T(4), T(2)])
### non maximum suppression
def f(boxes, scores):
    order = scores.argsort(descending=True).tolist()
    keep = []
    while order:
        i = order.pop(0)
        keep.append(i)
        order = [j for j in order if (boxes[i] - boxes[j]).abs().sum() > 1.0]
    return boxes[keep] * 2, keep
---
f(T(4, 2), T(4))
f(T(4, 2), T(4))
f(T(5, 2), T(5))
### k-means
def f(x):
    centers = x[:2].clone()
    for it in range(4):
        d = torch.cdist(x, centers)
        a = d.argmin(1)
        new = torch.stack([x[a == k].mean(0) if (a == k).any() else centers[k] for k in range(2)])
        if torch.allclose(new, centers):
            break
        centers = new
    return centers, a
---
f(T(6, 3))
f(T(7, 3))
f(X)
### batch statistics by item
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = 0.0
    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean().item()
        return x - self.mean
net = Norm()
f = net.forward
---
f(X)
f(Y)
f(X)
### exponential moving average of weights
a, b = nn.Linear(3, 3), nn.Linear(3, 3)
def f(x):
    y = a(x)
    print("update")
    with torch.no_grad():
        for p, q in zip(a.parameters(), b.parameters()):
            q.mul_(0.5).add_(p, alpha=0.5)
    return y + b(x)
---
f(X)
f(Y)
### a module with a counter buffer
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        self.steps += 1
        if self.steps.item() % 2 == 0:
            print("even")
            return self.fc(x)
        return self.fc(x) * 2
net = Net()
f = net.forward
---
f(X)
f(X)
f(X)
f(Y)
### train and eval
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        y = self.drop(self.fc(x))
        print("training", self.training)
        return y + 1
net = Net()
f = net.forward
---
f(X)
net.eval() and None
f(X)
net.train() and None
f(X)
### a module dict chosen by a string
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 1), "b": nn.Linear(3, 2)})
    def forward(self, x, task):
        print("task", task)
        return self.heads[task](x) * 2
net = Net()
f = net.forward
---
f(X, "a")
f(X, "b")
f(X, "a")
f(X, "c")
### outputs as a dataclass
@dataclasses.dataclass
class Output:
    logits: typing.Any
    loss: typing.Any = None
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
    def forward(self, x, labels=None):
        logits = self.fc(x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits, labels)
            print("loss", loss.item() > 0)
        return Output(logits, loss)
net = Net()
f = net.forward
---
f(X)
f(X, torch.tensor([0, 1]))
f(X)
f(Y, torch.tensor([2, 3]))
### hidden states in a list
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
    def forward(self, x, output_hidden=False):
        hidden = () if output_hidden else None
        for i, layer in enumerate(self.layers):
            if output_hidden:
                hidden = hidden + (x,)
            x = layer(x)
            print("layer", i)
        return (x, hidden) if output_hidden else (x,)
net = Net()
f = net.forward
---
f(X)
f(X, True)
f(X)
f(X, output_hidden=True)
### weight sharing and a tied head
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.emb.weight
    def forward(self, ids):
        h = self.emb(ids)
        print(self.head.weight is self.emb.weight)
        return self.head(h).sum()
net = Net()
f = net.forward
def train(g, ids):
    net.zero_grad()
    g(ids).backward()
    return net.emb.weight.grad
---
train(f, torch.tensor([0, 1]))
train(f, torch.tensor([2, 1]))
### newton's method
def f(x):
    y = x.abs() + 1
    r = y.clone()
    for i in range(20):
        new = 0.5 * (r + y / r)
        if torch.max(torch.abs(new - r)) < 1e-6:
            print("converged")
            break
        r = new
    return r
---
f(X)
f(X * 100)
f(X)
### line search
def f(x):
    t = 1.0
    value = (x ** 2).sum()
    while ((x - t * 2 * x) ** 2).sum() > value - 0.5 * t * (4 * x ** 2).sum():
        t *= 0.5
    return x - t * 2 * x, t
---
f(X)
f(Y)
### game of life until still
def f(board):
    for generation in range(5):
        near = sum(board.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - board
        new = ((near == 3) | ((board == 1) & (near == 2))).float()
        if torch.equal(new, board):
            return board, generation
        board = new
    return board, -1
---
f((X > 0).float())
f((T(5, 5) > 0).float())
f(torch.zeros(4, 4))
### masked language model loss with a count
def f(logits, labels):
    mask = labels != -100
    n = mask.sum().item()
    if n == 0:
        return logits.sum() * 0
    loss = F.cross_entropy(logits[mask], labels[mask], reduction="sum")
    return loss / n
---
f(T(4, 5), torch.tensor([1, -100, 2, -100]))
f(T(4, 5), torch.tensor([-100, -100, -100, -100]))
f(T(4, 5), torch.tensor([1, 3, 2, 4]))
### timing of layers
import time
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.times = []
    def forward(self, x):
        for layer in self.layers:
            start = time.perf_counter()
            x = layer(x).relu()
            self.times.append(time.perf_counter() - start >= 0)
        return x
net = Net()
f = net.forward
---
f(X)
f(Y)
### tree recursion with a data branch
class Node(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.split = nn.Linear(3, 1)
        self.kids = nn.ModuleList(Node(depth - 1) for _ in range(2)) if depth else None
        self.value = nn.Parameter(torch.full((2,), float(depth)))
    def forward(self, x):
        if self.kids is None:
            return self.value * x.sum()
        if self.split(x).sum() > 0:
            return self.kids[0](x * 0.5)
        return self.kids[1](x * 2)
net = Node(3)
f = net.forward
---
f(X)
f(-X)
f(Y)
f(X)
### attention over chunks with a progress line
import sys
def f(x):
    out = []
    for i, part in enumerate(x.split(1)):
        s = (part @ x.T).softmax(-1)
        out.append(s @ x)
        sys.stdout.write(f"{i + 1}/{len(x)}\n")
    return torch.cat(out)
---
f(X)
f(X)
f(T(4, 3))
### reinforcement step with a random choice
policy = nn.Linear(3, 2)
def f(x):
    probs = policy(x).softmax(-1)
    dist = torch.distributions.Categorical(probs)
    action = dist.sample()
    logp = dist.log_prob(action)
    reward = 1.0 if action[0].item() == 0 else -1.0
    return -(logp * reward).sum(), action
---
f(X)
f(Y)
f(X)
### a tokenizer inside
vocab = {"a": 0, "b": 1, "c": 2}
emb = nn.Embedding(4, 3)
def f(text):
    ids = torch.tensor([vocab.get(w, 3) for w in text.split()])
    h = emb(ids)
    print("tokens", len(ids))
    return h.mean(0) * 2
---
f("a b c")
f("a b c")
f("c z")
f("b a c")
""")
