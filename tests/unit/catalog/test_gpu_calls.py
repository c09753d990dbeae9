"""What calls of both makers' runtimes do, by their names."""

from __future__ import annotations

import pytest

from taupy.catalog import gpu_calls

SORTS = {
    gpu_calls.waits: """
        cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize cudaThreadSynchronize
        cuCtxSynchronize cuStreamSynchronize_ptsz hipDeviceSynchronize hipStreamSynchronize
        cudaStreamSynchronize_v3020 cudaMemcpy cudaMemcpy_v3020 cudaMemcpy2D cudaMemcpyToSymbol
        cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 hipMemcpy hipMemcpyDtoH hipMemcpyWithStream
    """,
    gpu_calls.allocates: """
        cudaMalloc cudaMalloc_v3020 cudaMallocManaged cudaFree cudaFreeHost cudaHostAlloc
        cudaHostRegister cuMemAlloc_v2 cuMemFree_v2 cuMemCreate cuMemMap cuMemUnmap
        hipMalloc hipFree hipHostMalloc hipHostFree hipMemCreate
    """,
    gpu_calls.loads_code: """
        cuModuleLoadData cuModuleLoadDataEx cuModuleGetFunction cuLibraryLoadData cuLinkComplete
        cudaLibraryLoadData cudaGetFuncBySymbol hipModuleLoad
        hipModuleLoadData hipModuleGetFunction nvrtcCompileProgram hiprtcCompileProgram
    """,
    gpu_calls.stream_waits: "cudaStreamWaitEvent hipStreamWaitEvent cuStreamWaitValue32_v2",
}
NEITHER = """
    cudaLaunchKernel hipExtModuleLaunchKernel cudaMemcpyAsync cudaMemcpy2DAsync cuMemcpyDtoDAsync_v2
    cudaMemcpyPeer cuMemcpyDtoD_v2 hipMemcpyAsync cudaMemsetAsync cudaMallocAsync cudaFreeAsync
    cuMemAllocAsync hipMallocAsync cudaEventRecord cudaStreamIsCapturing cudaGetDeviceProperties
    cudaFuncGetAttributes
"""


@pytest.mark.parametrize("sort", SORTS, ids=lambda sort: sort.__name__)
def test_a_call_is_of_one_sort(sort):
    for other, names in SORTS.items():
        assert [name for name in names.split() if sort(name)] == (
            names.split() if other is sort else []
        )
    assert not any(map(sort, NEITHER.split()))


def test_kernels_that_communicate_are_known_by_their_names():
    for name in ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                 "ncclKernel_AllGather_RING_LL_Sum_int8_t", "rcclGenericKernel",
                 "void vllm::cross_device_reduce_1stage<__half, 2>(...)",
                 "two_shot_all_reduce_kernel"):  # fmt: skip
        assert gpu_calls.communicates(name)
    for name in ("gemm", "void at::native::reduce_kernel<512, 1, f>", "triton_red_fused_sum_3"):
        assert not gpu_calls.communicates(name)


def test_routines_of_a_data_loader_are_known_by_file_or_name():
    assert gpu_calls.loads_data("__next__", "torch/utils/data/dataloader.py")
    assert gpu_calls.loads_data("_BaseDataLoaderIter.__next__", "torch/utils/data/dataloader.py")
    assert gpu_calls.loads_data("_next_data", "torch/utils/data/dataloader.py")
    assert gpu_calls.loads_data("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    assert not gpu_calls.loads_data("__next__", "tqdm/std.py")
    assert not gpu_calls.loads_data("__init__", "torch/utils/data/dataloader.py")
