"""Quantised, sparse, nested, conjugate and other tensors: made in captured code, given to it, and found by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._vmap_internals import vmap

import magneto

X = torch.arange(4.0)
SQUARE = X.reshape(2, 2)


class Sub(torch.Tensor):
    pass


def quantised(x: torch.Tensor) -> torch.Tensor:
    return torch.quantize_per_tensor(x, 0.5, 1, torch.quint8)


Q = quantised(X)
COO, CSR, MKLDNN = SQUARE.to_sparse(), SQUARE.to_sparse_csr(), SQUARE.to_mkldnn()
NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
JAGGED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
COMPLEX = torch.tensor([1 + 2j])


def look(y: torch.Tensor) -> Any:
    return (
        y,
        y.dtype,
        y.layout,
        y.is_quantized,
        y.is_sparse,
        y.is_mkldnn,
        y.is_nested,
        y.device,
        y.requires_grad,
    )


def per_channel(x: torch.Tensor) -> torch.Tensor:
    scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([0, 1])
    return torch.quantize_per_channel(x.reshape(2, 2), scales, zeros, 0, torch.qint8)


def look_at_keys(x: torch.Tensor) -> torch.Tensor:
    print(torch._C._dispatch_keys(x))
    return x


PROGRAMS: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "quantised": (lambda x: look(quantised(x)), X),
    "quantised and back": (lambda x: quantised(x).dequantize() + x, X),
    "parameters of a quantised": (lambda x: (quantised(x).qscheme(), quantised(x).q_scale(), quantised(x).int_repr()), X),
    "quantised by channel": (lambda x: look(per_channel(x)), X),
    "quantised dynamically": (lambda x: look(torch.quantize_per_tensor_dynamic(x, torch.quint8, False)), X),
    "quantised list": (
        lambda x: torch.quantize_per_tensor([x, x], torch.tensor([0.5, 0.5]), torch.tensor([0, 0]), torch.quint8), X,
    ),
    "empty quantised": (
        lambda x: torch._empty_affine_quantized((2,), scale=0.5, zero_point=1, dtype=torch.quint8).is_quantized, X,
    ),
    "quantised argument": (lambda y: (look(y), y.qscheme(), y.dequantize()), Q),
    "quantised global": (lambda x: (look(Q), Q.dequantize() + x), X),
    "fake quantised": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255), X),
    "to_sparse": (lambda m: (look(m.to_sparse()), m.to_sparse().to_dense()), SQUARE),
    "to_sparse_csr": (lambda m: look(m.to_sparse_csr()), SQUARE),
    "to_mkldnn": (lambda m: look(m.to_mkldnn()), SQUARE),
    "coo argument": (lambda s: (look(s), s.to_dense()), COO),
    "csr argument": (lambda s: (look(s), s.to_dense()), CSR),
    "mkldnn argument": (lambda s: (look(s), s.to_dense()), MKLDNN),
    "coo global": (lambda m: m + COO.to_dense(), SQUARE),
    "sparse product": (lambda m: torch.sparse.mm(m.to_sparse(), m), SQUARE),
    "sparse_coo_tensor": (lambda x: look(torch.sparse_coo_tensor(torch.tensor([[0, 1]]), x[:2], (3,))), X),
    "sparse zeros": (lambda x: look(torch.zeros(2, 2, layout=torch.sparse_coo)), X),
    "nested argument": (lambda n: (n.is_nested, n.layout, n * 2), NESTED),
    "jagged argument": (lambda n: (n.is_nested, n.layout, (n * 2).values()), JAGGED),
    "nested": (lambda x: torch.nested.nested_tensor([x, x[:2]]).is_nested, X),
    "conjugate": (lambda c: (c.conj().is_conj(), c.conj(), c.conj().imag.is_neg(), c.conj().imag), COMPLEX),
    "conjugate argument": (lambda c: (c.is_conj(), c * 2, c.resolve_conj().is_conj()), COMPLEX.conj()),
    "float8": (lambda x: (x.to(torch.float8_e4m3fn), x.to(torch.float8_e4m3fn).dtype), X),
    "meta": (lambda x: (x.to("meta").device, x.to("meta") + 1, torch.ones(2, device="meta") * 2), X),
    "mixed with meta": (lambda x: x + torch.ones(4, device="meta"), X),
    "subclass argument": (lambda s: (type(s), type(s + 1), s), X.as_subclass(Sub)),
    "subclass": (lambda x: (type(x.as_subclass(Sub)), x.as_subclass(Sub) + 1), X),
    "the wrappers of the older vmap": (
        lambda m: (vmap(lambda x: x + x.is_contiguous(), in_dims=1)(m), vmap(lambda x: x.is_contiguous() + x * 0)(m)),
        SQUARE,
    ),
    "an axis that the older vmap has not": (lambda m: vmap(lambda x: x, out_dims=-4)(m), SQUARE),
    "what only the older vmap refuses": (
        lambda m: vmap(lambda x: (x.is_contiguous(memory_format=torch.channels_last), x)[1])(m), SQUARE,
    ),
    "functional": (lambda x: torch._from_functional_tensor(look_at_keys(torch._to_functional_tensor(x)) + 1), X),
    "no dimensions": (lambda x: (x.sum()._is_view(), x.sum().shape, x[0]._is_view(), x[0]), X),
    "storage_type": (lambda x: x.storage_type(), X),
    "storage": (lambda x: (type(x.storage()), type(x.untyped_storage()), x.untyped_storage().nbytes()), X),
}  # fmt: skip


def outcome(function: Callable[..., Any], x: torch.Tensor) -> str:
    try:
        return repr(function(x))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_program(name: str) -> None:
    function, x = PROGRAMS[name]
    compiled = magneto.compile(function, backend="eager")
    wanted = outcome(function, x)
    assert [outcome(compiled, x) for _ in range(2)] == [wanted] * 2
