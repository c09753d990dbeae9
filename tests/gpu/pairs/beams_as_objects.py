"""A search keeps its beams as Python objects between launches; the twin keeps them in a tensor."""

import torch
import twins

BEAMS, VOCABULARY = 32, 256
torch.manual_seed(0)
following = torch.log_softmax(torch.randn(VOCABULARY, VOCABULARY, device="cuda"), 1)


class Beam:
    def __init__(self, tokens, score):
        self.tokens, self.score = tokens, score

    def extended(self, scores):
        return [Beam([*self.tokens, token], self.score + more) for token, more in enumerate(scores)]


def fault(steps):
    beams = [Beam([0], 0.0)]
    for _ in range(steps):
        last = torch.tensor([beam.tokens[-1] for beam in beams], device="cuda")
        scores = following[last].tolist()
        every = [one for beam, row in zip(beams, scores, strict=True) for one in beam.extended(row)]
        beams = sorted(every, key=lambda beam: -beam.score)[:BEAMS]
    return round(beams[0].score)


def mended(steps):
    tokens = torch.zeros(1, 1, dtype=torch.int64, device="cuda")
    scores = torch.zeros(1, device="cuda")
    for _ in range(steps):
        every = (scores[:, None] + following[tokens[:, -1]]).flatten()
        scores, best = every.topk(min(BEAMS, len(every)))
        tokens = torch.cat([tokens[best // VOCABULARY], (best % VOCABULARY)[:, None]], 1)
    return round(scores[0].item())


twins.run(60, fault, mended, torch.cuda.synchronize)
