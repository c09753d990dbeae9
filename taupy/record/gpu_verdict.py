"""Why expected GPU work is missing, in one line.

`collectors/cupti_errors.py` explains CUPTI's errors.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from taupy.collectors.cupti_errors import cause, cupti_version, driver_version
from taupy.collectors.gpu_layout import FAILED
from taupy.model.profile import Timer
from taupy.record.gpu_part import GpuPart
from taupy.units import several


def verdict(mode: str, parts: Sequence[GpuPart], missed: Collection[str]) -> str | None:
    """Why an expected capture is empty, in one line; None if it is not empty or not expected.

    Args:
        mode: "auto", "yes" (--gpu was given) or "no".
        parts: GPU parts of all processes of the run.
        missed: notes of processes without a GPU part: "late", "other tool", "not initialised",
            "", or why the collector could not be loaded.
    """
    for part in parts:
        if part.counters.get("state") == FAILED or "error.step" in part.notes:
            return failure(part.notes)
    launches = sum(part.counters.get("launches", 0) for part in parts)
    if parts and launches and not any(part.work for part in parts):
        return (
            f"GPU work was not recorded: {several(launches, 'launch')} seen, but CUPTI "
            "delivered no record of any; "
            + (
                _states(parts)
                or "another CUPTI client in the program (such as torch.profiler) may have taken "
                "them, or the device lost them"
            )
        )
    if parts and (launches or any(part.work for part in parts)):
        return None
    if "other tool" in missed:
        return (
            "GPU work was not recorded: another tool (nsys, ncu) was loaded into the CUDA driver "
            "(CUDA_INJECTION64_PATH); run without it"
        )
    if unloaded := sorted(set(missed) - {"", "late", "other tool", "not initialised"}):
        return f"GPU work was not recorded: taupy's collector could not be loaded ({unloaded[0]})"
    if "late" in missed:
        return (
            "GPU work was not recorded: the CUDA driver did not load taupy's collector, and the "
            "program launched nothing from a new call path"
        )
    if mode != "yes":
        return None
    if parts:
        return "--gpu was given, but the program launched nothing on a GPU"
    if "not initialised" in missed:
        return "--gpu was given, but the program never initialised CUDA, or found no device"
    driver = (
        ""
        if os.path.exists("/proc/driver/nvidia/version")
        else ("; this machine has no NVIDIA driver (no /proc/driver/nvidia/version)")
    )
    return f"--gpu was given, but the program never loaded the CUDA driver (libcuda.so.1){driver}"


def _states(parts: Sequence[GpuPart]) -> str:
    """The errors reported by CUPTI; "" if there are none."""
    errors = [part.notes["states"] for part in parts if "states" in part.notes]
    return f"CUPTI reported an internal error: {'; '.join(errors)}" if errors else ""


def shared(timers: Iterable[Timer], parts: Sequence[GpuPart]) -> str | None:
    """What the program's own torch.profiler may lack, since CUPTI serves one client at a time."""
    begins = ("_prepare_trace", "_start_trace")
    used = any(
        (timer.file or "").endswith("torch/autograd/profiler.py") and timer.name.endswith(begins)
        for timer in timers
    )
    if not used or not any(part.counters.get("launches") for part in parts):
        return None
    if any(part.counters.get("lent") for part in parts):
        return None  # the program's profiler got its records, and the trial says how many
    return (
        "the program used torch.profiler, and only one client at a time can use CUPTI: its trace "
        "may lack GPU work, or this trial the records that it took; for a complete trace, run "
        "with --no-gpu; for a complete trial, without torch.profiler"
    )


def failure(notes: Mapping[str, str]) -> str:
    """One line about a collector that could not start.

    Args:
        notes: of the GPU part.
    """
    step = notes.get("error.step", "")
    text = notes.get("error.text", "")
    code = int(notes.get("error.code", "0") or 0)
    driver = driver_version(int(notes.get("driver.cuda", "0") or 0))
    if step == "open":
        return (
            f"GPU work was not recorded: CUPTI could not be loaded ({text}; the driver serves CUDA "
            f"{driver}); install nvidia-cuda-cupti for the driver's CUDA, or set TAUPY_CUPTI to "
            "a libcupti"
        )
    if step == "import":
        return f"GPU work was not recorded: cupti-python could not be imported ({text})"
    version = cupti_version(int(notes.get("cupti.version", "0") or 0))
    where = f"CUPTI {version} ({notes.get('cupti.library', '?')}), driver for CUDA {driver}"
    what = {
        "subscribe": "could not subscribe to CUPTI",
        "callbacks": "CUPTI's callbacks could not be enabled",
        "records": "CUPTI's records could not be enabled",
        "thread": "no thread could be started",
    }.get(step, step)
    reason = text if step == "thread" else cause(code, text)
    return f"GPU work was not recorded: {what} ({code}: {reason}); {where}"
