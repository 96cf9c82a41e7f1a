"""A full disk under one server, without a disk: the kernel lets the process write to no file.

Files that exist stay readable. The server sees an error (EFBIG, not ENOSPC) where it would write;
Redis tells the two apart in its log only. With `append_only="always"` it ends rather than lose what
it has promised to keep; with "everysec" it answers writes with MISCONF until there is room again.
Linux only.
"""

import resource

from holdfast.lab.servers.process import ServerProcess


def fill_disk(server: ServerProcess) -> None:
    """From now on, whatever this server process writes to a file fails."""
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, hard))


def free_disk(server: ServerProcess) -> None:
    """It can write again. So can every server that is started anew."""
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
