"""Networks as people write them in PyTorch, each on a page; widths and depths are arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


class BasicBlock(nn.Module):
    """Of ResNet (He et al., 2015), figure 5 left."""

    def __init__(self, inputs: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or inputs != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Any) -> Any:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """ResNet-18 with a width of 64 and blocks (2, 2, 2, 2)."""

    def __init__(self, width: int = 64, blocks: Any = (2, 2, 2, 2), classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = width
        for stage, count in enumerate(blocks):
            layers = []
            for place in range(count):
                out = width * 2**stage
                layers.append(BasicBlock(channels, out, 2 if stage and not place else 1))
                channels = out
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.stages = len(blocks)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Any) -> Any:
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.fc(x)


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Any) -> Any:
        scale = functional.relu(self.fc1(self.avgpool(x)))
        # PyTorch's hardsigmoid multiplies gradients by a sixth in float32, also those in float64.
        scale = functional.relu6(self.fc2(scale) + 3) / 6
        return scale * x


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, inner: int, out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.skips = stride == 1 and inputs == out
        self.block = nn.Sequential(
            nn.Conv2d(inputs, inner, 1, bias=False),
            nn.BatchNorm2d(inner, eps=1e-3, momentum=0.01),
            nn.Hardswish(inplace=True),
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False),
            nn.BatchNorm2d(inner, eps=1e-3, momentum=0.01),
            nn.Hardswish(inplace=True),
            SqueezeExcitation(inner, max(inner // 4, 1)),
            nn.Conv2d(inner, out, 1, bias=False),
            nn.BatchNorm2d(out, eps=1e-3, momentum=0.01),
        )

    def forward(self, x: Any) -> Any:
        result = self.block(x)
        if self.skips:
            result += x
        return result


class MobileNet(nn.Module):
    """In the manner of MobileNetV3 (Howard et al., 2019)."""

    def __init__(self, width: int = 16, blocks: int = 3, classes: int = 10) -> None:
        super().__init__()
        rows = [
            nn.Conv2d(3, width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(width, eps=1e-3, momentum=0.01),
            nn.Hardswish(inplace=True),
        ]
        for place in range(blocks):
            stride, kernel = (2, 3) if place == 0 else (1, 5)
            rows.append(InvertedResidual(width, 3 * width, width, kernel, stride))
        self.features = nn.Sequential(*rows)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(width, 2 * width),
            nn.Hardswish(),
            nn.Dropout(0.0),
            nn.Linear(2 * width, classes),
        )

    def forward(self, x: Any) -> Any:
        x = self.features(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


class ConvNeXtBlock(nn.Module):
    """Liu et al., 2022, figure 4."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(0.5 * torch.ones(channels))

    def forward(self, x: Any) -> Any:
        shortcut = x
        x = self.dwconv(x)
        x = x.permute(0, 2, 3, 1)
        x = self.norm(x)
        x = self.pwconv2(self.act(self.pwconv1(x)))
        x = self.gamma * x
        x = x.permute(0, 3, 1, 2)
        return shortcut + x


class ConvNeXt(nn.Module):
    def __init__(self, width: int = 16, blocks: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.stages = nn.Sequential(*[ConvNeXtBlock(width) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        x = self.stages(self.stem(x))
        return self.head(self.norm(x.mean([-2, -1])))


class ViT(nn.Module):
    """Dosovitskiy et al., 2020, of PyTorch's own encoder layers."""

    def __init__(
        self, width: int = 16, depth: int = 2, patch: int = 4, size: int = 16, classes: int = 10
    ) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embedding = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.layers = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    width, 2, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
                )
                for _ in range(depth)
            ]
        )
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(x.shape[0], -1, -1)
        x = torch.cat([token, x], dim=1) + self.pos_embedding
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x)[:, 0])


class CausalSelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        rows, length, width = x.size()
        q, k, v = self.c_attn(x).split(width, dim=2)
        q = q.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
        k = k.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(rows, length, width)
        return self.c_proj(y)


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    """In the manner of GPT-2 (Radford et al., 2019), with tied embeddings."""

    def __init__(
        self,
        vocabulary: int = 32,
        context: int = 16,
        width: int = 16,
        depth: int = 2,
        heads: int = 2,
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList([GPTBlock(width, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, one in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(one, 0.0, 0.02 / math.sqrt(2 * depth))

    def forward(self, tokens: Any) -> Any:
        positions = torch.arange(0, tokens.size(1), device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)
        return logits


class Seq2Seq(nn.Module):
    """PyTorch's own transformer of encoder and decoder."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.transformer = nn.Transformer(width, 2, 1, 1, 2 * width, 0.0, batch_first=True)
        self.head = nn.Linear(width, 5)

    def forward(self, source: Any, target: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=target.dtype)
        out = self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True)
        return self.head(out)


class Recurrent(nn.Module):
    """PyTorch's own LSTM, of two layers in both directions."""

    def __init__(self, width: int = 4, kind: str = "LSTM") -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(3, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, x: Any) -> Any:
        out, _ = self.rnn(x)
        return self.head(out[:, -1])
