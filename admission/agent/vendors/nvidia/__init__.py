"""NVIDIA's devices, read through NVML: the driver's own library, by way of ``nvidia-ml-py``."""
