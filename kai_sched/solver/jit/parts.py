"""How inner kernels are compiled: as a part of the kernels that use them, and by themselves not at all.

This rests on internals of numba. Where they change, kernels are compiled as numba does it: slower, with the same
results.
"""

from __future__ import annotations

from typing import Any

from kai_sched.solver.jit import PART


def install() -> bool:
    """Let numba optimise an inner kernel, and make machine code of it, only within the kernels that use it.

    Numba does both for each function with all that it calls, so that a kernel ten calls deep would be compiled ten
    times. The other kernels are never inlined into the wrappers by which Python calls them; returns whether that is so.
    """
    from numba.core import codegen

    base: Any = getattr(codegen, "JITCodeLibrary", object)
    generator: Any = getattr(codegen, "JITCPUCodegen", object)
    in_base = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
    if not all(hasattr(base, name) for name in in_base) or not hasattr(generator, "_library_class"):
        return False

    class Library(base):  # type: ignore[misc]
        def _optimize_final_module(self) -> None:
            if self.name.startswith(PART):
                return
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.add_function_attribute("noinline")
            super()._optimize_final_module()

        def _finalize_final_module(self) -> None:
            if not self.name.startswith(PART):
                super()._finalize_final_module()
                return
            self._finalize_dynamic_globals()
            self._finalized = True

    plain_set_env = generator.set_env

    def set_env(self: Any, name: str, environment: Any) -> None:
        if self._engine.is_symbol_defined(name):
            plain_set_env(self, name, environment)

    generator._library_class, generator.set_env = Library, set_env
    return True
