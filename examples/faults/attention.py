"""Faults of attention: ways of writing it that keep torch from its fast kernel.

Shapes: B sequences, T tokens, H heads, D dimensions of a head.
"""

import math

import torch
from gpt import GPT, CausalSelfAttention
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel


class HandWrittenAttention(CausalSelfAttention):
    """Attention as the formula in the paper."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Map three (B, H, T, D) to one, by way of scores (B, H, T, T)."""
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return torch.softmax(scores.masked_fill(later, -math.inf), dim=-1) @ value


class HandWrittenAttentionGPT(GPT):
    """A GPT with attention as the formula in the paper."""

    attention_type = HandWrittenAttention


class BiasedAttention(CausalSelfAttention):
    """Attention with a learned bias for each distance; no fast kernel on a CPU has a gradient for it."""

    max_distance = 4096

    def __init__(self, num_heads: int, embedding_dim: int, dropout: float) -> None:
        super().__init__(num_heads, embedding_dim, dropout)
        self.bias = nn.Parameter(torch.zeros(num_heads, self.max_distance))

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Map three (B, H, T, D) to one."""
        mask = self.mask(self.bias, query.shape[2])
        return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    def mask(self, bias: Tensor, num_tokens: int) -> Tensor:
        """The bias (H, max_distance) of each pair of tokens, (1, H, T, T)."""
        positions = torch.arange(num_tokens, device=bias.device)
        distance = positions[:, None] - positions
        return bias[:, distance.clamp(min=0)].masked_fill(distance < 0, -math.inf)[None]


class BiasedAttentionGPT(GPT):
    """A GPT with a learned bias in its attention."""

    attention_type = BiasedAttention


class DetachedBiasAttention(BiasedAttention):
    """The same bias, held fixed: attention as :class:`BiasedAttention` is advised to do it."""

    def mask(self, bias: Tensor, num_tokens: int) -> Tensor:
        """The bias (H, max_distance) of each pair of tokens, (1, H, T, T), without a gradient."""
        return super().mask(bias.detach(), num_tokens)


class DetachedBiasGPT(GPT):
    """A GPT with a fixed bias in its attention."""

    attention_type = DetachedBiasAttention


class ReferenceAttention(CausalSelfAttention):
    """Attention with all fast kernels switched off, as one does to compare results, and forgets."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Map three (B, H, T, D) to one."""
        with sdpa_kernel(SDPBackend.MATH):
            return super().attend(query, key, value)


class ReferenceAttentionGPT(GPT):
    """A GPT with torch's reference attention."""

    attention_type = ReferenceAttention


class TokenLoopAttention(CausalSelfAttention):
    """Attention token by token, as one writes it for generation."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Map three (B, H, T, D) to one, in a Python loop over T."""
        mixed = []
        for token in range(query.shape[2]):
            scores = query[:, :, token, None] @ key[:, :, : token + 1].transpose(-2, -1)
            weights = torch.softmax(scores / math.sqrt(query.shape[-1]), dim=-1)
            mixed.append(weights @ value[:, :, : token + 1])
        return torch.cat(mixed, dim=2)


class TokenLoopGPT(GPT):
    """A GPT that attends token by token."""

    attention_type = TokenLoopAttention
