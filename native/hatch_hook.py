"""The build hook: a wheel holds the compiled kernels where there is a compiler, and is one for any platform if not."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from compile_kernels import TARGET, NotCompiled, compile_kernels


class KernelsHook(BuildHookInterface[Any]):
    """Compiles before a wheel is packed, or an editable one points at the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """The library has no Python in it: one wheel serves every Python 3 of the platform."""
        try:
            if os.environ.get("ENSUE_KERNELS") == "off":
                TARGET.unlink(missing_ok=True)
                raise NotCompiled("ENSUE_KERNELS is off")
            compile_kernels()
        except NotCompiled as reason:
            self.app.display_warning(f"ensue without compiled kernels (all works, some of it slower): {reason}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append(f"/{TARGET.relative_to(self.root).as_posix()}")
