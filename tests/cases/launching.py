"""mpiexec, and the environment in which tests launch ranks."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))

# Open MPI starts nothing for root, and no more ranks than cores, unless it is told to; containers are often both
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def environment(**more: str) -> dict[str, str]:
    """The variables of this process, with the source tree on the path, Open MPI's consent, and `more`."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, **_OPEN_MPI, "PYTHONPATH": paths, **more}
