"""Counters of one GPU, sampled by CUPTI at a fixed interval: the PM Sampling API.

The whole GPU is sampled, whichever process uses it, without replaying kernels. Any process can do
that; ours is a process beside the program (`sampler.py`). Samples are kept in a hardware buffer
until they are decoded, so `Sampling.drain` must be called often enough.

Layouts are from cupti_pmsampling.h of CUDA 12.6 to 13.5, compared with it in the tests.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ctypes import c_char_p, c_double, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from taupy.collectors.cupti_host import (
    PM_SAMPLING,
    ChipMetrics,
    CuptiError,
    CuptiHost,
    parameters,
)
from taupy.cuda import driver
from taupy.cuda.driver import CudaError

_OBJECT = ("pPmSamplingObject", c_void_p)
_NAMES = ctypes.POINTER(c_char_p)
_IMAGE = (("pCounterDataImage", c_void_p), ("counterDataImageSize", c_size_t))

SetConfig = parameters(
    "SetConfig", _OBJECT, ("configSize", c_size_t), ("pConfig", c_void_p),
    ("hardwareBufferSize", c_size_t), ("samplingInterval", c_uint64), ("triggerMode", c_int),
    ("hwBufferAppendMode", c_int), older_end="triggerMode",  # CUDA 12.6
)  # fmt: skip
Availability = parameters(
    "Availability", ("deviceIndex", c_size_t), ("counterAvailabilityImageSize", c_size_t),
    ("pCounterAvailabilityImage", c_void_p),
)  # fmt: skip
Enable = parameters("Enable", ("deviceIndex", c_size_t), _OBJECT)
OnObject = parameters("OnObject", _OBJECT)  # Disable, Start, Stop
DataSize = parameters(
    "DataSize", _OBJECT, ("pMetricNames", _NAMES), ("numMetrics", c_size_t),
    ("maxSamples", c_uint32), ("counterDataSize", c_size_t),
)  # fmt: skip
DataInitialize = parameters(
    "DataInitialize", _OBJECT, ("counterDataSize", c_size_t), ("pCounterData", c_void_p)
)  # fmt: skip
Decode = parameters(
    "Decode", _OBJECT, *_IMAGE, ("decodeStopReason", c_int), ("overflow", c_uint8)
)  # fmt: skip
DataInfo = parameters(
    "DataInfo", *_IMAGE, ("numTotalSamples", c_size_t), ("numPopulatedSamples", c_size_t),
    ("numCompletedSamples", c_size_t),
)  # fmt: skip
SampleInfo = parameters(
    "SampleInfo", _OBJECT, *_IMAGE, ("sampleIndex", c_size_t), ("startTimestamp", c_uint64),
    ("endTimestamp", c_uint64),
)  # fmt: skip

_BY_CYCLES, _BY_TIME = 0, 1  # CUpti_PmSampling_TriggerMode
_KEEP_OLDEST = 0
_IMAGE_FULL = 1  # CUpti_PmSampling_DecodeStopReason
_OUT_OF_MEMORY, _NOT_SUPPORTED = 8, 27
_NO_CONTEXT = (3, 15, 999)
"""Error codes after which a context may help: the headers require only a device, but all of
NVIDIA's examples create a context."""

_SAMPLES_AT_ONCE = 1024
_HARDWARE_BUFFERS = (128 << 20, 32 << 20)
_CYCLES_A_NS = 1.0  # the system clock has 1 to 2 GHz; samples state their durations


def counts_cycles(chip: str) -> bool:
    """Whether the sampling interval must be in cycles of the system clock (Turing, GA100)."""
    return chip.startswith("TU") or chip == "GA100"


class Sample(NamedTuple):
    """The counts of one interval, with CUPTI's time stamps and values by PerfWorks metric."""

    start: int
    end: int
    values: list[float]


class Sampling:
    """One GPU that is being sampled.

    Attributes:
        interval: as requested from CUPTI, in `unit`: "ns", or "cycles" of the system clock.
        overflows: how often the hardware buffer was full.
        behind: whether samples arrived faster than they could be read.
        notes: how sampling differs from what was requested.
    """

    def __init__(self, host: CuptiHost, ordinal: int, metrics: Sequence[str], interval_ns: int):
        """Begin to sample.

        Raises:
            CuptiError: CUPTI refuses.
            CudaError: a context was needed and could not be created.
        """
        self.chip = host.device_chip(ordinal)
        self.overflows = 0
        self.behind = False
        self.notes: list[str] = []
        self.unit = "ns"
        self.interval = interval_ns
        self._host = host
        self._first = True
        self._names = (c_char_p * len(metrics))(*[name.encode() for name in metrics])
        self._values = (c_double * len(metrics))()
        available = availability(host, ordinal)
        with host.chip(self.chip, PM_SAMPLING, available) as metrics_of_chip:
            # CUPTI reads it as long as it samples.
            self._config = metrics_of_chip.configuration(metrics)
        self._object = self._enabled(ordinal)
        try:
            self._configure()
            self._evaluator: ChipMetrics = host.chip(self.chip, PM_SAMPLING, available)
            size = host.ask(
                "cuptiPmSamplingGetCounterDataSize",
                DataSize(
                    pPmSamplingObject=self._object, pMetricNames=self._names,
                    numMetrics=len(metrics), maxSamples=_SAMPLES_AT_ONCE,
                ),
            ).counterDataSize  # fmt: skip
            self._data = (c_uint8 * size)()
            self._do("Start")
        except CuptiError:
            self._end("Disable")
            raise

    def _enabled(self, ordinal: int) -> Any:
        function = "cuptiPmSamplingEnable"
        try:
            return self._host.ask(function, Enable(deviceIndex=ordinal)).pPmSamplingObject
        except CuptiError as problem:
            if problem.code not in _NO_CONTEXT:
                raise
        context = c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), c_int(ordinal))
        driver.call("cuCtxSetCurrent", context)
        self.notes.append("sampling needed a CUDA context, which takes some of the GPU's memory")
        return self._host.ask(function, Enable(deviceIndex=ordinal)).pPmSamplingObject

    def _configure(self) -> None:
        modes = [_BY_CYCLES] if counts_cycles(self.chip) else [_BY_TIME, _BY_CYCLES]
        tries = [(mode, size) for mode in modes for size in _HARDWARE_BUFFERS]
        interval_ns = self.interval
        for number, (mode, size) in enumerate(tries, 1):
            if mode == _BY_CYCLES:
                self.unit, self.interval = "cycles", round(interval_ns * _CYCLES_A_NS)
            try:
                self._host.ask(
                    "cuptiPmSamplingSetConfig",
                    SetConfig(
                        pPmSamplingObject=self._object, configSize=len(self._config),
                        pConfig=ctypes.cast(self._config, c_void_p), hardwareBufferSize=size,
                        samplingInterval=self.interval, triggerMode=mode,
                        hwBufferAppendMode=_KEEP_OLDEST,
                    ),
                )  # fmt: skip
                return
            except CuptiError as problem:
                if number == len(tries) or problem.code not in (_OUT_OF_MEMORY, _NOT_SUPPORTED):
                    raise

    def drain(self, seconds: float) -> Iterator[Sample]:
        """Complete samples that have not been returned before, oldest first.

        Args:
            seconds: roughly how long it may take; the next call returns what is left then.

        Raises:
            CuptiError: CUPTI returned an error; sampling has ended.
        """
        image = {
            "pCounterDataImage": ctypes.cast(self._data, c_void_p),
            "counterDataImageSize": len(self._data),
        }
        until = time.monotonic() + seconds
        full = True
        while full and time.monotonic() < until:
            self._host.ask(
                "cuptiPmSamplingCounterDataImageInitialize",
                DataInitialize(
                    pPmSamplingObject=self._object, counterDataSize=len(self._data),
                    pCounterData=ctypes.cast(self._data, c_void_p),
                ),
            )  # fmt: skip
            lost = False
            decoded = Decode(pPmSamplingObject=self._object, **image)
            try:
                self._host.ask("cuptiPmSamplingDecodeData", decoded)
            except CuptiError as problem:
                if problem.code != _OUT_OF_MEMORY:
                    raise
                lost = True
            self.overflows += bool(lost or decoded.overflow)
            info = self._host.ask("cuptiPmSamplingGetCounterDataInfo", DataInfo(**image))
            for index in range(info.numCompletedSamples):
                if self._first:  # NVIDIA advises to omit the first sample, which may be wrong
                    self._first = False
                    continue
                sample = self._host.ask(
                    "cuptiPmSamplingCounterDataGetSampleInfo",
                    SampleInfo(pPmSamplingObject=self._object, sampleIndex=index, **image),
                )
                self._evaluator.evaluated(self._data, index, self._names, self._values)
                yield Sample(sample.startTimestamp, sample.endTimestamp, list(self._values))
            if lost:  # a full buffer takes no more samples
                self._do("Stop")
                self._do("Start")
                self._first = True
            full = decoded.decodeStopReason == _IMAGE_FULL and info.numCompletedSamples > 0
        self.behind = full

    def stop(self, seconds: float) -> Iterator[Sample]:
        """Stop sampling, and return what is left, as far as the time allows.

        Raises:
            CuptiError: CUPTI refuses.
        """
        try:
            self._do("Stop")
            yield from self.drain(seconds)
        finally:
            self._end("Disable")

    def _do(self, what: str) -> None:
        self._host.ask(f"cuptiPmSampling{what}", OnObject(pPmSamplingObject=self._object))

    def _end(self, what: str) -> None:
        with suppress(CuptiError):  # sampling ends anyway
            self._do(what)


def availability(host: CuptiHost, ordinal: int) -> Any:
    """CUPTI's image of what the GPU can count now; None if CUPTI does not provide it."""
    function = "cuptiPmSamplingGetCounterAvailability"
    try:
        availability = host.ask(function, Availability(deviceIndex=ordinal))
        image = (c_uint8 * availability.counterAvailabilityImageSize)()
        availability.pCounterAvailabilityImage = ctypes.cast(image, c_void_p)
        host.ask(function, availability)
    except CuptiError:  # for example while another profiler uses the GPU
        return None
    return image


def problem_of(chip: str, problem: CuptiError | CudaError) -> str:
    """Why a GPU cannot be sampled, and the remedy if there is one."""
    if isinstance(problem, CudaError):
        return str(problem)
    special = {
        7: "another tool samples it already (nsys --gpu-metrics-devices, ncu, DCGM, another taupy)",
        8: "there is no memory for the samples' buffer",
        27: f"{chip} cannot sample these together, or not at this interval",
    }
    from taupy.collectors.cupti_errors import cause

    why = special.get(problem.code) or cause(problem.code, str(problem))
    return f"{why} ({problem.function}: {problem.code})"
