"""How compiled kernels are handed tables: as one pointer each, whatever number of arrays a table has.

numba passes a named tuple by value: each call of a kernel pushes data pointer, shape and strides of every array in it,
and a third of the code that LLVM has to optimise only takes such tuples apart. Here each named tuple of this project is
a type of its own, whose value is the address of a structure of addresses and lengths. The structure is made on the
stack when Python calls a kernel, and nothing is written to it afterwards. Where the kernel is not inlined into the
function that makes it (``parts``), loads from it are marked as invariant: LLVM may keep them in registers across writes
to arrays.

A named tuple that a kernel makes itself is one of numba's own, by value.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, infer_getattr, models, register_model, unbox

PACKAGE = __name__.partition(".")[0] + "."
WORD = ir.IntType(64)


class Table(types.Type):
    """A named tuple, by reference: the numba types of its fields, in their order."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = fields
        digest = hashlib.sha256(repr([(field, str(of)) for field, of in fields]).encode()).hexdigest()[:8]
        super().__init__(name=f"{name}_{digest}")

    def words(self) -> list[int]:
        """At which word of the structure each field begins, and how many there are."""
        starts = [0]
        for _, of in self.fields:
            starts.append(starts[-1] + (2 + 2 * of.ndim if isinstance(of, types.Array) else 1))
        return starts


register_model(Table)(models.OpaqueModel)
_plain_tuple = typeof_impl.dispatch(tuple)
_invariant = False


def register(invariant: bool) -> None:
    """Pass named tuples of this project by reference from now on.

    ``invariant``: no kernel is inlined into the function that makes the structure.
    """
    global _invariant
    _invariant = invariant
    typeof_impl.register(tuple, _typeof_tuple)


def _typeof_tuple(value: tuple[Any, ...], context: Any) -> Any:
    of = type(value)
    if not of.__module__.startswith(PACKAGE) or not hasattr(of, "_fields"):
        return _plain_tuple(value, context)
    pairs = [(field, typeof_impl(each, context)) for field, each in zip(of._fields, value, strict=True)]
    return Table(of.__name__, tuple(pairs))


@infer_getattr
class TableAttribute(AttributeTemplate):
    """The type of a field."""

    key = Table

    def generic_resolve(self, table: Table, name: str) -> Any:  # type: ignore[override]
        """None: there is no such field, which numba reports."""
        return dict(table.fields).get(name)


def _address(builder: Any, table: Any, word: int) -> Any:
    words = builder.bitcast(table, WORD.as_pointer())
    return builder.gep(words, [ir.Constant(ir.IntType(32), word)], inbounds=True)


def _load(builder: Any, table: Any, word: int) -> Any:
    loaded = builder.load(_address(builder, table, word))
    if _invariant:
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@lower_getattr_generic(Table)
def _get_field(context: Any, builder: Any, of: Table, table: Any, name: str) -> Any:
    at = [field for field, _ in of.fields].index(name)
    kind, word = of.fields[at][1], of.words()[at]
    if isinstance(kind, types.Array):
        return _get_array(context, builder, kind, table, word)
    loaded = _load(builder, table, word)
    if isinstance(kind, Table):
        return builder.inttoptr(loaded, context.get_value_type(kind))
    if isinstance(kind, types.Float):
        return builder.bitcast(loaded, ir.DoubleType())
    return builder.trunc(loaded, context.get_value_type(kind)) if kind.bitwidth < 64 else loaded


def _get_array(context: Any, builder: Any, kind: Any, table: Any, word: int) -> Any:
    """The structure of an array without an owner: kernels run without counting references."""
    array = context.make_array(kind)(context, builder)
    item = np.dtype(str(kind.dtype)).itemsize
    array.data = builder.inttoptr(_load(builder, table, word), context.get_data_type(kind.dtype).as_pointer())
    array.nitems = _load(builder, table, word + 1)
    array.itemsize = ir.Constant(WORD, item)
    shape = [_load(builder, table, word + 2 + axis) for axis in range(kind.ndim)]
    strides = [_load(builder, table, word + 2 + kind.ndim + axis) for axis in range(kind.ndim)]
    if kind.layout == "C":
        strides[-1] = ir.Constant(WORD, item)
    array.shape = cgutils.pack_array(builder, shape, ty=WORD)
    array.strides = cgutils.pack_array(builder, strides, ty=WORD)
    nothing = context.get_value_type(types.voidptr)
    array.meminfo = ir.Constant(nothing, None)
    array.parent = ir.Constant(nothing, None)
    return array._getvalue()


@unbox(Table)
def _unbox_table(of: Table, value: Any, c: Any) -> Any:
    builder, starts = c.builder, of.words()
    room = cgutils.alloca_once(builder, ir.ArrayType(WORD, max(starts[-1], 1)))
    failed = cgutils.alloca_once_value(builder, cgutils.false_bit)
    table = builder.bitcast(room, c.context.get_value_type(of))
    for at, (_, kind) in enumerate(of.fields):
        native = c.unbox(kind, c.pyapi.tuple_getitem(value, at))
        with builder.if_then(native.is_error, likely=False):
            builder.store(cgutils.true_bit, failed)
        for word, each in enumerate(_words_of(c.context, builder, kind, native.value)):
            builder.store(each, _address(builder, table, starts[at] + word))
    return NativeValue(table, is_error=builder.load(failed))


def _words_of(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
        strides = cgutils.unpack_tuple(builder, array.strides, kind.ndim)
        return [builder.ptrtoint(array.data, WORD), array.nitems, *shape, *strides]
    if isinstance(kind, Table):
        return [builder.ptrtoint(value, WORD)]
    if isinstance(kind, types.Float):
        return [builder.bitcast(value, WORD)]
    return [builder.sext(value, WORD) if kind.bitwidth < 64 else value]
