"""Add the GPU work of a run's processes to their nodes: kernels, counts, facts, timelines.

Each step changes the profile in place, records in its metadata what is missing, and returns the
files it has consumed.
"""

from __future__ import annotations

from collections.abc import Mapping

from taupy.analysis import gpu_idle
from taupy.errors import FormatError, TaupyError
from taupy.instrument.runfolder import RunSettings
from taupy.model.profile import Profile
from taupy.record import gpu_verdict
from taupy.record.gpu_counts import CountPart, add_count_part, read_count_part
from taupy.record.gpu_part import GpuPart, read_gpu_part
from taupy.record.host_health import HEALTH, LOST, add_losses
from taupy.record.host_profile import HostPlaces
from taupy.record.operator_inputs import add_gpu_work
from taupy.record.part_files import GPU_COUNT_SUFFIX, GPU_SUFFIX, GPU_TRACE_SUFFIX
from taupy.state.folder import File, Folder

_GPU_LOSSES = ("gpu_part", "gpu_dropped", "gpu_refused", "gpu_calls", "gpu_trace", "gpu_walk")


def add_gpus(
    profile: Profile,
    places: dict[int, HostPlaces],
    folder: Folder,
    settings: RunSettings,
    missed: set[str],
    spilled: Mapping[str, File],
    *,
    is_over: bool,
) -> list[File]:
    """Add what the processes did on GPUs to their nodes; returns the files read.

    Args:
        is_over: no process of the run is running any more.
    """
    parts: list[GpuPart] = []
    done: list[File] = []
    lost: list[str] = []
    files = {file.name: file for file in folder.files(GPU_SUFFIX)}
    files |= {name: file for name, file in spilled.items() if name.endswith(GPU_SUFFIX)}
    for name, path in files.items():
        trace = (folder / name).with_suffix(GPU_TRACE_SUFFIX)
        try:
            part = read_gpu_part(path, trace)
        except (FormatError, OSError) as problem:
            lost.append(f"GPU work could not be read: {problem}")
            continue
        node = None if part is None else _node_of(part, places)
        if part is None or node is None:
            continue  # its process is still running
        from taupy.record.gpu_profile import add_gpu_part

        parts.append(part)
        place = places[node]
        try:
            texts = add_gpu_part(profile, node, part, place.find, place.part.ns_per_tick)
            add_gpu_work(part, place.part, place.threads, place.row_of)
        except (FormatError, OSError, ValueError) as problem:
            texts = {"gpu_part": f"GPU work could not be read ({problem}): {path}"}
        where = f" (node {node})" if len(places) > 1 else ""
        lost += [f"{texts[key]}{where}" for key in _GPU_LOSSES if key in texts]
        if part.lost_bytes:
            lost.append(f"{part.lost_bytes} bytes of GPU work are lost for lack of space{where}")
        suffix = f".node{node}" if len(places) > 1 else ""
        profile.metadata.update(
            {
                f"{HEALTH}{key}{suffix}": text
                for key, text in texts.items()
                if key not in _GPU_LOSSES
            }
        )
        done += [folder / name, path, trace]
    if any(part.trace is not None for part in parts):
        gpu_idle.note(profile)
    add_losses(profile, lost)
    # Where kernels are counted, there are parts only if counters were refused.
    if settings.times_gpus or parts:
        is_clear = settings.times_gpus and is_over and not lost
        mode = "yes" if is_clear and _is_required(settings, places) else "auto"
        if text := gpu_verdict.verdict(mode, parts, missed):
            profile.metadata[f"{HEALTH}gpu"] = text
    if text := gpu_verdict.shared(profile.timers, parts):
        profile.metadata[f"{HEALTH}gpu_shared"] = text
    return done


def _is_required(settings: RunSettings, places: Mapping[int, HostPlaces]) -> bool:
    """Whether `--gpu` was given for these processes: not if they are late children of a run that
    has been stored."""
    return settings.gpu == "yes" and any(
        place.part.pid == settings.root_pid for place in places.values()
    )


def lacks_gpu(profile: Profile, settings: RunSettings) -> bool:
    """Whether `--gpu` was given and nothing was recorded on a GPU; the metadata then say why.

    Args:
        profile: of all processes of the run, of which none is running any more.
    """
    if settings.gpu != "yes" or any(
        measured.thread.kind == "stream" for measured in profile.threads
    ):
        return False
    why = "its GPU work could not be read" if LOST in profile.metadata else "nothing was counted"
    profile.metadata.setdefault(f"{HEALTH}gpu", f"--gpu was given, but {why}")
    return True


def add_gpu_counts(
    profile: Profile, places: dict[int, HostPlaces], folder: Folder, settings: RunSettings
) -> list[File]:
    """Add the processes' kernel counters to their nodes; returns the files read."""
    done: list[File] = []
    names = settings.engine_options.get("gpu_counter_names", [])
    for path in folder.files(GPU_COUNT_SUFFIX):
        try:
            part = read_count_part(path)
        except (FormatError, OSError) as problem:
            profile.metadata[f"{HEALTH}gpu_counters"] = str(problem)
            continue
        node = _node_of(part, places)
        if node is None:
            continue  # its process is still running
        texts = add_count_part(profile, node, part, names, places[node].find)
        from taupy.collectors import device

        profile.devices += device.devices(node, part.chips)
        suffix = f".node{node}" if len(places) > 1 else ""
        profile.metadata.update({f"{HEALTH}{name}{suffix}": text for name, text in texts.items()})
        done.append(path)
    if names and not done:
        profile.metadata[f"{HEALTH}gpu_counters"] = (
            "no kernel was counted: the program never initialised CUDA, or another tool was loaded "
            "into its driver (CUDA_INJECTION64_PATH)"
        )
    return done


def _complete_devices(profile: Profile) -> None:
    from taupy.collectors import device

    profile.devices = device.completed(profile.devices)
    for node, facts in device.metadata(profile.devices).items():
        profile.node_metadata.setdefault(node, {}).update(facts)


def describe_gpus(profile: Profile, folder: Folder) -> None:
    """Add facts about the GPUs used, and their condition as seen by the sampler."""
    from taupy.collectors import nvml

    _complete_devices(profile)
    ordinals = {device.uuid: device.ordinal for device in profile.devices if device.uuid}
    events = nvml.user_events(folder, ordinals)
    for measured in profile.threads[:1]:
        measured.user_events += events


def add_timelines(profile: Profile, folder: Folder, settings: RunSettings) -> list[File]:
    """Add the samples of the GPUs that the program used, as user events and as timelines; returns
    the files read."""
    from taupy.collectors import sampled_timelines

    used = {device.uuid: device.ordinal for device in profile.devices if device.uuid}
    # One of several ranks samples for all. It is unknown which GPUs were used if GPU work is not
    # recorded, or the program was killed before its first records arrived.
    every = settings.world_size > 1 or not settings.times_gpus
    every = every or (not used and profile.state == "incomplete")
    done = [folder / sampled_timelines.SETTINGS, folder / sampled_timelines.KEPT]
    try:
        timelines = sampled_timelines.timelines(folder, None if every else used)
    except TaupyError as problem:
        profile.metadata[f"{HEALTH}sampling"] = str(problem)
        return done
    if timelines is None:
        return done
    texts = [f"GPU {gpu.ordinal}: {text}" for gpu in timelines for text in gpu.problems]
    texts += [f"GPU {gpu.ordinal}: nothing was sampled" for gpu in timelines if not gpu.events]
    if not timelines:
        texts = ["the program used none of the GPUs that were sampled: no timeline is kept"]
    if texts:
        profile.metadata[f"{HEALTH}sampling"] = "; ".join(texts)
    for gpu in timelines:
        chip, interval, unit = gpu.facts
        points = f", {gpu.samples_a_point} samples per point" if gpu.samples_a_point > 1 else ""
        profile.metadata[f"taupy.sampling.gpu{gpu.ordinal}"] = (
            f"{chip}, every {interval} {unit}{points}"
        )
        for measured in profile.threads[:1]:
            measured.user_events += gpu.events
            measured.samples += gpu.samples
    return done


def _node_of(part: GpuPart | CountPart, places: dict[int, HostPlaces]) -> int | None:
    """The node of the process that wrote a GPU part. A process that replaces itself
    (os.exec*) keeps its id, and has one part per image."""
    same = [node for node, place in places.items() if place.part.pid == part.pid]
    exact = [node for node in same if places[node].part.start_ticks == part.start_ticks]
    return exact[0] if exact else same[0] if len(same) == 1 else None


def add_gpu_copy(profile: Profile, file: File, node: int, place: HostPlaces) -> None:
    """Add what had completed on the GPUs when a snapshot was taken."""
    from taupy.record.gpu_profile import add_gpu_part

    try:
        part = read_gpu_part(file)
        texts = {}
        if part is not None:
            texts = add_gpu_part(profile, node, part, place.find, place.part.ns_per_tick)
            add_gpu_work(part, place.part, place.threads, place.row_of)
            _complete_devices(profile)
    except (FormatError, OSError, ValueError) as problem:
        texts = {"gpu_part": f"GPU work could not be read: {problem}"}
    texts.pop("gpu_taken", None)  # work in progress has no record yet
    profile.metadata.update({f"{HEALTH}{name}": text for name, text in texts.items()})
