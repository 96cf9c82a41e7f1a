"""A machine that sleeps: only the boot clock counts on, and leases end meanwhile."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SLEEPING = """
    import sys, time

    slept = 0.0
    read = time.clock_gettime

    def clock_gettime(clock):
        return read(clock) + (slept if clock == time.CLOCK_BOOTTIME else 0.0)

    time.clock_gettime = clock_gettime  # before anybody else gets hold of it
    url = sys.argv[1]
"""

THREADS = """
    from holdfast import Client, LockLost

    with Client(url) as client, Client(url) as other:
        lease = client.lock("job", ttl=60, renew=False).acquire()
        assert lease.held and 59 < lease.remaining() <= 60, lease.remaining()
        assert other.lock("job").acquire(blocking=False) is None
        slept = 61.0
        assert (lease.held, lease.lost, lease.remaining()) == (False, True, 0.0)
        try:
            lease.release()
        except LockLost:
            pass
        else:
            raise AssertionError("released as if it were held")
        later = other.lock("job").acquire(blocking=False)
        assert later and later.fence > lease.fence
        later.release()
"""

TASKS = """
    import asyncio
    from holdfast import AsyncClient, LockLost

    async def main():
        global slept
        async with AsyncClient(url) as client, AsyncClient(url) as other:
            lease = await client.lock("job", ttl=60, renew=False).acquire()
            assert lease.held and 59 < lease.remaining() <= 60, lease.remaining()
            slept = 61.0
            assert (lease.held, lease.lost, lease.remaining()) == (False, True, 0.0)
            try:
                await lease.release()
            except LockLost:
                pass
            else:
                raise AssertionError("released as if it were held")
            later = await other.lock("job").acquire(blocking=False)
            assert later and later.fence > lease.fence
            await later.release()

    asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a boot clock to look at")
@pytest.mark.parametrize("story", [THREADS, TASKS], ids=["threads", "tasks"])
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_a_lease_ends_while_the_machine_sleeps(story: str, engine: str, tmp_path: Path) -> None:
    url = "memory://" if engine == "memory" else f"sqlite://{tmp_path}/locks.db"
    program = textwrap.dedent(SLEEPING) + textwrap.dedent(story)
    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
