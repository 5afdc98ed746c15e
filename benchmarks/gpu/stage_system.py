"""Stage system: drivers, EGL and CUDA devices, OpenGL's limits and extensions, speed of copies."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import time

from figures import Report, cuda_unavailable_reason, device

from gym_batchnav.diagnosis import diagnose
from gym_batchnav.render.opengl.devices import cuda_devices, egl_devices, matching_device

WANTED = (
    "GL_ARB_bindless_texture", "GL_ARB_indirect_parameters", "GL_ARB_shader_viewport_layer_array",
    "GL_ARB_sparse_texture", "GL_EXT_memory_object_fd", "GL_KHR_robustness", "GL_NV_mesh_shader",
    "GL_NV_gpu_multicast", "GL_NV_command_list",
)  # fmt: skip
LIMITS = (
    "GL_MAX_TEXTURE_SIZE", "GL_MAX_ARRAY_TEXTURE_LAYERS", "GL_MAX_SHADER_STORAGE_BLOCK_SIZE",
    "GL_MAX_VIEWPORTS", "GL_MAX_COMPUTE_WORK_GROUP_COUNT",
)  # fmt: skip
COPY_BYTES = 1 << 30


def machine(report: Report) -> None:
    """Report the diagnosis of the machine and the output of nvidia-smi."""
    found = diagnose()
    report.figure("renderer='auto'", found.renderer, note=found.reason, doctor=found.to_dict())
    for line in found.advice:
        report.figure("advice", "", note=line)
    for name in ("torch", "cuda-core", "numba", "numpy", "moderngl", "gymnasium"):
        report.figure(f"version of {name}", found.versions.get(name) or "none")
    report.figure("Embree", found.embree or "none", note=found.embree_error)
    report.figure(
        "threads of Numba", found.threads["numba"], note=f"{found.threads['layer']}; {found.threads['cores']} cores"
    )
    if shutil.which("nvidia-smi"):
        query = "--query-gpu=name,driver_version,memory.total,pcie.link.gen.current,clocks.max.sm"
        said = subprocess.run(["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True)
        report.figure("nvidia-smi", said.stdout.strip() or said.stderr.strip())
    tools = [tool for tool in ("nvcc", "ncu", "compute-sanitizer") if shutil.which(tool)]
    report.figure("tools", ", ".join(tools) or "none")


def devices(report: Report) -> None:
    """Report EGL's and CUDA's devices, and which of them are the same."""
    listed = egl_devices()
    for one in listed:
        report.figure(f"EGL device {one.index}", one.renderer or one.vendor or "?", note=str(one))
    for one in cuda_devices():
        match = matching_device(listed, one)
        report.figure(f"CUDA device {one.index} is an EGL device", match is not None, bar=1, note=f"{one}; {match}")


def opengl(report: Report) -> None:
    """Report the time to create an OpenGL context, its limits and its extensions."""
    from gym_batchnav.render.opengl.context import Context

    start = time.perf_counter()
    context = Context()
    report.figure("creating an OpenGL context", 1000 * (time.perf_counter() - start), "ms")
    report.figure(
        "OpenGL", context.device, note=f"{context.moderngl.info['GL_VERSION']}; UUID {context.uuid or 'unknown'}"
    )
    for name in LIMITS:
        report.figure(name, str(context.moderngl.info.get(name, "?")))
    extensions = context.moderngl.extensions
    present = [name for name in WANTED if name in extensions]
    report.figure("extensions of interest", len(present), note=", ".join(present), all=sorted(extensions))
    context.moderngl.release()


def copies(report: Report) -> None:
    """Report GB/s of copies within the GPU and between the GPU and main memory."""
    import torch

    data = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    pinned = torch.empty(COPY_BYTES // 4, dtype=torch.uint8, pin_memory=True)
    for what, target, source in (
        ("copy within the GPU, bytes read and written", torch.empty_like(data), data),
        ("copy from the GPU to pinned memory", pinned, data[: len(pinned)]),
        ("copy from pinned memory to the GPU", data[: len(pinned)], pinned),
    ):
        target.copy_(source)
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            target.copy_(source, non_blocking=True)
        end.record()
        torch.cuda.synchronize()
        moved = 10 * len(target) * (2 if "within" in what else 1)
        report.figure(what, moved / start.elapsed_time(end) / 1e6, "GB/s")


def main() -> None:
    report = Report("system")
    for work in (machine, devices, opengl):
        with report.part(work.__name__):
            work(report)
    report.figure("observations can stay on the GPU", device() == "cuda", note=cuda_unavailable_reason())
    if importlib.util.find_spec("torch") and device() == "cuda":
        with report.part("copies"):
            copies(report)
    report.end()


if __name__ == "__main__":
    main()
