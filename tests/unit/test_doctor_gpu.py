"""`taupy doctor` on a GPU's counters: who may read them."""

from __future__ import annotations

import pytest

from taupy.commands import doctor_gpu

RESTRICTED = "RmProfilingAdminOnly: 1\n"


@pytest.mark.parametrize(
    ("capabilities", "status"), [("000001ffffffffff", "ok"), ("00000000a80425fb", "note")]
)
def test_the_driver_looks_at_a_capability_and_not_at_root(
    monkeypatch, tmp_path, capabilities, status
):
    """The second is root in a container of docker's."""
    (tmp_path / "params").write_text(RESTRICTED)
    (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    monkeypatch.setattr(doctor_gpu, "_PARAMETERS", tmp_path / "params")
    monkeypatch.setattr(doctor_gpu, "_STATUS", tmp_path / "status")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    check = doctor_gpu._permission()
    assert check is not None and check[1] == status
    assert ("without CAP_SYS_ADMIN" in check[2]) == (status == "note")
