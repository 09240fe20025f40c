"""The rules of a task on the bits that take part, as masks: what the kernels ask per state.

The ordering cost q_sigma_alpha (eq:BOG_order_cost) becomes two masks per flip: the bits that must
be 1 and the bits that must be 0. The formula becomes a short program on a stack, in which every
operator counts: the number of its true operands must lie in a range (and: all, or: at least one,
not: none) or be odd (xor). Literals are counted with masks, a word of 64 bits at a time. Goals
that take no part keep their initial value, which is folded in.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gk_planner.boolean_task import once_per_task, Task
from gk_planner.formula_tree import And, Bit, Constant, Count, Node, Not, Or, Xor

Words = NDArray[np.uint64]
_WORD = 2 ** 64 - 1
# In place of ``high``: the number of true operands, plus ``low``, must be odd.
ODD = -1


class TaskRules(NamedTuple):
    """Masks over words of 64 bits, W words per state.

    ``ones`` and ``zeros``[value, bit] must be set and clear in sigma for a bit to flip away from
    its value, if that is ``possible``[value, bit] at all. Row k of ``steps`` is (number of
    operands from the stack, low, high): how many of these and of ``literals``[k] (bits that are
    true if 1, if 0) must be true; the last step leaves the value of the formula.
    """

    ones: Words                    # (2, n_bits, W)
    zeros: Words                   # (2, n_bits, W)
    possible: NDArray[np.bool_]    # (2, n_bits)
    initial: Words                 # (W,)
    steps: NDArray[np.int64]       # (n_steps, 3)
    literals: Words                # (n_steps, 2, W)


@once_per_task
def task_rules(task: Task, goals: tuple[int, ...]) -> TaskRules:
    """Return the rules over the bits of ``goals``."""
    bit_of = {goal: bit for bit, goal in enumerate(goals)}
    n_bits = len(goals)
    # Masks are whole numbers of any size until all are known; [value][bit].
    ones, zeros = ([[0] * n_bits, [0] * n_bits] for _ in range(2))
    possible = np.ones((2, n_bits), dtype=bool)
    possible[1] = [goal in task.reversible for goal in goals]
    for rule in task.bit_constraints:
        if rule.control not in bit_of:
            continue
        control = bit_of[rule.control]
        if rule.condition in bit_of:
            masks = zeros if rule.condition_value else ones
            masks[rule.control_value][control] |= 1 << bit_of[rule.condition]
        elif task.initial_bits[rule.condition] == bool(rule.condition_value):
            possible[rule.control_value, control] = False
    program = _Program(bit_of, task.initial_bits)
    program.add(task.formula.root)
    initial = sum(1 << bit for bit, goal in enumerate(goals) if goal in task.done)
    n_words = max(1, -(-n_bits // 64))
    return TaskRules(_words(ones, n_words), _words(zeros, n_words), possible,
                     _words([[initial]], n_words)[0, 0],
                     np.array(program.steps, dtype=np.int64), _words(program.literals, n_words))


def _words(masks: Sequence[Sequence[int]], n_words: int) -> Words:
    """Return masks as words of 64 bits, the lowest first."""
    words = [mask >> shift & _WORD for row in masks for mask in row
             for shift in range(0, 64 * n_words, 64)]
    return np.array(words, dtype=np.uint64).reshape(len(masks), len(masks[0]), n_words)


class _Program:
    """The steps of a formula, operands before operators."""

    def __init__(self, bit_of: dict[int, int], constants: Sequence[bool]) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.literals: list[list[int]] = []
        self._bit_of, self._constants = bit_of, constants

    def add(self, node: Node) -> None:
        """Append the steps that leave the value of a node on the stack."""
        match node:
            case Constant(value):
                self._count((), int(not value), 0)
            case And(operands):
                self._count(operands, len(operands), len(operands))
            case Or(operands):
                self._count(operands, 1, len(operands))
            case Xor(operands):
                self._count(operands, 0, ODD)
            case Count(low, high, goals):
                self._count(tuple(map(Bit, goals)), low, high)
            case Not(operand):
                self._count((operand,), 0, 0)
            case Bit():
                self._count((node,), 1, 1)

    def _count(self, operands: Sequence[Node], low: int, high: int) -> None:
        masks = [0, 0]
        n_inner = n_true = 0
        for operand in operands:
            sign = not isinstance(operand, Not)
            atom = operand.operand if isinstance(operand, Not) else operand
            if not isinstance(atom, Bit):
                self.add(operand)
                n_inner += 1
            elif atom.index not in self._bit_of:
                n_true += self._constants[atom.index] == sign
            elif not (masks[0] | masks[1]) >> self._bit_of[atom.index] & 1:
                masks[not sign] |= 1 << self._bit_of[atom.index]
            else:  # named twice; a mask counts once
                self._count((operand,), 1, 1)
                n_inner += 1
        if high == ODD:
            self.steps.append((n_inner, n_true & 1, ODD))
        elif high < n_true:
            self.steps.append((n_inner, 1, 0))  # never
        else:
            self.steps.append((n_inner, low - n_true, high - n_true))
        self.literals.append(masks)
