"""How inner kernels are compiled: as a part of the kernels that use them, and never by themselves.

Numba links, optimises and makes machine code of each function together with all that it calls, so that a kernel ten
calls deep would be linked and compiled ten times. Here an inner kernel stays the code of one function until a kernel
that Python calls gathers all that it needs, each part once.

This rests on internals of numba. Where they change, kernels are compiled as numba does it: slower, with the same
results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PART = "part:"  # begins the qualified names of inner kernels


def install() -> bool:
    """Compile inner kernels only within the kernels that use them; returns whether numba could be taught that.

    Where it could, no kernel is inlined into the wrapper by which Python calls it.
    """
    from numba.core import codegen

    base: Any = getattr(codegen, "JITCodeLibrary", object)
    generator: Any = getattr(codegen, "JITCPUCodegen", object)
    in_base = ("finalize", "_optimize_functions", "_optimize_final_module", "_finalize_dynamic_globals")
    in_generator = ("_library_class", "_module_pass_manager", "set_env")
    known = all(hasattr(base, name) for name in in_base)
    if not known or not all(hasattr(generator, name) for name in in_generator):
        return False

    class Library(base):  # type: ignore[misc]
        """The code of one kernel; of a kernel that Python calls, together with its parts once it is finalized."""

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def finalize(self) -> None:
            if not self.name.startswith(PART):
                self._linking_libraries = list(_with_parts(self))
                super().finalize()
                return
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.linkage = "linkonce_odr"
            self._shared_module = self._final_module
            self._finalize_dynamic_globals()
            self._finalized = True

        def _optimize_final_module(self) -> None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.add_function_attribute("noinline")
            # Not numba's cheap pass before it, which is for reference counts.
            passes, builder = self._codegen._module_pass_manager()
            passes.run(self._final_module, builder)

    plain_set_env = generator.set_env

    def set_env(self: Any, name: str, environment: Any) -> None:
        if self._engine.is_symbol_defined(name):
            plain_set_env(self, name, environment)

    generator._library_class, generator.set_env = Library, set_env
    return True


def _with_parts(library: Any) -> Iterator[Any]:
    """The libraries that a library links, with those that its parts link, each once, those that are called first."""
    seen: set[Any] = set()
    below = [iter(library._linking_libraries)]
    while below:  # Bound: each library is entered once.
        each = next(below[-1], None)
        if each is None:
            below.pop()
        elif each not in seen:
            seen.add(each)
            yield each
            if each.name.startswith(PART):
                below.append(iter(each._linking_libraries))


def widen_arguments(dispatcher: Any) -> None:
    """Compile the kernel once, not again for each kind of integer that callers pass: 0, int32 and int64 are int64.

    Numba takes a constant for a type of its own. Callers convert what they pass, as they do for any function.
    """
    from numba.core import types

    fold = dispatcher._compiler.fold_argument_types

    def widened(of: Any) -> Any:
        if isinstance(of, types.BooleanLiteral):
            return types.boolean
        return types.int64 if isinstance(of, types.Integer) and of != types.uint64 else of

    def fold_argument_types(args: Any, kws: Any) -> Any:
        signature, folded = fold(args, kws)
        return signature, tuple(map(widened, folded))

    dispatcher._compiler.fold_argument_types = fold_argument_types
