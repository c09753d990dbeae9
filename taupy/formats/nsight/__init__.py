"""Files of NVIDIA's tools: Nsight Systems, Nsight Compute, nvprof."""
