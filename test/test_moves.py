"""The numbering of the moves."""

from gk_planner.moves import DCOL, DROW, MOVES, OPPOSITE


def test_order_is_e_n_w_s_then_the_diagonals():
    assert MOVES == ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1))
    assert list(zip(DROW.tolist(), DCOL.tolist(), strict=True)) == list(MOVES)


def test_opposite_moves_back():
    assert OPPOSITE.tolist() == [2, 3, 0, 1, 6, 7, 4, 5]
