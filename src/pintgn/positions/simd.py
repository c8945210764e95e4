"""One vector comparison that Numba does not find by itself. LLVM splits it where vectors are shorter."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WIDTH = 16


@intrinsic
def count_below(typing_context, slots, first, key):
    """How many of the WIDTH four-byte numbers slots[first:] are smaller than `key`, all of them unsigned."""

    def generate(context, builder, signature, arguments):
        numbers, single = ir.VectorType(ir.IntType(32), WIDTH), ir.IntType(32)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), numbers.as_pointer())
        found = builder.load(address)
        found.align = 4
        nothing = ir.Constant(numbers, ir.Undefined)
        one = builder.insert_element(nothing, arguments[2], ir.Constant(single, 0))
        same = builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(single, WIDTH), [0] * WIDTH))
        below = builder.bitcast(builder.icmp_unsigned("<", found, same), ir.IntType(WIDTH))
        return builder.zext(builder.ctpop(below), ir.IntType(64))

    return types.uint64(slots, types.uint64, types.uint32), generate
