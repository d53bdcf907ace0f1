"""A small GPT in one file: a pre-norm decoder with tied embeddings, as a LightningModule.

It knows nothing of where its tokens come from and nothing of who watches it train.

Shapes: B sequences, T tokens, C embedding dimensions, H heads, V vocabulary entries.
"""

import math

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn

Batch = dict[str, Tensor]
"""`input_ids` and `labels`, both (B, T) int64; the labels are the inputs one token later."""


class CausalSelfAttention(nn.Module):
    """Multi-head attention in which a token sees itself and the tokens before it."""

    def __init__(self, num_heads: int, embedding_dim: int, dropout: float) -> None:
        super().__init__()
        if embedding_dim % num_heads:
            raise ValueError(f"embedding_dim={embedding_dim} must be a multiple of num_heads={num_heads}")
        self.num_heads = num_heads
        self.dropout = dropout
        self.qkv = nn.Linear(embedding_dim, 3 * embedding_dim)
        self.projection = nn.Linear(embedding_dim, embedding_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        batch, length, channels = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.num_heads, channels // self.num_heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (B, H, T, C / H)
        heads = self.attend(query, key, value)
        mixed: Tensor = self.projection(heads.transpose(1, 2).reshape(batch, length, channels))
        return mixed

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Map three (B, H, T, C / H) to one."""
        # A function, not a module: it can't know by itself that evaluation wants no dropout.
        dropout_p = self.dropout if self.training else 0.0
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=dropout_p)


class Block(nn.Module):
    """Attention, then a feed-forward layer; each reads a normalised copy and adds to the residual stream."""

    def __init__(self, attention: nn.Module, activation: nn.Module, embedding_dim: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(embedding_dim)
        self.attention = attention
        self.feed_forward_norm = nn.LayerNorm(embedding_dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(embedding_dim, 4 * embedding_dim),
            activation,
            nn.Linear(4 * embedding_dim, embedding_dim),
        )
        self.residual_dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        attended: Tensor = x + self.residual_dropout(self.attention(self.attention_norm(x)))
        fed: Tensor = attended + self.residual_dropout(self.feed_forward(self.feed_forward_norm(attended)))
        return fed


class GPT(LightningModule):
    """A GPT-2 style language model that predicts the next token.

    A subclass may name another attention, built with the same arguments, or another activation.

    Args:
        dropout: of the embeddings and of what each layer adds to the residual stream.
        attention_dropout: of the attention weights; None for the same as `dropout`.

    Raises:
        ValueError: if `embedding_dim` is not a multiple of `num_heads`.
    """

    attention_type: type[CausalSelfAttention] = CausalSelfAttention
    activation_type: type[nn.Module] = nn.GELU

    def __init__(
        self,
        *,
        vocab_size: int,
        block_size: int,
        num_layers: int,
        num_heads: int,
        embedding_dim: int,
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.1,
        fused_optimizer: bool = True,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.fused_optimizer = fused_optimizer

        self.token_embedding = nn.Embedding(vocab_size, embedding_dim)
        self.position_embedding = nn.Embedding(block_size, embedding_dim)
        self.embedding_dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(
                Block(
                    self.attention_type(
                        num_heads, embedding_dim, dropout if attention_dropout is None else attention_dropout
                    ),
                    self.activation_type(),
                    embedding_dim,
                    dropout,
                )
                for _ in range(num_layers)
            )
        )
        self.final_norm = nn.LayerNorm(embedding_dim)
        self.head = nn.Linear(embedding_dim, vocab_size, bias=False)
        self.head.weight = self.token_embedding.weight
        self._initialize(num_layers)

    def _initialize(self, num_layers: int) -> None:
        """Initialise as GPT-2 does: N(0, 0.02), narrower where a layer writes to the residual stream.

        Every block adds to the stream twice, so 1 / sqrt(2 * num_layers) keeps its variance independent of
        depth (Radford et al. 2019, section 2.3).
        """
        writes_to_residual = ("attention.projection.weight", "feed_forward.2.weight")
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim >= 2:
                std = 0.02 / math.sqrt(2 * num_layers) if name.endswith(writes_to_residual) else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Map tokens (B, T) to the logits of each next token (B, T, V)."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.embedding_dropout(self.token_embedding(input_ids) + self.position_embedding(positions))
        logits: Tensor = self.head(self.final_norm(self.blocks(x)))
        return logits

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross entropy in nats per token, a scalar."""
        logits = self(batch["input_ids"])
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of one batch, a scalar, logged as `train_loss`."""
        loss = self.loss(batch)
        # Lightning reads the value only every `log_every_n_steps`; `prog_bar=True` would read it, and so wait
        # for the device, at every step.
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log the mean loss over the validation batches as `val_loss`."""
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW that decays matrices only: biases and norms have no scale to keep small."""
        parameters = list(self.parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": self.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.learning_rate, betas=(0.9, 0.95), fused=self.fused_optimizer)
