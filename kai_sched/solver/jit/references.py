"""How compiled kernels get tables: each named tuple as one pointer to addresses, lengths and numbers.

numba passes a named tuple by value: each call of a kernel pushes data pointer, shape and strides of every array in it,
and a third of the code that LLVM has to optimise only takes such tuples apart. Here each named tuple of this project is
a type of its own, whose value is the address of a block of words: addresses and lengths of arrays, and numbers. Tables
within a table lie within its block. ``Reference`` makes the block, once for all kernels that get the table, and nothing
is written to it afterwards. Where a kernel is not inlined into the wrapper by which Python calls it (``parts``), loads
from the block are marked as invariant: LLVM may keep them in registers across writes to arrays.

A named tuple that a kernel makes itself is one of numba's own, by value.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, infer_getattr, intrinsic, models, register_model, unbox

PACKAGE = __name__.partition(".")[0] + "."
WORD = ir.IntType(64)


class Table(types.Type):
    """A named tuple, by reference: the numba types of its fields, in their order."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = fields
        digest = hashlib.sha256(repr([(field, str(of)) for field, of in fields]).encode()).hexdigest()
        self.number = int(digest[:15], 16)  # tells types apart in a block of words
        super().__init__(name=f"{name}_{digest[:8]}")

    def starts(self) -> list[int]:
        """At which word of the block each field begins, and how many words there are."""
        starts = [0]
        for _, of in self.fields:
            starts.append(starts[-1] + _size(of))
        return starts


class Whole(types.Type):
    """The named tuple itself, as only ``_pack`` gets it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        super().__init__(name=f"whole {table.name}")


def _size(of: Any) -> int:
    if isinstance(of, Table):
        return of.starts()[-1]
    return 2 + 2 * of.ndim if isinstance(of, types.Array) else 1


register_model(Table)(models.OpaqueModel)
register_model(Whole)(models.OpaqueModel)
_plain_tuple = typeof_impl.dispatch(tuple)
_invariant = False
_pack: Any = None  # the compiled _pack_block
_table_of: dict[int, Table] = {}  # by number
_words_of_class: dict[type, int] = {}


def register(invariant: bool, compiler: Callable[[Any], Any]) -> None:
    """Pass named tuples of this project by reference from now on. ``compiler`` compiles a kernel.

    ``invariant``: no kernel is inlined into the function that calls it with a reference.
    """
    global _invariant, _pack
    _invariant = invariant
    _pack = compiler(_pack_block)
    typeof_impl.register(tuple, _typeof_tuple)


def is_table(value: Any) -> bool:
    """Whether the value is a named tuple of this project."""
    return isinstance(value, tuple) and hasattr(value, "_fields") and type(value).__module__.startswith(PACKAGE)


def _typeof_tuple(value: tuple[Any, ...], context: Any) -> Any:
    if not is_table(value):
        return _plain_tuple(value, context)
    of: Any = type(value)
    pairs = []
    for field, each in zip(of._fields, value, strict=True):
        kind = typeof_impl(each, context)
        pairs.append((field, kind.table if isinstance(kind, Whole) else kind))
    table = Table(of.__name__, tuple(pairs))
    _table_of[table.number] = table
    return Whole(table)


class Reference:
    """A named tuple as kernels get it. It keeps the tuple alive, whose arrays the block points into."""

    __slots__ = ("_numba_type_", "address", "table", "words")

    def __init__(self, table: Any) -> None:
        self.table = table
        while True:  # Bound: the second turn has the size that the first one asked for.
            self.words = np.empty(_words_of_class.get(type(table), 64), np.int64)
            self.address = _pack(table, self.words)
            if self.address > 0:
                break
            _words_of_class[type(table)] = -self.address
        self._numba_type_ = _table_of[int(self.words[0])]


class Kernel(Dispatcher):
    """A kernel that Python calls: it takes named tuples, and references to them."""

    def __call__(self, *args: Any) -> Any:
        return super().__call__(*[Reference(each) if is_table(each) else each for each in args])


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
    kind, word = of.fields[at][1], of.starts()[at]
    if isinstance(kind, types.Array):
        return _get_array(context, builder, kind, table, word)
    if isinstance(kind, Table):
        return builder.bitcast(_address(builder, table, word), context.get_value_type(kind))
    loaded = _load(builder, table, word)
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
def _unbox_reference(of: Table, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.bitcast(address, c.context.get_value_type(of)))


@unbox(Whole)
def _unbox_whole(of: Whole, value: Any, c: Any) -> Any:
    """A block on the stack; its first word is the number of the table's type."""
    room = cgutils.alloca_once(c.builder, ir.ArrayType(WORD, 1 + _size(of.table)))
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    block = c.builder.bitcast(room, c.context.get_value_type(of))
    c.builder.store(ir.Constant(WORD, of.table.number), _address(c.builder, block, 0))
    _store_fields(of.table, value, block, 1, failed, c)
    return NativeValue(block, is_error=c.builder.load(failed))


def _store_fields(of: Table, value: Any, block: Any, start: int, failed: Any, c: Any) -> None:
    for at, ((_, kind), word) in enumerate(zip(of.fields, of.starts(), strict=False)):
        item = c.pyapi.tuple_getitem(value, at)
        if isinstance(kind, Table):
            _store_fields(kind, item, block, start + word, failed, c)
            continue
        native = c.unbox(kind, item)
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
        for offset, each in enumerate(_words_of(c.context, c.builder, kind, native.value)):
            c.builder.store(each, _address(c.builder, block, start + word + offset))


def _words_of(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
        strides = cgutils.unpack_tuple(builder, array.strides, kind.ndim)
        return [builder.ptrtoint(array.data, WORD), array.nitems, *shape, *strides]
    if isinstance(kind, types.Float):
        return [builder.bitcast(value, WORD)]
    return [builder.sext(value, WORD) if kind.bitwidth < 64 else value]


@intrinsic
def _copy_block(_typing: Any, whole: Any, words: Any) -> Any:
    """Copy the block of a table to ``words``. Returns the address behind the type's number, or minus its length if
    there is not room for it.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of, kind = signature.args
        array = context.make_array(kind)(context, builder, value=arguments[1])
        length = ir.Constant(WORD, 1 + _size(of.table))
        result = cgutils.alloca_once_value(builder, builder.neg(length))
        with builder.if_then(builder.icmp_signed(">=", array.nitems, length)):
            cgutils.memcpy(builder, array.data, builder.bitcast(arguments[0], WORD.as_pointer()), length)
            behind = builder.gep(array.data, [ir.Constant(WORD, 1)])
            builder.store(builder.ptrtoint(behind, WORD), result)
        return builder.load(result)

    return types.int64(whole, words), generate


def _pack_block(table: Any, words: Any) -> Any:
    return _copy_block(table, words)  # type: ignore[call-arg]
