"""Compile the kernels with the system's C++ compiler: one library for every instruction set, chosen from at run time.

    python native/compile_kernels.py [FILE] [--sanitize]

Without FILE it goes where ensue looks for it, ``src/ensue/kernels/libkernels.so.1``. ``--sanitize`` is for
``scripts/sanitize``. Needs nothing but Python and a compiler that knows C++17 (``$CXX``, or c++, g++ or clang++ on the
path); standard output names the file. The exit code is 1, and one line says why, where nothing could be compiled.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "src" / "ensue" / "kernels" / "libkernels.so.1"
FLAGS = [
    "-std=c++17", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
    "-fvisibility=hidden", "-Wno-psabi", "-pthread", "-I../src/ensue/kernels",  # kernels.h
]  # fmt: skip
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
ARCHS = {
    "plain": ["-DENSUE_BYTES=16"],
    "avx2": ["-DENSUE_BYTES=32", "-mavx2", "-mfma", "-mf16c"],
    "avx512": [
        "-DENSUE_BYTES=64", "-mfma", "-mf16c", "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl",
        "-mprefer-vector-width=512",
    ],
}  # fmt: skip
"""Flags of an instruction set; all but the first are of x86-64."""
ARCHS["vnni"] = [*ARCHS["avx512"], "-mavx512vnni"]  # products of 16-bit numbers alone: see arch.cpp


class NotCompiled(Exception):  # noqa: N818
    """Why there is no library, in one line."""


def compiler() -> str:
    """The compiler's path."""
    if platform.system() != "Linux":
        raise NotCompiled(f"kernels are compiled on Linux alone, not on {platform.system()}")
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise NotCompiled("no C++ compiler is on the path (c++, g++, clang++, or $CXX)")


def compile_kernels(target: Path = TARGET, *, sanitize: bool = False) -> Path:
    """Compile and put the library in place at once; an older one there is gone where that fails.

    Raises:
        NotCompiled: no compiler, or it failed.
    """
    try:
        wanted = [*FLAGS, *(SANITIZE if sanitize else [])]
        x86 = platform.machine() in ("x86_64", "AMD64")
        with tempfile.TemporaryDirectory() as place:
            made = _compiled(compiler(), wanted, Path(place), list(ARCHS) if x86 else ["plain"])
            beside = target.with_name(f"{target.name}.{os.getpid()}")
            content = made.read_bytes()
            # ensue/kernels/__init__.py opens no library without this checksum at its end.
            beside.write_bytes(content + zlib.crc32(content).to_bytes(4, "little"))
            os.replace(beside, target)  # noqa: PTH105
    except NotCompiled:
        target.unlink(missing_ok=True)
        raise
    return target


def _compiled(compiler: str, flags: list[str], place: Path, archs: list[str]) -> Path:
    """All sources side by side, then the library; sources are named from their folder, so that no path is in it."""
    x86 = ["-DENSUE_X86"] if len(archs) > 1 else []
    parts = {f"{name}.o": [*ARCHS[name], f"-DENSUE_ARCH={name}", "arch.cpp"] for name in archs}
    parts |= {
        f"{path.stem}.o": [*x86, "-ffp-contract=off", path.name]
        for path in sorted(HERE.glob("*.cpp"))
        if path.name != "arch.cpp"
    }
    running = {
        name: _start([compiler, *flags, *own, "-c", "-o", str(place / name)]) for name, own in sorted(parts.items())
    }
    ended = [(process.communicate()[1], process.returncode) for process in running.values()]
    objects = [str(place / name) for name in running]
    runtime = [] if "-g1" in flags else ["-static-libstdc++", "-static-libgcc", "-s"]
    if not any(code for _, code in ended):
        last = _start([compiler, *flags, "-shared", *runtime, "-o", str(place / "library"), *objects])
        ended = [(last.communicate()[1], last.returncode)]
    for said, code in ended:
        if code:
            lines = [line for line in said.splitlines() if "error" in line] or said.splitlines() or ["nothing said"]
            raise NotCompiled(f"{compiler} ended with {code}: {lines[0]}")
    return place / "library"


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, cwd=HERE, stderr=subprocess.PIPE, text=True)


def main() -> None:
    """Run the script."""
    words = [word for word in sys.argv[1:] if word != "--sanitize"]
    try:
        print(compile_kernels(*(Path(word).resolve() for word in words), sanitize="--sanitize" in sys.argv))
    except NotCompiled as error:
        sys.exit(f"native/compile_kernels.py: {error}")


if __name__ == "__main__":
    main()
