"""NVIDIA's own metric database, through CUPTI's profiler host interface.

For every chip that the library supports, and without a GPU, it tells which metrics exist, what they
mean, and how many passes a set of them needs. Nothing is measured here.

The library is the one that this process has already loaded (such as PyTorch's), otherwise one of
`cupti_paths.py`: $TAUPY_CUPTI, then wheels and toolkits. libcupti opens libnvperf_host.so by its
bare name and might find another version's file, so the one in the same folder is loaded first by
its full path. The driver is initialised before, if there is one; CUPTI 13.2 and later do not work
without it.

Layouts are those of cupti_profiler_host.h and cupti_target.h, identical from 12.6 to 13.5 except
for appended fields. `structSize` is the offset plus size of the last field, without padding.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint8, c_uint32, c_void_p
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from taupy.collectors import cupti_paths
from taupy.errors import TaupyError

_INVALID_PARAMETER = 1
_NEEDS_DRIVER = 130200  # as CUPTI counts; 13.2 crashes without one, later ones answer 999
RANGE_PROFILER, PM_SAMPLING = 0, 1
"""The use of metrics: to be counted range by range, or sampled (CUpti_ProfilerType)."""
KINDS = ("counter", "ratio", "throughput")
"""CUPTI's kinds of metrics, in its order."""

_MEANINGS = {
    1: "an unknown metric, or a wrong argument",
    2: "this GPU is unknown to this CUPTI: a newer CUPTI is needed",
    15: "the driver is too old, or libnvperf_host.so does not match libcupti",
    27: "this chip is not supported",
    46: "an unknown chip or metric",
    999: "an internal error; without a working driver this version of CUPTI cannot answer",
}


class CuptiUnavailable(TaupyError):
    """No usable CUPTI is installed here."""


class CuptiError(TaupyError):
    """A function of CUPTI failed; `code` is its result."""

    def __init__(self, function: str, code: int, name: str) -> None:
        meaning = f": {_MEANINGS[code]}" if code in _MEANINGS else ""
        super().__init__(f"{function}: {name} ({code}){meaning}")
        self.function = function
        self.code = code


class Properties(NamedTuple):
    """NVIDIA's facts about a metric. `unit` is NVIDIA's own: byte, inst, gpc_cyclewarp."""

    description: str
    hardware: str
    unit: str
    kind: str


class Parameters(ctypes.Structure):
    """Parameters of a function of CUPTI, which accepts the sizes of its own and older versions."""

    _head: ClassVar[list[tuple[str, Any]]] = [("structSize", c_size_t), ("pPriv", c_void_p)]
    older_sizes: ClassVar[tuple[int, ...]] = ()

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.structSize = _end(type(self), self._fields_[-1][0])


def _end(structure: type[Parameters], field: str) -> int:
    place = getattr(structure, field)
    return int(place.offset + place.size)


def parameters(
    name: str, *fields: tuple[str, Any], older_end: str | None = None
) -> type[Parameters]:
    """A structure of parameters; `older_end`: its last field in an older, supported version."""
    structure: type[Parameters] = type(
        name, (Parameters,), {"_fields_": [*Parameters._head, *fields]}
    )
    if older_end is not None:
        structure.older_sizes = (_end(structure, older_end),)
    return structure


_HOST = ("pHostObject", c_void_p)
_NAMES = POINTER(c_char_p)
_SupportedChips = parameters(
    "SupportedChips", ("numChips", c_size_t), ("ppChipNames", _NAMES)
)  # fmt: skip
_Initialize = parameters(
    "Initialize", ("profilerType", c_int), ("pChipName", c_char_p),
    ("pCounterAvailabilityImage", c_void_p), _HOST, ("pSinglePassMetricSetName", c_char_p),
    older_end="pHostObject",  # CUDA 12.6 to 13.1
)  # fmt: skip
_Deinitialize = parameters("Deinitialize", _HOST)
_BaseMetrics = parameters(
    "BaseMetrics", _HOST, ("metricType", c_int), ("ppMetricNames", _NAMES),
    ("numMetrics", c_size_t),
)  # fmt: skip
_SubMetrics = parameters(
    "SubMetrics", _HOST, ("metricType", c_int), ("pMetricName", c_char_p),
    ("numOfSubmetrics", c_size_t), ("ppSubMetrics", _NAMES),
)  # fmt: skip
_MetricProperties = parameters(
    "MetricProperties", _HOST, ("pMetricName", c_char_p), ("pDescription", c_char_p),
    ("pHwUnit", c_char_p), ("pDimUnit", c_char_p), ("metricType", c_int),
    ("metricCollectionScope", c_int), older_end="metricType",  # CUDA 12.6 to 13.0
)  # fmt: skip
_AddMetrics = parameters(
    "AddMetrics", _HOST, ("ppMetricNames", _NAMES), ("numMetrics", c_size_t)
)  # fmt: skip
_ImageSize = parameters("ImageSize", _HOST, ("configImageSize", c_size_t))
_Image = parameters(
    "Image", _HOST, ("configImageSize", c_size_t), ("pConfigImage", c_void_p)
)  # fmt: skip
_Passes = parameters(
    "Passes", ("configImageSize", c_size_t), ("pConfigImage", c_void_p), ("numOfPasses", c_size_t)
)  # fmt: skip
_Evaluate = parameters(
    "Evaluate", _HOST, ("pCounterDataImage", c_void_p), ("counterDataImageSize", c_size_t),
    ("rangeIndex", c_size_t), ("ppMetricNames", _NAMES), ("numMetrics", c_size_t),
    ("pMetricValues", POINTER(c_double)),
)  # fmt: skip
_ProfilerInitialize = parameters("ProfilerInitialize")
_ChipName = parameters("ChipName", ("deviceIndex", c_size_t), ("pChipName", c_char_p))


class CuptiHost:
    """CUPTI's metric database. `path` is the library, `version` CUPTI's own number."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.has_driver = _start_driver()
        folder = Path(path).parent
        try:
            if (folder / "libnvperf_host.so").exists():
                ctypes.CDLL(str(folder / "libnvperf_host.so"), ctypes.RTLD_GLOBAL)
            self._library = ctypes.CDLL(path)
            version = c_uint32()
            self._library.cuptiGetVersion(ctypes.byref(version))
            self.version = version.value
            self._library.cuptiProfilerHostGetSupportedChips  # noqa: B018 - is it there?
        except (OSError, AttributeError) as problem:
            raise CuptiUnavailable(f"{path} cannot be used as CUPTI: {problem}") from None
        if self.version >= _NEEDS_DRIVER and not self.has_driver:
            raise CuptiUnavailable(
                f"{path} is CUPTI {self.version_text}, which needs a driver; without one install "
                "nvidia-cuda-cupti==13.0.85"
            )

    @classmethod
    def open(cls) -> CuptiHost:
        """The CUPTI of this machine.

        Raises:
            CuptiUnavailable: it is not installed, or cannot work here.
        """
        problem = CuptiUnavailable(
            "CUPTI is not installed; install it with: pip install nvidia-cuda-cupti==13.0.85"
        )
        for path in libraries():
            try:
                return cls(path)
            except CuptiUnavailable as error:
                problem = error
        raise problem

    @property
    def version_text(self) -> str:
        """`13.0` for 130000; older versions are consecutive numbers."""
        if self.version >= 100000:
            return f"{self.version // 10000}.{self.version % 10000 // 100}"
        return f"(API {self.version})"

    def chips(self) -> list[str]:
        """The chips that it supports, GV100 ... GB202; some have no metrics."""
        answer = self.ask("cuptiProfilerHostGetSupportedChips", _SupportedChips())
        return [answer.ppChipNames[at].decode() for at in range(answer.numChips)]

    def device_chip(self, ordinal: int = 0) -> str:
        """The chip of a GPU of this machine.

        Raises:
            CuptiError: there is no such GPU.
            CuptiUnavailable: there is no driver.
        """
        if not self.has_driver:  # CUPTI would crash
            raise CuptiUnavailable("there is no NVIDIA driver here, so no GPU can be queried")
        self.ask("cuptiProfilerInitialize", _ProfilerInitialize())
        answer = self.ask("cuptiDeviceGetChipName", _ChipName(deviceIndex=ordinal))
        return str(answer.pChipName.decode())

    def chip(
        self, name: str, profiler: int = RANGE_PROFILER, availability: Any = None
    ) -> ChipMetrics:
        """The metrics of one chip.

        Args:
            profiler: PM_SAMPLING for metrics that can be sampled.
            availability: CUPTI's image of what a GPU of this machine can count now, an array of
                bytes; without it, everything that the chip supports.

        Raises:
            CuptiError: the chip has no metrics, or is unknown.
        """
        return ChipMetrics(self, name, profiler, availability)

    @property
    def can_sample(self) -> bool:
        """Whether this CUPTI has PM sampling, which came with CUDA 12.6."""
        return hasattr(self._library, "cuptiPmSamplingEnable")

    def ask(self, function: str, parameters: Any) -> Any:
        """Call a function of CUPTI, which returns its result in the parameters.

        Raises:
            CuptiError: its result is not 0.
        """
        call = getattr(self._library, function)
        code = call(ctypes.byref(parameters))
        for size in parameters.older_sizes:
            if code == _INVALID_PARAMETER:
                parameters.structSize = size
                code = call(ctypes.byref(parameters))
        if code:
            text = c_char_p()
            self._library.cuptiGetResultString(code, ctypes.byref(text))
            raise CuptiError(function, code, (text.value or b"?").decode())
        return parameters


class ChipMetrics:
    """The metrics of one chip."""

    def __init__(
        self,
        host: CuptiHost,
        chip: str,
        profiler: int = RANGE_PROFILER,
        availability: Any = None,
    ) -> None:
        self.chip = chip
        self.profiler = profiler
        self._availability = availability
        self._host = host
        self._handle: Any = None
        self._handle = self._initialized()

    def _initialized(self) -> Any:
        answer = self._host.ask(
            "cuptiProfilerHostInitialize",
            _Initialize(
                profilerType=self.profiler,
                pChipName=self.chip.encode(),
                pCounterAvailabilityImage=ctypes.cast(self._availability, c_void_p),
            ),
        )
        return answer.pHostObject

    def __enter__(self) -> ChipMetrics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release CUPTI's object; closing twice is harmless."""
        if self._handle is not None:
            self._host.ask("cuptiProfilerHostDeinitialize", _Deinitialize(pHostObject=self._handle))
            self._handle = None

    def base_metrics(self) -> list[str]:
        """All base metrics by name: `sm__inst_executed`; they are counted as `NAME.sum` ..."""
        metrics: list[str] = []
        for kind in range(len(KINDS)):
            listed = self._host.ask(
                "cuptiProfilerHostGetBaseMetrics",
                _BaseMetrics(pHostObject=self._handle, metricType=kind),
            )
            metrics += [listed.ppMetricNames[at].decode() for at in range(listed.numMetrics)]
        return sorted(metrics)

    def submetrics(self, base: str) -> list[str]:
        """Valid suffixes of a base metric: `.sum`, `.avg.per_second` ...; [] if unknown."""
        for kind in range(len(KINDS)):
            try:
                answer = self._host.ask(
                    "cuptiProfilerHostGetSubMetrics",
                    _SubMetrics(
                        pHostObject=self._handle, metricType=kind, pMetricName=base.encode()
                    ),
                )
            except CuptiError:
                continue
            if answer.numOfSubmetrics:
                return [answer.ppSubMetrics[at].decode() for at in range(answer.numOfSubmetrics)]
        return []

    def properties(self, metric: str) -> Properties | None:
        """What NVIDIA says about a metric; None if the chip has none of that name."""
        try:
            answer = self._host.ask(
                "cuptiProfilerHostGetMetricProperties",
                _MetricProperties(pHostObject=self._handle, pMetricName=metric.encode()),
            )
        except CuptiError:
            return None
        description, hardware, unit = (
            (text or b"").decode(errors="replace")
            for text in (answer.pDescription, answer.pHwUnit, answer.pDimUnit)
        )
        kind = KINDS[answer.metricType] if 0 <= answer.metricType < len(KINDS) else "?"
        return Properties(description, hardware, unit, kind)

    def has(self, metric: str) -> bool:
        """Whether this chip can count the metric, named in full: `dram__bytes.sum`."""
        return self.passes([metric]) is not None

    def passes(self, metrics: Sequence[str]) -> int | None:
        """How often a kernel must run to count these; None if one is unknown, or for no metrics."""
        if not metrics:
            return None
        # Metrics accumulate in a host object, so each query creates a new one.
        handle = self._initialized()
        try:
            image = self._image(handle, metrics)
        except CuptiError:
            return None
        finally:
            self._host.ask("cuptiProfilerHostDeinitialize", _Deinitialize(pHostObject=handle))
        answer = self._host.ask(
            "cuptiProfilerHostGetNumOfPasses",
            _Passes(configImageSize=len(image), pConfigImage=ctypes.cast(image, c_void_p)),
        )
        return int(answer.numOfPasses)

    def configuration(self, metrics: Sequence[str]) -> Any:
        """The configuration that counts these metrics, as an array of bytes. To be called once
        only, since metrics accumulate in this object.

        Raises:
            CuptiError: one of them is unknown.
        """
        return self._image(self._handle, metrics)

    def evaluated(self, data: Any, index: int, names: Any, values: Any) -> None:
        """Put the values of one sample (or range) of a counter-data image into `values`.

        Args:
            data: the image, an array of bytes.
            names: an array of the metrics' names; `values`, one of doubles, is as long.
        """
        self._host.ask(
            "cuptiProfilerHostEvaluateToGpuValues",
            _Evaluate(
                pHostObject=self._handle,
                pCounterDataImage=ctypes.cast(data, c_void_p),
                counterDataImageSize=len(data),
                rangeIndex=index,
                ppMetricNames=names,
                numMetrics=len(names),
                pMetricValues=values,
            ),
        )

    def _image(self, handle: Any, metrics: Sequence[str]) -> Any:
        """The configuration that counts these metrics."""
        names = (c_char_p * len(metrics))(*[name.encode() for name in metrics])
        self._host.ask(
            "cuptiProfilerHostConfigAddMetrics",
            _AddMetrics(pHostObject=handle, ppMetricNames=names, numMetrics=len(metrics)),
        )
        size = self._host.ask(
            "cuptiProfilerHostGetConfigImageSize", _ImageSize(pHostObject=handle)
        ).configImageSize
        image = (c_uint8 * size)()
        self._host.ask(
            "cuptiProfilerHostGetConfigImage",
            _Image(
                pHostObject=handle,
                configImageSize=size,
                pConfigImage=ctypes.cast(image, c_void_p),
            ),
        )
        return image


def libraries() -> Iterator[str]:
    """Paths of CUPTI libraries, the preferred one first."""
    seen = set()
    for path in (*_mapped(), *cupti_paths.libraries(sys.path)):
        real = os.path.realpath(path)
        if real not in seen and os.path.isfile(real):
            seen.add(real)
            yield path


def _mapped() -> Iterator[str]:
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        path = line[line.find("/") :] if "/" in line else ""
        if "libcupti.so" in path:
            yield path


def _start_driver() -> bool:
    """Whether there is a working driver, which CUPTI needs from 13.2 on."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        return int(driver.cuInit(0)) == 0
    except (OSError, AttributeError):
        return False
