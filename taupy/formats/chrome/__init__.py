"""Chrome's trace JSON, such as torch.profiler's."""
