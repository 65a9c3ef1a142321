"""Places in the tables of a linkage, which `rigid_closed` describes; what its parts share."""

from __future__ import annotations

from fixman.kernels import njit
from fixman.kernels.compiler.lanes import part
from fixman.kernels.compiler.steps import step

# why a state has no answer, besides those of `articulated_body`
PIVOT, OPEN, OPENING, DEPENDENT = -4, -5, -6, -7

# the head of a plan: numbers of chains, closures, rows, coordinates and rates; length of a state's
# forces; where in memory ends, rows, Λ⁻¹, its factor, answers to what is asked, and wrenches begin,
# and its length; where in the table ends, rows and axes begin, and where records do; for each task
# how many numbers it writes for a state
(
    CHAINS, CLOSURES, HELD, NQ, NV, LOADS,
    PLACED0, FACTS0, INVERSE0, FACTOR0, ASKED0, WRENCH0, MEMORY,
    END0, ROW0, AXES0, CHAIN0, CLOSURE0, OF_ROW0, WIDTHS,
) = range(20)  # fmt: skip
# of each chain: where its table, coordinates, rates, forces, work and 1/D begin, and where the last
# ends; how long the first four are; its ends, from the base outwards, as pairs of number and body;
# its blocks of columns
(
    TABLE, Q, V, LOAD, UNITS, INVERSES, LAST_INVERSE, TABLE_SIZE, NQ_OF, NV_OF, LOAD_SIZE,
    ENDS, LAST_END, BLOCKS, LAST_BLOCK,
) = range(15)  # fmt: skip
CHAIN = 15
# of each block of up to eight columns: the first and how many; its ends, the first and one past the
# last; the rates of as much of the chain as they reach; where its innovations begin and end
COLUMN, COUNT, FIRST, LAST, RATES, INNOVATIONS, LAST_INNOVATION = range(7)
BLOCK = 7
# of each closure: which turns it holds (NO_TURNS, ALL_TURNS, or all but this); its rows
CLOSURE = 3
NO_TURNS, ALL_TURNS = -1, -2

END, ROW = 13, 3  # numbers in ``table``

# References to arrays are not counted in what only other kernels call: it costs a microsecond.
plain = njit(
    nogil=True, error_model="numpy", fastmath={"contract", "nsz"}, _nrt=False,
    no_cpython_wrapper=True,
)  # fmt: skip
# R (9), origin (3) and ω (3) of the body; axes (9), point (3), its velocity (3); 1 of the base
PLACED = 31
FACTS = 8  # of a row: direction in the base (3), gap, rate, acceleration, multiplier, scale
BASE = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
NOWHERE = (0.0, 0.0, 0.0)
FORCE, MOMENT = (
    (0.9, 1.1, -0.8),
    (1.2, -0.7, 1.0),
)  # of the column that asks how freely a body moves
# An eigenvalue of the scaled Λ⁻¹ that is above this for certain is not lost.
CERTAIN = 1e-9

# tasks of `states`
MOTION, GAP, RATE, GAPS, COMPLIANCE, INERTIA, ROWS = range(7)
HEAD = WIDTHS + 7
REASONS = 8  # a frame without an answer is REASONS · frame − the reason


@step
def room(memory, plan, at):
    """The memory from where ``plan[at]`` says to where the next number does."""
    return part(memory, plan[at], plan[at + 1] - plan[at], 0.0)
