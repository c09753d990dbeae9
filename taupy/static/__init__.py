"""Analysis of the machine code of GPU kernels with NVIDIA's own tools; no GPU is needed."""
