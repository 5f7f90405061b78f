"""Training with the Hugging Face `Trainer`: a tiny language model learns to count, from a configuration, nothing is downloaded."""

import argparse

import svc
import torch
from svc.integrations.transformers import SvcCallback
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

WORDS, LENGTH = 32, 16


class Counting(Dataset):
    """Rows like 5 6 7 8 …, from every start."""

    def __len__(self):
        return 8 * WORDS

    def __getitem__(self, index):
        row = (torch.arange(LENGTH) + index) % WORDS
        return {"input_ids": row, "labels": row}


def main():
    parser = argparse.ArgumentParser(description="Train a tiny language model with the Hugging Face Trainer.")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the data (3)")
    options = parser.parse_args()

    config = GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    args = TrainingArguments(
        output_dir=svc.checkpoint_dir(),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=16,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_steps=8,
        save_strategy="epoch",
        save_total_limit=2,
        report_to="none",
        use_cpu=not torch.cuda.is_available(),  # or several ranks on a CPU would each train alone
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=0,
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=args, train_dataset=Counting(), callbacks=[SvcCallback()])
    latest = svc.latest_checkpoint()
    if latest is not None:
        print("continuing from", latest)
    trainer.train(resume_from_checkpoint=latest)


if __name__ == "__main__":
    main()
