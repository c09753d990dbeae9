"""A tiny GPT-2 with random weights, trained and evaluated by Hugging Face's Trainer."""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Text(torch.utils.data.Dataset):
    def __init__(self, count):
        self.tokens = torch.randint(64, (count, 16))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, at):
        return {"input_ids": self.tokens[at], "labels": self.tokens[at]}


torch.manual_seed(1)
config = GPT2Config(
    vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
)
arguments = TrainingArguments(
    output_dir=sys.argv[1],
    num_train_epochs=2,
    per_device_train_batch_size=8,
    per_device_eval_batch_size=8,
    gradient_accumulation_steps=2,
    logging_steps=2,
    eval_strategy="epoch",
    save_strategy="epoch",
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
)
Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Text(64), eval_dataset=Text(24)).train()
