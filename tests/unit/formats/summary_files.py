"""Small tables as nvprof and nsys stats print them, made here."""

from __future__ import annotations

SUMMARY = """==20858== NVPROF is profiling process 20858, command: ./stencil
iterations: 3, 4
==20858== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,ms,us,ms,
"GPU activities",78.0,4.500000,3,1.500000,1000.000000,2.000000,"void stencil<float>(float*, int)"
"GPU activities",22.0,1.000000,2,0.500000,400.000000,0.600000,"[CUDA memcpy HtoD]"
"API calls",90.0,20.000000,3,6.666667,1.000000,19.000000,"cudaLaunchKernel"
"""

METRICS = """==20858== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"flop_count_sp","Single",900,1100,1000
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"flop_count_dp","Double",0,0,0
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"dram_read_transactions","Reads",10,12,11
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"dram_write_transactions","Writes",5,5,5
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"gld_transactions","Loads",70,70,70
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"achieved_occupancy","Share",0.5,0.7,0.6
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"sm_efficiency","Busy",90.50%,92.00%,91.00%
"Tesla K20c (0)","void stencil<float>(float*, int)",3,"alu_fu_utilization","Load",Low (2),Low (3),Low (2)
"""  # noqa: E501 - lines as the tool prints them

TRACE = """==7== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",\
"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType",\
"DstMemType","Device","Context","Stream","Name","Correlation_ID"
ms,us,,,,,,,,KB,B,MB,GB/s,,,,,,,
0.100000,10.500000,,,,,,,,,,2.000000,190.0,"Pageable","Device","Tesla V100 (1)","1","7",\
"[CUDA memcpy HtoD]",90
0.200000,30.000000,64,1,1,256,2,1,32,1.000000,512,,,,,"Tesla V100 (1)","1","7","saxpy(int)",93
0.300000,40.000000,64,1,1,256,2,1,32,1.000000,512,,,,,"Tesla V100 (1)","1","8","saxpy(int)",94
"""

KERNELS = """Processing [report.sqlite] with [cuda_gpu_kern_sum.py]...
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,600,3,200.0,150.0,100,350,132.3,"void gemm<float, 4>(float *)"
40.0,400,1,400.0,400.0,400,400,0.0,copy_kernel
"""

REPORTS = (
    KERNELS
    + """
Processing [report.sqlite] with [cuda_gpu_mem_time_sum.py]...
Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
100.0,5000,2,2500.0,2500.0,2000,3000,707.1,[CUDA memcpy Host-to-Device]

Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation
3.000,2,1.500,1.500,1.000,2.000,0.707,[CUDA memcpy Host-to-Device]

Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
90.0,9000,4,2250.0,2000.0,1000,4000,1258.3,cudaLaunchKernel
10.0,1000,2,500.0,500.0,400,600,141.4,poll

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
100.0,9999,1,9999.0,9999.0,9999,9999,0.0,PushPop,step

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation
60.0,600,3,200.0,150.0,100,350,132.3,CUDA_KERNEL,"void gemm<float, 4>(float *)"
"""  # noqa: E501
)

OLD_KERNELS = """Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name
100.0,600,3,200.0,100,350,gemm
"""

GPU_TRACE = """Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),\
DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
1000,300,11,2,1,1,64,1,1,24,0.000,0.000,,,,,NVIDIA H100 (0),1,,7,gemm(int)
2000,100,12,,,,,,,,,,1.500,1000.0,Pageable,Device,NVIDIA H100 (0),1,,7,[CUDA memcpy Host-to-Device]
"""
