"""Chrome's trace JSON, torch.profiler's among them."""
