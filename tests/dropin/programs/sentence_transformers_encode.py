"""sentence-transformers: a compiled model encodes and compares sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a graph is made of nodes and edges the cat sleeps on mat".split()


def main(backend: str, folder: Path) -> Any:
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder / "model")
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
    )
    BertModel(config).save_pretrained(folder / "model")
    body = Transformer(str(folder / "model"), max_seq_length=16)
    model = SentenceTransformer(modules=[body, Pooling(16), Normalize()], device="cpu")
    model.compile(backend=backend)
    sentences = ["a graph is made of nodes", "the cat sleeps on a mat", "a mat is a mat and the cat"]
    found = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
    again = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
    return {"vectors": found, "again": again, "similarity": model.similarity(found, found)}
