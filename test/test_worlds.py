"""The example worlds: their files are what the pictures say, their optima are known.

A plan is written as its legs (site, straight steps, diagonal steps), to be checked by hand in the
pictures of ``maps/draw_worlds.py`` (the office excepted); a leg costs
(straight + diagonal * sqrt 2) * resolution. The product space proves each of them.
"""

import dataclasses
import importlib.util
import itertools
import math
from pathlib import Path

import numpy as np
from plan_validator import validate
import pytest

from gk_planner import BaseSpace, option_library, Planner, solve_task, Task
from gk_planner.cli import main
from gk_planner.dnf import clauses, dnf_text
from gk_planner.formula import parse
from gk_planner.full_task_mdp import solve_full_task_mdp
from gk_planner.option_kernel import feasibility

ROOT = Path(__file__).parent.parent
MAPS, TASKS = ROOT / 'maps', ROOT / 'config' / 'tasks'

spec = importlib.util.spec_from_file_location('draw_worlds', MAPS / 'draw_worlds.py')
draw_worlds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(draw_worlds)
WORLDS = draw_worlds.WORLDS

PLANS = {
    # Water on the way out, the axe, and back above the rocks: 14 + 7 sqrt 2. Water on the way
    # back would be 20 straight and 3 diagonal steps, 24.24 to 23.90.
    'running_example': [('pond', 2, 1), ('axe', 8, 1), ('tree', 4, 5)],
    # Too fine to count: read off the plan, and proven by the product space alone. Steps of 0.05 m,
    # 428 + 168 sqrt 2 in all. Where x and y both run one way, straight = dx + dy - 2 diagonal:
    # mailbox to desk 90 cells west and 66 south, of which 36 at once.
    'office': [('hook', 78, 41), ('lounge_machine', 144, 45), ('mailbox', 122, 46),
               ('desk_front', 84, 36)],
    # 28 + 22 sqrt 2: north of the block to the far red corner (9 east and 10 north, 7 of them at
    # once), red down the east side, green up again and west, blue back to the south.
    'tsp_nine': [('r1', 5, 7), ('r2', 0, 2), ('r3', 3, 1), ('g3', 2, 1), ('g2', 2, 2),
                 ('g1', 4, 4), ('b1', 3, 2), ('b2', 3, 2), ('b3', 5, 0), ('Start', 1, 1)],
    # Along the hall and into a niche are straight; rope to shell goes 4 west and 5 south, of
    # which 2 in the niches: 3 diagonal.
    'cliff_1': [('flag', 3, 0), ('rope', 7, 0), ('shell', 3, 3), ('boat', 7, 0)],
    # The same with one more step in and out of every niche.
    'cliff_2': [('flag', 4, 0), ('rope', 9, 0), ('shell', 5, 3), ('boat', 9, 0)],
    # Rope to flag dips under the wall: 6 east, 2 steps of it diagonal, and 1 + 1 in the niches.
    'cliff_3': [('rope', 3, 0), ('flag', 6, 2), ('shell', 4, 3), ('boat', 7, 0)],
    # Shell before boat costs no detour: the boat lies right below the rope, one column east.
    'cliff_4': [('shell', 3, 0), ('rope', 7, 0), ('boat', 4, 1), ('flag', 7, 0)],
    # w2: 2 diagonal to s4, 6 east to s3, and 5 north with 1 east to s2.
    'xor_dnf': [('s4', 0, 2), ('s3', 6, 0), ('s2', 4, 1)],
    'remap_3x3_a': [('south_east', 2, 0), ('north_east', 2, 0), ('north_west', 2, 0)],
    'remap_3x3_b': [('east', 1, 1), ('north', 0, 1), ('west', 0, 1)],
}


def load(name):
    world = name.removesuffix('_a').removesuffix('_b')
    settings = {'robot_radius': 0.2} if world == 'office' else {}
    if WORLDS[world].cliffs:
        settings['annotations_file'] = str(MAPS / f'{world}_annotations.yaml')
    space = BaseSpace.from_file(MAPS / f'{world}.yaml', **settings)
    return space, Task.from_file(TASKS / f'{name}.yaml')


def with_formula(task, text):
    formula = parse(text, task.goal_names, task.feature_goals, 'formula')
    return dataclasses.replace(task, formula=formula)


def sequence(plan):
    return [option.site for option in plan.options]


def check_exact(space, task, plan):
    """Check a plan step by step, and its cost against the full product space."""
    validate(plan.to_dict(), task, space.grid_map, space.config, task.start, space.annotations)
    exact = solve_full_task_mdp(task, space.grid_map, space.config, task.start, space.annotations)
    assert plan.cost == pytest.approx(exact.cost, rel=1e-9)


def leg_costs(space, task):
    """Cost from point site to point site (rows: from), and from the start."""
    places = [space.start_cell(xy) for xy in (*(s.position for s in task.sites), task.start)]
    library = Planner(space).library
    table = np.column_stack([option.values(np.array(places))
                             for option in library.get(places[:-1])])
    return table[:-1], table[-1]


def test_committed_files_are_what_the_script_draws(tmp_path):
    draw_worlds.write_worlds(tmp_path)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in MAPS.iterdir()
                     if path.suffix in ('.yaml', '.pgm')}


def test_every_world_has_a_task_and_every_task_a_plan():
    assert {path.stem for path in TASKS.iterdir()} == set(PLANS)


def places(site, side):
    """The position of a site, or the centres of the characters in its rectangular region."""
    if not site.region:
        return [site.position]
    low, high = np.min(site.region, axis=0), np.max(site.region, axis=0)
    return list(itertools.product(*(np.arange(a + side / 2, b, side)
                                    for a, b in zip(low, high, strict=True))))


@pytest.mark.parametrize('name', [name for name in PLANS if not name.startswith('remap')])
def test_sites_stand_on_their_marks(name):
    world, task = WORLDS[name], Task.from_file(TASKS / f'{name}.yaml')
    found = {(math.floor(x / world.side), math.floor(y / world.side)): name
             for name, (x, y) in [('S', task.start), *(
                 (site.name, xy) for site in task.sites for xy in places(site, world.side))]}
    assert found.keys() == world.marks.keys()
    for place, name in found.items():
        assert world.marks[place] in (name[0], name[-1])


@pytest.mark.parametrize('name', PLANS)
def test_known_optimum(name):
    space, task = load(name)
    plan = Planner(space).plan(task)
    assert sequence(plan) == [site for site, _, _ in PLANS[name]]
    assert [option.cost for option in plan.options] == pytest.approx(
        [(straight + diagonal * math.sqrt(2)) * space.resolution
         for _, straight, diagonal in PLANS[name]], rel=1e-9)
    assert plan.optimal and not plan.warnings
    check_exact(space, task, plan)


@pytest.mark.parametrize('name', PLANS)
def test_command_line_as_the_task_file_says(name, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = (TASKS / f'{name}.yaml').read_text().splitlines()
    words = ' '.join(line.strip('#\\ ') for line in lines if line.startswith('#   ')).split()
    command = words[words.index('python'):]
    assert command[:3] == ['python', '-m', 'gk_planner']
    assert main(command[3:]) == 0
    assert f'{len(PLANS[name])} options' in capsys.readouterr().out


def test_running_example_without_the_constraint_starts_at_the_tree():
    space, task = load('running_example')
    plan = Planner(space).plan(dataclasses.replace(task, constraints=()))
    # The tree comes first: 2 + 1 diagonal; then 6 straight to the pond, 8 + 1 diagonal to the axe.
    assert sequence(plan) == ['tree', 'pond', 'axe']
    assert plan.cost == pytest.approx(16 + 2 * math.sqrt(2))


def test_office_nearer_machine_is_not_the_right_one():
    space, task = load('office')
    planner = Planner(space)
    plan = planner.plan(task)
    kitchen, lounge = (
        planner.plan(with_formula(task.replace(sites=[task.sites[machine]]), 'coffee')).cost
        for machine in (0, 1))
    assert kitchen < lounge - 3.0
    planner.plan(task)
    detour = planner.reground([], removed=['lounge_machine'])
    assert 'kitchen_machine' in sequence(detour)
    assert detour.cost > plan.cost + 3.0
    check_exact(space, task.replace(sites=[s for s in task.sites if s.name != 'lounge_machine']),
                detour)


def test_tsp_precedence_has_a_price():
    space, task = load('tsp_nine')
    free = dataclasses.replace(task, constraints=())
    free = with_formula(free, ' & '.join(n for n in free.goal_names if n != 'home'))
    assert Planner(space).plan(free).cost < Planner(space).plan(task).cost - 20


def test_tsp_in_the_form_of_the_paper():
    space, task = load('tsp_nine')
    paper = ['c(red^0, green^1)', 'c(green^0, blue^1)', 'c(blue^0, home^1)']
    other = Task.from_dict(task.to_dict() | {'constraints': paper})
    assert sequence(Planner(space).plan(other)) == sequence(Planner(space).plan(task))


def test_tsp_with_colours_alone_needs_one_site_of_each():
    space, task = load('tsp_nine')
    sites = [site.to_dict() | {'features': site.features[:1]} for site in task.sites]
    fields = {'sites': sites, 'constraints': [c.text for c in task.constraints],
              'start': task.start}
    colours = Task.from_dict(fields)
    plan = Planner(space).plan(colours)
    assert [option.goal for option in plan.options] == ['red', 'green', 'blue', 'home']
    check_exact(space, colours, plan)


def test_tsp_task_layer_alone():
    space, task = load('tsp_nine')
    solution = solve_task(task, *leg_costs(space, task))
    assert solution.sequence == tuple(site for site, _, _ in PLANS['tsp_nine'])
    assert solution.cost == pytest.approx(Planner(space).plan(task).cost)


@pytest.fixture(scope='module')
def cliffs():
    """For every cliff the shortest-path matrix S and the costs from the start."""
    return [leg_costs(*load(f'cliff_{number}')) for number in (1, 2, 3, 4)]


def between(costs):
    """The finite entries between different sites."""
    return costs[np.isfinite(costs) & ~np.eye(len(costs), dtype=bool)]


def along(names, task, costs, entry):
    sites = [[site.name for site in task.sites].index(name) for name in names]
    return entry[sites[0]] + sum(costs[i, j] for i, j in itertools.pairwise(sites))


def test_cliff_tasks_differ_in_nothing_but_the_grounding():
    tasks = [Task.from_file(TASKS / f'cliff_{number}.yaml') for number in (1, 2, 3, 4)]
    for task in tasks[1:]:
        assert (task.goals, task.constraints, task.formula) == (
            tasks[0].goals, tasks[0].constraints, tasks[0].formula)
        assert [site.name for site in task.sites] == [site.name for site in tasks[0].sites]


def test_cliff_shortest_paths_by_hand(cliffs):
    # Rows and columns: flag, rope, shell, boat. Halls are 2 cells wide each; down the cliff
    # 5 cells south, 3 of them between the niches.
    d, inf = math.sqrt(2), math.inf
    np.testing.assert_allclose(cliffs[0][0], [
        [0, 7, 4 + d, 5 + 3 * d],
        [7, 0, 3 + 3 * d, 4 + d],
        [inf, inf, 0, 7],
        [inf, inf, 7, 0]])


def test_cliff_feasibility(cliffs):
    k1, k2, k3, k4 = (feasibility(costs) for costs, _ in cliffs)
    assert k1.tolist() == [[True, True, True, True], [True, True, True, True],
                           [False, False, True, True], [False, False, True, True]]
    assert np.array_equal(k1, k2)
    assert np.array_equal(k1, k3)
    # Shell and rope are on the top.
    assert k4.tolist() == [[True, False, False, True], [True, True, True, True],
                           [True, True, True, True], [True, False, False, True]]


def test_cliff_2_is_cliff_1_up_to_a_constant(cliffs):
    np.testing.assert_allclose(between(cliffs[1][0]) - between(cliffs[0][0]), 2.0)
    np.testing.assert_allclose(cliffs[1][1] - cliffs[0][1], 1.0)
    one, two = (Planner(load(name)[0]).plan(load(name)[1]) for name in ('cliff_1', 'cliff_2'))
    assert sequence(one) == sequence(two)
    assert two.cost == pytest.approx(one.cost + 1 + 3 * 2)


def test_cliff_3_shares_what_is_possible_and_not_what_it_costs(cliffs):
    for costs, _ in cliffs[:2]:
        assert np.ptp(between(cliffs[2][0]) - between(costs)) > 1
    space, task = load('cliff_3')
    old = along([site for site, _, _ in PLANS['cliff_1']], task, *cliffs[2])
    assert Planner(space).plan(task).cost < old < math.inf


def test_cliff_4_cannot_be_done_by_the_old_solution(cliffs):
    old = [site for site, _, _ in PLANS['cliff_1']]
    assert along(old, load('cliff_4')[1], *cliffs[3]) == math.inf


def test_xor_optimum_is_that_of_its_cheapest_clause():
    space, task = load('xor_dnf')
    d = math.sqrt(2)
    # By clause: the sites and the steps of the cheapest plan that makes it true.
    known = {'s1 & !s2 & s3 & s4': (['s1', 's4', 's3'], 3 * d + (4 + d) + 6),
             '!s1 & s2 & s3 & s4': (['s4', 's3', 's2'], 2 * d + 6 + (4 + d)),
             's1 & s2 & s3 & !s4': (['s1', 's3', 's2'], 3 * d + (2 + 5 * d) + (4 + d))}
    found = {dnf_text(clause, task.goal_names) for clause in clauses(task.formula)}
    assert found == set(known)
    costs = []
    for text, (sites, cost) in known.items():
        single = with_formula(task, text)
        plan = Planner(space).plan(single)
        assert sequence(plan) == sites
        assert plan.cost == pytest.approx(cost)
        check_exact(space, single, plan)
        costs.append(plan.cost)
    assert Planner(space).plan(task).cost == min(costs) == costs[1]


def test_remap_solves_both_tasks_from_one_complete_ensemble(monkeypatch):
    space, first = load('remap_3x3_a')
    _, second = load('remap_3x3_b')
    planner = Planner(space)
    planner.library.complete()
    assert len(planner.library) == 9

    def refuse(*_, **__):
        raise AssertionError('a new option was solved')

    monkeypatch.setattr(option_library, 'solve_option', refuse)
    plans = [planner.plan(task) for task in (first, second)]
    assert [sequence(plan) for plan in plans] == [
        [site for site, _, _ in PLANS[name]] for name in ('remap_3x3_a', 'remap_3x3_b')]
    assert len(planner.library) == 9
