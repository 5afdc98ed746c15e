"""Memory and processors of containers, from files as the kernel writes them."""

import pytest

from gym_batchnav.system import limits, process

GIB = 2**30
MEMINFO = f"MemTotal: 99999999 kB\nMemAvailable: {16 * 2**20} kB\n"
SLURM = "0::/system.slice/slurmstepd.scope/job_7/step_0\n"
V1 = "9:name=systemd:/\n4:memory:/docker/1f\n1:cpu,cpuacct:/docker/1f\n0::/\n"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Write the files of a machine."""
    monkeypatch.setattr(limits, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(limits, "_GROUPS", tmp_path / "groups")
    monkeypatch.delenv(limits.MEMORY, raising=False)

    def write(cgroup, files=()):
        given = {"proc/meminfo": MEMINFO, "proc/self/cgroup": cgroup}
        given |= {f"groups/{name}": text for name, text in dict(files).items()}
        for name, text in given.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def stat(prefix, inactive, active):
    return f"anon {GIB}\n{prefix}inactive_file {inactive}\n{prefix}active_file {active}\n"


JOB = "system.slice/slurmstepd.scope/job_7"
READ = {"memory.max": f"{4 * GIB}\n", "memory.current": f"{4 * GIB}\n", "memory.stat": stat("", 2 * GIB, GIB)}
AROUND = {
    f"{JOB}/memory.max": f"{2 * GIB}",
    f"{JOB}/memory.current": f"{GIB}",
    f"{JOB}/step_0/memory.max": "max",
    f"{JOB}/step_0/memory.current": f"{GIB}",
    f"{JOB}/cpu.max": "150000 100000",
    f"{JOB}/step_0/cpu.max": "max 100000",
}
FIRST_VERSION = {  # in a container, whose own group is the root of what it sees
    "memory/memory.limit_in_bytes": f"{4 * GIB}",
    "memory/memory.usage_in_bytes": f"{3 * GIB}",
    "memory/memory.stat": stat("total_", GIB, 0),
    "cpu/cpu.cfs_quota_us": "300000",
    "cpu/cpu.cfs_period_us": "100000",
}
UNLIMITED = {
    "memory/memory.limit_in_bytes": "9223372036854771712",
    "memory/memory.usage_in_bytes": f"{GIB}",
    "cpu/cpu.cfs_quota_us": "-1",
    "cpu/cpu.cfs_period_us": "100000",
}


@pytest.mark.parametrize(
    ("cgroup", "files", "memory", "quota"),
    [
        pytest.param("0::/\n", READ, 3 * GIB, None, id="files that were read leave their memory"),
        pytest.param(SLURM, AROUND, GIB, 2, id="the limit of a group around that of the process"),
        pytest.param(V1, FIRST_VERSION, 2 * GIB, 3, id="the first version of control groups"),
        pytest.param(V1, UNLIMITED, 16 * GIB, None, id="without limits it is the machine"),
    ],
)
def test_limits_of_containers_count(machine, cgroup, files, memory, quota):
    machine(cgroup, files)
    assert (limits.available_memory(), limits.processor_quota()) == (memory, quota)


def test_the_user_has_the_last_word_about_memory(machine, monkeypatch):
    machine("0::/\n")
    for given, expected in ((str(GIB), GIB), ("off", None)):
        monkeypatch.setenv(limits.MEMORY, given)
        assert limits.available_memory() == expected
    monkeypatch.setenv(limits.MEMORY, "lots")
    with pytest.raises(ValueError, match="GYM_BATCHNAV_MEMORY='lots': set a number of bytes, or 'off'"):
        limits.available_memory()


def test_a_quota_limits_the_processors(monkeypatch):
    monkeypatch.setattr(process, "processor_quota", lambda: 1)
    assert process.num_processors() == 1
