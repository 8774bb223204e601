"""A model of random weights and a tokenizer of bytes, for trainers: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import pytest


def tiny_tokenizer() -> Any:
    """Return a tokenizer with a token for each byte."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {
        token: number
        for number, token in enumerate(["<pad>", "<eos>", *alphabet])
    }
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=vocabulary, merges=[])
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    chat = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="<eos>",
        chat_template=chat,
    )


def tiny_model(vocabulary: int) -> Any:
    """Return a Llama with one layer of 16 numbers."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch").manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=128,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=1,
        )
    )
