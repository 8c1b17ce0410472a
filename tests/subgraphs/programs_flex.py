"""flex_attention, with functions for scores and masks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)
from torch.utils.checkpoint import checkpoint

from .check import Made, program

LENGTH = 8


def _qkv(
    *, heads: int = 2, groups: int | None = None, grad: bool = False, batch: int = 1, **options: Any
) -> Any:
    key = (batch, heads if groups is None else groups, LENGTH, 4)
    sizes = [(batch, heads, LENGTH, 4), key, key]
    return tuple(torch.randn(*size, **options).requires_grad_(grad) for size in sizes)


def _mask(function: Callable[..., Any], batch: int | None = None, heads: int | None = None) -> BlockMask:
    return create_block_mask(function, batch, heads, LENGTH, LENGTH, device="cpu", BLOCK_SIZE=4)


def _causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def _window(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q - k).abs() <= 3


def _relative(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + (q - k) * 0.1


@program
def flex_plain() -> Made:
    return lambda q, k, v: flex_attention(q, k, v), [_qkv(), _qkv()], []


@program
def flex_score() -> Made:
    return lambda q, k, v: flex_attention(q * 2, k, v, score_mod=_relative).sin(), [_qkv(), _qkv()], []


@program
def flex_score_lambda() -> Made:
    def f(q: Any, k: Any, v: Any, cap: float) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: cap * torch.tanh(s / cap))

    return f, [(*_qkv(), 2.0), (*_qkv(), 2.0)], []


@program
def flex_score_where() -> Made:
    def mod(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return torch.where(q >= k, score, -float("inf"))

    return lambda q, k, v: flex_attention(q, k, v, score_mod=mod), [_qkv()], []


@program
def flex_score_of_a_buffer() -> Made:
    slopes = torch.tensor([0.5, 0.25])

    def f(q: Any, k: Any, v: Any) -> Any:
        def mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return score + slopes[h] * (j - i)

        return flex_attention(q, k, v, score_mod=mod)

    return f, [_qkv(), _qkv()], []


@program
def flex_score_of_two_buffers() -> Made:
    bias, table = torch.randn(2, LENGTH, LENGTH), torch.randn(2 * LENGTH)

    def mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + bias[h, i, j] * table[i - j + LENGTH] + bias[0, i, 1]

    return lambda q, k, v: flex_attention(q, k, v, score_mod=mod), [_qkv()], []


@program
def flex_score_of_a_computed_buffer() -> Made:
    def f(q: Any, k: Any, v: Any, x: Any) -> Any:
        bias = x.sin() + 1
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * bias[b, h, i]) + bias.sum()

    return f, [(*_qkv(), torch.rand(1, 2, LENGTH)), (*_qkv(), torch.rand(1, 2, LENGTH))], []


@program
def flex_score_of_a_module() -> Made:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("slopes", torch.tensor([0.5, 0.25]))
            self.scale = 0.5

        def mod(self, score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return score + self.slopes[h] * (j - i) * self.scale

        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return flex_attention(q, k, v, score_mod=self.mod)

    return Attention(), [_qkv(), _qkv()], []


@program
def flex_score_partial() -> Made:
    def mod(score: Any, b: Any, h: Any, i: Any, j: Any, factor: float) -> Any:
        return score * factor + h

    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=functools.partial(mod, factor=0.5))

    return f, [_qkv()], []


@program
def flex_mask_from_outside() -> Made:
    mask = _mask(_causal)
    return lambda q, k, v: flex_attention(q, k, v, block_mask=mask), [_qkv(), _qkv()], []


@program
def flex_mask_as_argument() -> Made:
    def f(q: Any, k: Any, v: Any, mask: BlockMask) -> Any:
        return flex_attention(q, k, v, block_mask=mask, score_mod=_relative)

    return f, [(*_qkv(), _mask(_causal)), (*_qkv(), _mask(_causal))], []


@program
def flex_mask_made_inside() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=_mask(_causal))

    return f, [_qkv(), _qkv()], []


@program
def flex_mask_of_documents() -> Made:
    def f(q: Any, k: Any, v: Any, documents: Any) -> Any:
        def same(b: Any, h: Any, i: Any, j: Any) -> Any:
            return documents[i] == documents[j]

        return flex_attention(q, k, v, block_mask=_mask(and_masks(same, _causal)))

    documents = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2])
    return f, [(*_qkv(), documents), (*_qkv(), documents.flip(0))], []


@program
def flex_mask_of_a_batch() -> Made:
    lengths = torch.tensor([3, 8])

    def padding(b: Any, h: Any, i: Any, j: Any) -> Any:
        return j < lengths[b]

    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=_mask(padding, batch=2, heads=2))

    return f, [_qkv(batch=2), _qkv(batch=2)], []


@program
def flex_masks_together() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(
            q, k, v, block_mask=_mask(or_masks(and_masks(_causal, _window), lambda b, h, i, j: j < 2))
        )

    return f, [_qkv()], []


@program
def flex_mask_of_a_size() -> Made:
    def f(q: Any, k: Any, v: Any, width: int) -> Any:
        def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
            return (i - j <= width) & (i >= j)

        return flex_attention(q, k, v, block_mask=_mask(mask))

    return f, [(*_qkv(), 3), (*_qkv(), 2)], []


@program
def flex_mask_of_kv_blocks() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        numbers = torch.ones(1, 1, 2, dtype=torch.int32)
        places = torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
        mask = BlockMask.from_kv_blocks(numbers, places, BLOCK_SIZE=4, mask_mod=_causal)
        return flex_attention(q, k, v, block_mask=mask)

    return f, [_qkv()], []


@program
def flex_block_mask_alone() -> Made:
    def f(x: Any) -> Any:
        mask = _mask(_causal)
        return x * mask.kv_num_blocks.sum(), mask.to_dense(), mask.shape

    return f, [(torch.rand(3),)], []


@program
def flex_block_mask_returned() -> Made:
    def f(x: Any) -> Any:
        mask = create_block_mask(_window, None, None, LENGTH, LENGTH, device="cpu")
        return x + 1, mask.kv_indices, mask.full_kv_num_blocks, mask.BLOCK_SIZE

    return f, [(torch.rand(3),)], []


@program
def flex_dense_mask() -> Made:
    def f(x: Any) -> Any:
        return x * create_mask(_causal, 1, 1, LENGTH, LENGTH, device="cpu")

    return f, [(torch.rand(LENGTH),)], []


@program
def flex_dense_mask_of_a_score() -> Made:
    slopes = torch.tensor([1.0, 2.0])

    def mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return torch.where(slopes[h] * i >= j, score, -float("inf"))

    return lambda x: x * create_mask(mod, 1, 2, LENGTH, LENGTH, device="cpu"), [(torch.rand(LENGTH),)], []


@program
def flex_grouped_queries() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, enable_gqa=True, score_mod=_relative)

    return f, [_qkv(heads=4, groups=2), _qkv(heads=4, groups=2)], []


@program
def flex_scale_and_options() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, scale=0.3, kernel_options={"PRESCALE_QK": True})

    return f, [_qkv()], []


@program
def flex_aux() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True), score_mod=_relative)
        return out, aux.lse, aux.max_scores

    return f, [_qkv(), _qkv()], []


@program
def flex_double() -> Made:
    return lambda q, k, v: flex_attention(q, k, v, score_mod=_relative), [_qkv(dtype=torch.float64)], []


@program
def flex_half() -> Made:
    return lambda q, k, v: flex_attention(q, k, v, score_mod=_relative), [_qkv(dtype=torch.bfloat16)], []


@program
def flex_other_strides() -> Made:
    def f(x: Any) -> Any:
        q, k, v = x.view(2, LENGTH, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return flex_attention(q, k, v, score_mod=_relative).transpose(1, 2).reshape(2, LENGTH, 8)

    return f, [(torch.randn(2, LENGTH, 24),), (torch.randn(2, LENGTH, 24),)], []


@program
def flex_several_layers() -> Made:
    bias = torch.randn(3, 2, LENGTH)

    def f(q: Any, k: Any, v: Any) -> Any:
        for layer in range(3):
            q = q + flex_attention(q, k, v, score_mod=lambda s, b, h, i, j, at=layer: s + bias[at, h, i])
        return q

    return f, [_qkv(), _qkv()], []


@program
def flex_in_a_model() -> Made:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into = nn.Linear(8, 24)
            self.out = nn.Linear(8, 8)

        def forward(self, x: Any, mask: Any) -> Any:
            q, k, v = self.into(x).view(1, LENGTH, 3, 2, 4).permute(2, 0, 3, 1, 4)
            return x + self.out(
                flex_attention(q, k, v, block_mask=mask).transpose(1, 2).reshape(1, LENGTH, 8)
            )

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Layer(), Layer()])

        def forward(self, x: Any) -> Any:
            mask = _mask(_causal)
            for layer in self.layers:
                x = layer(x, mask)
            return x

    model = Model().requires_grad_(False)
    return model, [(torch.rand(1, LENGTH, 8),), (torch.rand(1, LENGTH, 8),)], []


def _operator(q: Any, k: Any, v: Any, score: Any, mask: BlockMask) -> Any:
    """The operator itself: on a CPU, `flex_attention` refuses tensors that require gradients."""
    options = {"OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False, "BACKEND": "AUTO"}
    found = torch.ops.higher_order.flex_attention(q, k, v, score, mask.as_tuple(), 0.5, options)
    return found[0], found[1]


@program
def flex_gradients() -> Made:
    mask = _mask(_causal)

    def f(q: Any, k: Any, v: Any) -> Any:
        out, lse = _operator(q, k, v, _relative, mask)
        return out * 2, lse * math.log(2)

    return f, [_qkv(grad=True), _qkv(grad=True)], []


@program
def flex_gradients_of_a_buffer() -> Made:
    mask = _mask(_causal)

    def f(q: Any, k: Any, v: Any, bias: Any) -> Any:
        table = bias.sin()
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + table[h, i] * s, block_mask=mask)

    return f, [(*_qkv(), torch.rand(2, LENGTH).requires_grad_()) for _ in range(2)], []


@program
def flex_gradients_of_a_parameter() -> Made:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.randn(2, LENGTH))

        def forward(self, q: Any, k: Any, v: Any) -> Any:
            mask = _mask(_causal)
            return flex_attention(q, k, v, lambda s, b, h, i, j: s * self.bias[h, j], block_mask=mask)

    model = Attention()
    return model, [_qkv(), _qkv()], model.parameters()


@program
def flex_gradients_of_groups() -> Made:
    mask = _mask(_causal)

    def f(q: Any, k: Any, v: Any) -> Any:
        return _operator(q * 2, k, v, _relative, mask)[0].cos()

    return f, [_qkv(heads=4, groups=2, grad=True)], []


@program
def flex_in_a_checkpoint() -> Made:
    mask = _mask(_causal)

    def f(q: Any, k: Any, v: Any) -> Any:
        def layer(q: Any, k: Any, v: Any) -> Any:
            return _operator(q.sin(), k, v, _relative, mask)[0].cos()

        return checkpoint(layer, q, k, v, use_reentrant=False)

    return f, [_qkv(grad=True)], []
