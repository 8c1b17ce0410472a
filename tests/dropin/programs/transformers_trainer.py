"""transformers: Trainer with torch_compile=True; training, evaluation, a saved model and its copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

BACKEND = "eager"  # accelerate has a list of names


class Rows(torch.utils.data.Dataset[Any]):
    def __init__(self, count: int) -> None:
        self.ids = torch.randint(1, 50, (count, 8))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = self.ids[index]
        return {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row[0] % 2}


def main(backend: str, folder: Path) -> Any:
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24
    )
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model = BertForSequenceClassification(config)
    arguments = TrainingArguments(
        output_dir=str(folder),
        torch_compile=True,
        torch_compile_backend=backend,
        use_cpu=True,
        max_steps=3,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        seed=3,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Rows(12), eval_dataset=Rows(8))
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    metrics = trainer.evaluate()
    trainer.save_model(str(folder / "saved"))
    saved = BertForSequenceClassification.from_pretrained(str(folder / "saved"))
    return {
        "losses": losses,
        "evaluation": metrics["eval_loss"],
        "names": sorted(saved.state_dict()),
        "weights": [saved.state_dict()[name] for name in sorted(saved.state_dict())],
        "the same model": trainer.accelerator.unwrap_model(trainer.model_wrapped) is model,
    }
