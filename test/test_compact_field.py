"""Packed fields against the numbers they hold."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np

from gk_planner.compact_field import compact, CompactField

FIELDS = st.lists(st.one_of(st.floats(-2.0 ** 18, 0), st.just(-np.inf)), min_size=1, max_size=30)


@settings(max_examples=300, deadline=None)
@given(FIELDS)
def test_values_come_back(values):
    exact = np.array(values)
    field = compact(exact)
    if np.isinf(exact).all():
        assert field is exact
        return
    assert isinstance(field, CompactField) and field.nbytes == 5 * exact.size
    found = field[np.arange(exact.size)]
    assert ((found == -np.inf) == (exact == -np.inf)).all()
    finite = np.isfinite(exact)
    np.testing.assert_allclose(found[finite], exact[finite], rtol=0, atol=1.3e-7)
    assert found[exact.argmax()] == exact.max()


def test_one_cell_at_a_time():
    field = compact(np.array([-3.0, -np.inf, -1.0]))
    assert float(field[1]) == -np.inf and abs(float(field[0]) + 3) < 1e-11


def test_wide_fields_keep_their_digits():
    wide = np.array([-2.0 ** 19, -0.1, -np.inf])
    assert compact(wide) is wide
