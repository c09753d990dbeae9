"""CUDA's libraries are found in pip's wheels, the newest first."""

from __future__ import annotations

import sys

from taupy.cuda import driver, libraries


def make(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("no library")
    return path


def test_wheels_of_both_kinds_are_found_newest_first(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(libraries, "_SYSTEM", (str(tmp_path / "toolkit"),))
    old = make(tmp_path / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12")
    new = make(tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13")
    make(tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.alt.so.13")
    make(tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc-builtins.so.13.0")
    toolkit = [make(tmp_path / "toolkit" / f"libnvrtc.so.{v}") for v in ("11.10", "11.2")]
    assert list(libraries.candidates("libnvrtc")) == [new, old, *toolkit]


def test_a_library_that_does_not_load_gives_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(libraries, "_SYSTEM", ())
    assert libraries.load("libnothing") == (None, "there is no libnothing")
    make(tmp_path / "nvidia" / "cu13" / "lib" / "libnothing.so.1")
    library, why = libraries.load("libnothing")
    assert library is None
    assert "libnothing.so.1" in why


def test_no_driver_means_no_gpu(monkeypatch):
    def refuse(function, *arguments):
        raise driver.CudaError("there is no CUDA driver on this machine")

    monkeypatch.setattr(driver, "call", refuse)
    assert driver.device_count() == 0
