"""Embed token sequences with a transformer encoder and look up near duplicates."""
import torch
from torch import nn

torch.set_num_threads(1)
VOCAB, WIDTH, LENGTH = 2000, 96, 40


def make_reviews(count, copies, seed):
    gen = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, VOCAB, (count, LENGTH), generator=gen)
    lengths = torch.randint(15, LENGTH + 1, (count,), generator=gen)
    tokens[torch.arange(LENGTH) >= lengths[:, None]] = 0
    twins = tokens[:copies].clone()
    twins[:, 3] = torch.randint(1, VOCAB, (copies,), generator=gen)
    return torch.cat([tokens, twins])


class Encoder(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, tokens):
        empty = tokens == 0
        hidden = self.layers(self.embed(tokens) + self.place, src_key_padding_mask=empty)
        weight = (~empty).unsqueeze(2).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1)


@torch.inference_mode()
def embed_all(encoder, tokens, batch):
    encoder.eval()
    parts = [encoder(block) for block in tokens.split(batch)]
    return nn.functional.normalize(torch.cat(parts), dim=1)


@torch.inference_mode()
def best_match(vectors):
    similar = vectors @ vectors.T
    similar.fill_diagonal_(-1.0)
    return similar.max(dim=1)


def main():
    torch.manual_seed(12)
    tokens = make_reviews(count=3200, copies=100, seed=13)
    vectors = embed_all(Encoder(depth=3), tokens, batch=64)
    score, partner = best_match(vectors)
    right = (partner[-100:] == torch.arange(100)).float().mean().item()
    print(f"vectors {len(vectors)} right {right:.2f} score {score.mean().item():.3f}")


if __name__ == "__main__":
    main()
