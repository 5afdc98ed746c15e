"""Parallel loops over kernels that are compiled once, as serial code.

Numba compiles the body of a ``numba.prange`` two more times, each time with all kernels that it calls.
Here a small parallel loop that all kernels share passes a kernel's address to the threads instead.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from gym_batchnav.system.jit import INNER

_BYTES = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64)
_TURNS = 256  # times that threads take items: few enough for the cheapest items, and more than there are threads
_TASK = ir.FunctionType(ir.VoidType(), [_BYTES, _WORD])  # takes the arguments and the item


def _call_task(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate the code of ``_call``."""
    task, arguments, item = args
    builder.call(builder.inttoptr(task, _TASK.as_pointer()), [builder.inttoptr(arguments, _BYTES), item])
    return context.get_dummy_value()


def _type_call(typing_context: Any, task: Any, arguments: Any, item: Any) -> Any:
    """Call a task, given as an address, with the address of its arguments and the number of the item."""
    return types.void(types.int64, types.int64, types.int64), _call_task


_call: Any = intrinsic(_type_call)


def _add_to_counter(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Generate the code of ``_take``."""
    counter, amount = args
    return builder.atomic_rmw("add", builder.inttoptr(counter, _WORD.as_pointer()), amount, "monotonic")


def _type_take(typing_context: Any, counter: Any, amount: Any) -> Any:
    """Add to the int64 at an address in one indivisible operation, and return its value before that."""
    return types.int64(types.int64, types.int64), _add_to_counter


_take: Any = intrinsic(_type_take)


@njit(parallel=True, **INNER)
def _run(task: int, arguments: int, count: int, counter: int) -> None:
    """Call a task with the items 0 to ``count`` - 1 on all threads.

    Each thread takes the next few items whenever it has finished its last ones. Items may differ in cost, and other
    programs may slow a thread down, so threads that got equal numbers of items at once would wait for the slowest.

    Task, arguments and counter are addresses. The counter is an int64, 0 at first: the next item. It is the caller's,
    because Numba frees an array as soon as it does not see it used, and does not see uses of its address.
    """
    taken_at_once = max(1, count // _TURNS)
    # Numba gives each thread an equal share of these turns. Asking for the number of threads would prevent caching.
    for _ in prange(_TURNS):
        first = _take(counter, taken_at_once)
        while first < count:
            for item in range(first, min(first + taken_at_once, count)):
                _call(task, arguments, item)
            first = _take(counter, taken_at_once)


def _type_for_each(typing_context: Any, kernel: Any, count: Any, arguments: Any) -> Any:
    """Call ``kernel(item, *arguments)`` for the items 0 to ``count`` - 1 on all threads; a single item on this thread.

    The kernel must return None and must not raise, since errors would be lost.
    """
    item_types = (types.int64, *arguments.types)
    called = kernel.get_call_type(typing_context, item_types, {})
    assert called.return_type == types.none, "a parallel loop has no results"
    run = types.Dispatcher(_run)
    run_types = run.get_call_type(typing_context, (types.int64,) * 4, {})

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, number, given = args
        given = _borrowed(context, builder, arguments, given)
        values = builder.alloca(given.type)  # lives as long as the calling kernel, which waits for the threads
        builder.store(given, values)
        number = context.cast(builder, number, signature.args[1], types.int64)
        task = _define_task(context, builder, _compiled(context, kernel, called), called, given.type)
        counter = builder.alloca(_WORD)
        builder.store(_WORD(0), counter)
        with builder.if_else(builder.icmp_signed("==", number, _WORD(1))) as (single, several):
            with single:
                builder.call(task, [builder.bitcast(values, _BYTES), _WORD(0)])
            with several:
                pointers = [builder.ptrtoint(one, _WORD) for one in (task, values, counter)]
                run_arguments = [pointers[0], pointers[1], number, pointers[2]]
                context.call_internal(builder, _compiled(context, run, run_types), run_types, run_arguments)
        return context.get_dummy_value()

    return types.void(kernel, count, arguments), generate


for_each: Any = intrinsic(_type_for_each)


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return an argument whose arrays have no owner.

    The calling kernel owns the arrays until all threads have finished. With an owner, each view of an array that a
    kernel makes would count references atomically, and the threads would wait for each other's counts.
    """
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        for index, member in enumerate(members.types):
            old = builder.extract_value(value, index)
            value = builder.insert_value(value, _borrowed(context, builder, member, old), index)
    return value


def _compiled(context: Any, kernel: Any, signature: Any) -> Any:
    """Link a compiled kernel to the code being generated, and return its descriptor."""
    result = kernel.dispatcher.get_compile_result(signature)
    library = context.active_code_library
    library.add_linking_library(result.library)
    # What starts the threads; Numba forgets it where it has read the compiled kernel from its cache.
    library._reload_init.update(result.reload_init)
    return result.fndesc


def _define_task(context: Any, builder: Any, descriptor: Any, signature: Any, packed: Any) -> Any:
    """Define the function that unpacks the arguments and calls the kernel with an item and them."""
    name = f"task.{descriptor.mangled_name}"
    task = ir.Function(builder.module, _TASK, builder.module.get_unique_name(name))
    task.linkage = "internal"
    inside = ir.IRBuilder(task.append_basic_block("entry"))
    pointer, item = task.args
    values = inside.load(inside.bitcast(pointer, packed.as_pointer()))
    context.call_internal_no_propagate(
        inside, descriptor, signature, [item, *cgutils.unpack_tuple(inside, values, len(signature.args) - 1)]
    )
    inside.ret_void()
    return task
