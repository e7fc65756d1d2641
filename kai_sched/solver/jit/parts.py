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
    in_base = ("_optimize_functions", "_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
    in_generator = ("_library_class", "_module_pass_manager")
    known = all(hasattr(base, name) for name in in_base)
    if not known or not all(hasattr(generator, name) for name in in_generator):
        return False

    class Library(base):  # type: ignore[misc]
        def _optimize_functions(self, ll_module: Any) -> None:
            if self.name.startswith(PART):
                ll_module.data_layout = self._codegen._data_layout
            else:
                super()._optimize_functions(ll_module)

        def _optimize_final_module(self) -> None:
            if self.name.startswith(PART):
                return
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.add_function_attribute("noinline")
            # Not numba's cheap pass before it, which is for reference counts.
            passes, builder = self._codegen._module_pass_manager()
            passes.run(self._final_module, builder)

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
