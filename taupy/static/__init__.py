"""What the machine code of GPU kernels says, read by NVIDIA's own tools; no GPU is needed."""
