"""Independent counts of other tools' files: one small script for each format, without taupy.

    python -m tests.formats chrome trace.json.gz

Each script has `count(path)`, which reads the raw file in the simplest way and returns sums that
the reader of taupy must arrive at, too. `test_sums.py` compares them.

    calls        slices, or calls, of host routines
    host_ns      time of host threads in which any slice was open, or exclusive times added up
    launches     kernels, copies and memsets
    gpu_ns       their times
    NAME         any other metric, added up over all routines and threads
"""
