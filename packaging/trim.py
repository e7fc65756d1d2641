"""What an installation of kai-sched does not need at run time: the tests and headers of the libraries, and code of
numba for GPUs and for compiling ahead of time.

``python packaging/trim.py FOLDER`` removes it below a folder with packages. Needs the standard library only.
"""

import shutil
import sys
from pathlib import Path

UNUSED = (
    "numba/tests",
    "numba/cuda/tests",
    "llvmlite/tests",
    "numpy/*/tests",
    "numpy/tests",
    "numpy/f2py",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/random/lib",
    "*/_pyinstaller",
)
DEBUGGING = ("*.pyi", "*.pxd", "*.h", "*.c", "*.cpp", "*.pyx")


def main(folder: str) -> None:
    """Remove it, and say how many bytes that were."""
    removed = 0
    for packages in {path.parent for path in Path(folder).rglob("numba") if (path / "__init__.py").exists()}:
        found = [path for pattern in UNUSED for path in packages.glob(pattern)]
        found += [path for pattern in DEBUGGING for path in packages.rglob(pattern)]
        for path in found:
            files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
            removed += sum(each.stat().st_size for each in files if each.exists())
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    print(f"removed {removed / 1e6:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1])
