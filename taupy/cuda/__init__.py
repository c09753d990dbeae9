"""CUDA's driver and run-time compiler through ctypes: no toolkit, no binding to install."""
