"""Capture against torch.compile: how long does the first call of a compiled model take, and how much memory?

Without options: the *warm* capture of each model, in one process, in turns with torch.compile(backend="eager"), each
capture repeated after a reset; what is shown is the fastest first call of each less the time of a later call.

--cold       the first capture of a process, each in a process of its own, imports and all
--memory     the same, and by how much the peak of the process's memory grows, and what of that stays
--depth      Llama of 4, 8, 16 and 32 layers: the time has to grow linearly
--backend B  another backend for both, such as inductor; --cold shows the share that the front end has, too. "python"
             is one that returns the forward of the module that it is given, "reads" looks at all metadata first
--profile    where magneto's time goes, by the file of its sources (needs perf)
--plot FILE  the warm and the cold times as an SVG
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

Case = tuple[nn.Module | Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def adds(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5_000):
        x = torch.add(x, 1)
    return x


class Block(nn.Module):
    """A residual block of a ResNet."""

    def __init__(self, ins: int, outs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(ins, outs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outs), nn.BatchNorm2d(outs)])
        self.down = nn.Conv2d(ins, outs, 1, stride, bias=False) if ins != outs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + self.down(x))


def _mlp() -> Case:
    layers = [layer for _ in range(50) for layer in (nn.Linear(16, 16), nn.ReLU())]
    return nn.Sequential(*layers), (torch.randn(4, 16),), {}


def _encoder() -> Case:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 6), (torch.randn(2, 5, 16),), {}


def _resnet() -> Case:
    widths = [8, 8, 8, 16, 16, 32, 32, 64, 64]
    blocks = [Block(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:], strict=False)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, *head
        ),
        (torch.randn(2, 3, 64, 64),),
        {},
    )


def _transformer(name: str, layers: int = 0) -> Case:
    """A model of the transformers package: small widths, real depths."""
    import transformers as t

    ids = torch.randint(0, 100, (2, 8))
    common: dict[str, Any] = {
        "hidden_size": 32, "num_hidden_layers": layers or 12, "num_attention_heads": 4, "intermediate_size": 64,
        "vocab_size": 100, "max_position_embeddings": 64,
    }  # fmt: skip
    if name == "BERT":
        return t.BertModel(t.BertConfig(**common)), (), {"input_ids": ids}
    if name == "GPT-2":
        config = t.GPT2Config(n_embd=32, n_layer=12, n_head=4, vocab_size=100)
        return t.GPT2LMHeadModel(config), (), {"input_ids": ids, "use_cache": False}
    if name == "Llama":
        llama = t.LlamaConfig(**{**common, "num_hidden_layers": layers or 16}, num_key_value_heads=2)
        return t.LlamaForCausalLM(llama), (), {"input_ids": ids, "use_cache": False}
    if name == "Qwen3":
        qwen = t.Qwen3Config(**common, num_key_value_heads=2, head_dim=8)
        return t.Qwen3ForCausalLM(qwen), (), {"input_ids": ids, "use_cache": False}
    if name == "ViT":
        vit = {key: common[key] for key in list(common)[:4]}
        return (
            t.ViTModel(t.ViTConfig(**vit, image_size=32, patch_size=8)),
            (),
            {"pixel_values": torch.randn(2, 3, 32, 32)},
        )
    t5 = t.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=6, num_heads=4, vocab_size=100)
    return t.T5Model(t5), (), {"input_ids": ids, "decoder_input_ids": ids, "use_cache": False}


def _per_sample() -> Case:
    """The gradients of each sample: vmap of grad of a functional call."""
    layers = [layer for _ in range(10) for layer in (nn.Linear(16, 16), nn.Tanh())]
    model = nn.Sequential(*layers)
    params = {name: one.detach() for name, one in model.named_parameters()}

    def loss(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(torch.func.functional_call(model, params, (x,)), y)

    def gradients(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, x, y)

    return gradients, (params, torch.randn(4, 16), torch.randn(4, 16)), {}


CASES: dict[str, Callable[[], Case]] = {
    "5,000 adds": lambda: (adds, (torch.randn(4, 16),), {}),
    "MLP, 50 layers": _mlp,
    "nn.TransformerEncoder, 6": _encoder,
    "ResNet, 8 blocks": _resnet,
    "vmap(grad) of an MLP, 10 layers": _per_sample,
    "BERT, 12 layers": lambda: _transformer("BERT"),
    "GPT-2, 12 layers": lambda: _transformer("GPT-2"),
    "Llama, 16 layers": lambda: _transformer("Llama"),
    "Qwen3, 12 layers": lambda: _transformer("Qwen3"),
    "T5, 6+6 layers": lambda: _transformer("T5"),
    "ViT, 12 layers": lambda: _transformer("ViT"),
}
# Those of tests/models, as small as there: one call of each, without a mask, a cache or labels.
MODELS = [
    "BERT", "RoBERTa", "DistilBERT", "ALBERT", "ELECTRA", "DeBERTa-v2", "MobileBERT", "GPT-2", "GPT-Neo", "OPT",
    "Llama", "Mistral", "Qwen2", "Qwen3", "Gemma2", "Phi", "Mixtral", "Mamba", "T5", "BART", "Whisper", "ViT", "Swin",
    "CLIP", "SegFormer", "diffusers, UNet2D", "diffusers, DiT", "x-transformers, a decoder", "torch_geometric, a GCN",
    "ResNet", "U-Net", "MLP-Mixer", "LSTM", "GRU",
]  # fmt: skip
DEPTHS = {f"Llama, {n} layers": n for n in (4, 8, 16, 32)}


class _FirstCall(Exception):
    """Carries what a model was called with."""


def _model(name: str) -> Case:
    """A model of tests/models, with the arguments of its first call."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from models import cases

    def listen(*args: Any, **kwargs: Any) -> None:
        raise _FirstCall(args, kwargs)

    target, drive = cases.CASES[name].build()
    try:
        drive(listen, 0)
    except _FirstCall as call:
        return target, call.args[0], call.args[1]
    raise ValueError(f"{name} is not called")


def make(name: str) -> Case:
    """The case of that name, ready to be called."""
    torch.manual_seed(0)
    if name in MODELS:
        return _model(name)
    model, args, kwargs = _transformer("Llama", DEPTHS[name]) if name in DEPTHS else CASES[name]()
    return (model.eval() if isinstance(model, nn.Module) else model), args, kwargs


def python_backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """A backend that leaves everything as it is."""
    return module.forward


def reading_backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """A backend that looks at the metadata of all nodes, and at the code."""
    for node in module.graph.nodes:
        for _ in node.meta.items():
            pass
    assert module.code
    return module.forward


BACKENDS: dict[str, Callable[..., Any]] = {"python": python_backend, "reads": reading_backend}


def compiler(which: str, model: Any, backend: Any) -> Callable[[], Callable[..., Any]]:
    """What forgets all captures and compiles the model anew."""
    backend = BACKENDS.get(backend, backend)
    if which == "magneto":
        import magneto

        def ours() -> Callable[..., Any]:
            magneto.reset()
            return magneto.compile(model, backend=backend)

        return ours
    from torch import _dynamo

    def theirs() -> Callable[..., Any]:
        _dynamo.reset()
        return torch.compile(model, backend=backend)

    return theirs


def fastest(compile_: Callable[[], Callable[..., Any]], case: Case, repeat: int) -> tuple[float, float]:
    """The fastest first call and the fastest later call, in seconds; short ones are repeated more often."""
    first = later = float("inf")
    count, begun = 0, time.perf_counter()
    while count < repeat or (count < 10 * repeat and time.perf_counter() - begun < 0.3):
        count += 1
        compiled = compile_()
        start = time.perf_counter()
        compiled(*case[1], **case[2])
        first = min(first, time.perf_counter() - start)
        for _ in range(3):
            start = time.perf_counter()
            compiled(*case[1], **case[2])
            later = min(later, time.perf_counter() - start)
    return first, later


def warm(name: str, options: argparse.Namespace) -> tuple[float, float]:
    """The time of torch.compile's capture and of ours, in seconds."""
    case = make(name)
    theirs, ours = (compiler(which, case[0], options.backend) for which in ("torch", "magneto"))
    fastest(theirs, case, 1)  # both warm: all imports made, all caches filled
    fastest(ours, case, 1)
    their_first, their_later = fastest(theirs, case, options.repeat)
    our_first, our_later = fastest(ours, case, 2 * options.repeat)
    return their_first - their_later, our_first - our_later


def _memory(field: str) -> float:
    text = Path("/proc/self/status").read_text()
    return float(re.findall(rf"{field}:\s+(\d+)", text)[0]) / 1024


def child(name: str, which: str, backend: Any) -> None:
    """One first capture, in a process of its own: prints seconds, MB by which the peak has grown, and MB that stay."""
    model, args, kwargs = make(name)
    backend = BACKENDS.get(backend, backend)
    with torch.no_grad():
        model(*args, **kwargs)  # what eager needs is there
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        start = time.perf_counter()
        if which == "magneto":
            import magneto

            compiled = magneto.compile(model, backend=backend)
        else:
            compiled = torch.compile(model, backend=backend)
        compiled(*args, **kwargs)
        seconds = time.perf_counter() - start
        peak = _memory("VmHWM")
        gc.collect()
        print(seconds, max(peak - before, 0.0), max(_memory("VmRSS") - before, 0.0))


def cold(name: str, which: str, backend: str, options: argparse.Namespace) -> tuple[float, float, float]:
    """Seconds, MB at the peak, MB that stay: the least of several processes, which share no caches on the disk."""
    found = []
    for _ in range(options.processes):
        command = [sys.executable, __file__, "--child", name, which, "--backend", backend]
        with tempfile.TemporaryDirectory() as folder:
            variables = os.environ | {
                "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
                "TORCHINDUCTOR_CACHE_DIR": folder,
            }
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
        seconds, peak, rest = map(float, done.stdout.split()[-3:])
        found.append((seconds, peak, rest))
    seconds, peak, rest = map(min, zip(*found, strict=True))
    return seconds, peak, rest


Rows = list[tuple[str, float, float]]


def table(
    title: str, unit: str, scale: float, names: list[str], measure: Callable[[str], tuple[float, float]]
) -> Rows:
    """Measure and print, a line for each case."""
    print(f"\n{title}\n{'case':26}{'torch.compile':>16}{'magneto':>12}{'ratio':>8}")
    rows: Rows = []
    for name in names:
        theirs, ours = measure(name)
        rows.append((name, theirs, ours))
        print(
            f"{name:26}{theirs * scale:14.1f}{unit}{ours * scale:10.2f}{unit}{theirs / ours:8.0f}", flush=True
        )
    ratios = [theirs / max(ours, 1e-9) for _, theirs, ours in rows]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the ratios {mean:.0f}, the smallest {min(ratios):.0f}")
    return rows


# ---- where the time goes ----


def _functions() -> dict[str, str]:
    """The folder that each function of the C sources is in."""
    sources = Path(__file__).parent.parent / "csrc"
    found: dict[str, str] = {}
    for path in sources.glob("**/*.c"):
        for name in re.findall(r"^(\w+)\(", path.read_text(), re.MULTILINE):
            found.setdefault(name, path.relative_to(sources).parts[0])
    return found


def profile(name: str, options: argparse.Namespace) -> None:
    """Sample captures with perf, and print the share of each part."""
    if shutil.which("perf") is None:
        print("(perf is not installed: no profile)")
        return
    case = make(name)
    ours = compiler("magneto", case[0], "eager")
    fastest(ours, case, 2)
    with tempfile.NamedTemporaryFile() as data:
        perf = subprocess.Popen(
            ["perf", "record", "-q", "-o", data.name, "-F", "5000", "-p", str(os.getpid())],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        for _ in range(options.repeat * 30):
            ours()(*case[1], **case[2])
        perf.send_signal(signal.SIGINT)
        perf.wait()
        text = subprocess.run(
            ["perf", "report", "-i", data.name, "--no-children", "--stdio", "--sort", "dso,symbol", "-t", ";"],
            capture_output=True, text=True,
        ).stdout  # fmt: skip
    functions = _functions()
    shares: Counter[str] = Counter()
    for line in text.splitlines():
        match = re.match(r"\s*([\d.]+)%\s*;\s*([^;]+?)\s*;\[.\] ([\w.]+)", line)
        if match is None:
            continue
        share, library, symbol = float(match[1]), match[2], match[3].split(".")[0]
        if library.startswith("_core"):
            shares[functions.get(symbol, "other C of ours")] += share
        elif "python3" in library:
            shares["CPython, for all of the above"] += share
        elif "torch" in library or "c10" in library:
            shares["torch (twins, state, and the model itself once)"] += share
        else:
            shares["libc and the kernel"] += share
    print(f"\nwhere the time of capturing {name} goes")
    for part, share in shares.most_common():
        print(f"{part:50}{share:6.1f}%")


# ---- the plot ----


def plot(path: str, warm_rows: Rows, cold_rows: Rows) -> None:
    """Two groups of bars on a logarithmic scale, as an SVG."""
    width, left, row, top = 860, 190, 34, 60
    groups = [
        ("warm: later captures in one process", warm_rows),
        ("cold: the first capture of a process", cold_rows),
    ]
    values = [value for _, rows in groups for _, *pair in rows for value in pair]
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values)))
    span = math.log10(high / low)

    def x(value: float) -> float:
        return left + (width - left - 120) * math.log10(max(value, low) / low) / span

    lines, y = [], top
    for title, rows in groups:
        lines.append(f'<text x="{left}" y="{y}" class="h">{title}</text>')
        y += 14
        for name, theirs, ours in rows:
            lines.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{name}</text>')
            for index, (value, color) in enumerate(((theirs, "#c4704f"), (ours, "#2f6f9f"))):
                bar = f'x="{left}" y="{y + 3 + 12 * index}" width="{x(value) - left:.1f}" height="11"'
                lines.append(f'<rect {bar} fill="{color}"/>')
            label = f"{theirs * 1e3:,.0f} ms, {ours * 1e3:,.1f} ms: {theirs / ours:.0f}x"
            lines.append(f'<text x="{x(theirs) + 6:.1f}" y="{y + 17}" class="v">{label}</text>')
            y += row
        y += 30
    ticks, tick = [], low
    while tick <= high * 1.01:
        ticks.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{y - 30}" stroke="#ddd"/>'
            f'<text x="{x(tick):.1f}" y="{y - 12}" text-anchor="middle" class="v">{tick * 1e3:g} ms</text>'
        )
        tick *= 10
    style = "text{font:12px sans-serif;fill:#333}.h{font-weight:bold}.v{font-size:11px;fill:#666}"
    Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" viewBox="0 0 {width} {y}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{left}" y="24" class="h">Time to capture a model, backend eager (logarithmic)</text>'
        f'<rect x="{left}" y="32" width="11" height="11" fill="#c4704f"/>'
        f'<text x="{left + 16}" y="42">torch.compile</text>'
        f'<rect x="{left + 110}" y="32" width="11" height="11" fill="#2f6f9f"/>'
        f'<text x="{left + 126}" y="42">magneto</text>'
        + "".join(ticks) + "".join(lines) + "</svg>\n"
    )  # fmt: skip
    print(f"wrote {path}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="for each cold measurement")
    parser.add_argument("--only", default="", help="just the cases whose name has one of these in it, by |")
    parser.add_argument("--backend", default="eager")
    for flag in ("--cold", "--memory", "--depth", "--profile"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--plot", metavar="FILE")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if options.child:
        child(*options.child, options.backend)
        return 0
    print(
        f"capture against torch.compile {torch.__version__}, backend {options.backend}, on {platform.machine()}"
    )
    names = [name for name in (*CASES, *MODELS) if any(part in name for part in options.only.split("|"))]
    plain = not (options.cold or options.memory or options.depth or options.profile)
    with torch.no_grad():
        warm_rows = cold_rows = []
        if plain:
            warm_rows = table("warm", "ms", 1e3, names, lambda name: warm(name, options))
        if options.depth:
            rows = table("by depth, warm", "ms", 1e3, list(DEPTHS), lambda name: warm(name, options))
            print("per layer: " + ", ".join(f"{ours / DEPTHS[name] * 1e3:.2f}ms" for name, _, ours in rows))
        if options.profile:
            for name in names:
                profile(name, options)
        if options.cold or options.memory or options.plot:
            peaks: dict[str, tuple[float, float]] = {}
            rests: dict[str, tuple[float, float]] = {}

            def first(name: str, backend: str) -> tuple[float, float]:
                (theirs, their_peak, their_rest), (ours, our_peak, our_rest) = (
                    cold(name, which, backend, options) for which in ("torch", "magneto")
                )
                peaks[name] = their_peak, our_peak
                rests[name] = their_rest, our_rest
                return theirs, ours

            title = "cold, each in its own process"
            cold_rows = table(title, "ms", 1e3, names, lambda name: first(name, options.backend))
            if options.backend != "eager":
                alone = table("the front end alone", "ms", 1e3, names, lambda name: first(name, "eager"))
                for (name, *total), (_, *part) in zip(cold_rows, alone, strict=True):
                    theirs, ours = (100 * front / whole for front, whole in zip(part, total, strict=True))
                    print(
                        f"{name}: the front end has {theirs:.0f}% of torch.compile's time, {ours:.0f}% of ours"
                    )
            if options.memory:
                table("growth of the peak of memory", "MB", 1.0, names, lambda name: peaks[name])
                table("memory that stays", "MB", 1.0, names, lambda name: rests[name])
    if options.plot:
        plot(options.plot, warm_rows, cold_rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
