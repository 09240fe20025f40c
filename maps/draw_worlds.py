"""Draw the example worlds: each map file of this folder from its picture in characters.

``#`` is a wall, ``o`` furniture, a blank is unknown, any other sign is free floor. ``S``
marks the start, other letters and digits mark the sites of the world's task. A line of ``v`` is
no floor but an edge: the cliff between the line above and the line below, one way down.

Run ``python maps/draw_worlds.py`` after a change; the task files give positions in metres.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from gk_planner.occupancy_map import FREE, OccupancyMap, OCCUPIED, UNKNOWN


class World(NamedTuple):
    """A picture and what one of its characters stands for.

    Attributes
    ----------
    picture : str
        Lines from north to south.
    side : float
        Metres along one character.
    cells : int
        Map cells along one character.
    margin : int
        Characters of unknown space added around the picture, outside the origin of the frame.

    """

    picture: str
    side: float = 1.0
    cells: int = 1
    margin: int = 0

    @property
    def lines(self) -> list[str]:
        """The lines of floor from south to north."""
        lines = self.picture.strip('\n').split('\n')
        return [line for line in reversed(lines) if not _is_cliff(line)]

    @property
    def marks(self) -> dict[tuple[int, int], str]:
        """The marked characters by (column, row), counted from the lower left corner."""
        return {(col, row): sign for row, line in enumerate(self.lines)
                for col, sign in enumerate(line) if sign not in '.#o '}

    @property
    def occupancy_map(self) -> OccupancyMap:
        """The picture as an occupancy grid."""
        signs = np.array([list(line) for line in self.lines])
        signs = np.pad(signs, self.margin, constant_values=' ')
        signs = signs.repeat(self.cells, axis=0).repeat(self.cells, axis=1)
        data = np.select([signs == '#', signs == 'o', signs == ' '],
                         [OCCUPIED, OCCUPIED, UNKNOWN], FREE)
        # A scanner sees the outline of furniture, never its inside.
        data[ndimage.binary_erosion(signs == 'o')] = UNKNOWN
        corner = -self.margin * self.side
        return OccupancyMap(data, self.side / self.cells, (corner, corner, 0.0))

    @property
    def cliffs(self) -> list[tuple[float, float, float]]:
        """West end, east end and height of every cliff in metres."""
        found, row = [], 0
        for line in reversed(self.picture.strip('\n').split('\n')):
            if _is_cliff(line):
                found.append((0.0, len(line) * self.side, row * self.side))
            else:
                row += 1
        return found


def _is_cliff(line: str) -> bool:
    return set(line) == {'v'}


def write_worlds(folder: Path) -> None:
    """Write map, image and, where there is a cliff, annotations of every world."""
    for name, world in WORLDS.items():
        world.occupancy_map.save(folder / f'{name}.yaml')
        if world.cliffs:
            (folder / f'{name}_annotations.yaml').write_text(
                _annotations(world.cliffs), encoding='utf-8')


def _annotations(cliffs: list[tuple[float, float, float]]) -> str:
    lines = [f'  - [[{west:g}, {y:g}], [{east:g}, {y:g}]]\n' for west, east, y in cliffs]
    return ('# A line is crossed from its left to its right only: walked eastwards, from north to '
            'south.\n'
            '# The robot can descend the cliff and not climb it.\n'
            'one_way:\n' + ''.join(lines))


RUNNING_EXAMPLE = """
##############
#............#
#.t..##......#
#....##...##.#
#.........##.#
#..S.........#
#......##....#
#......##..a.#
#.p..........#
##############
"""

# Kitchen, two offices and the mail room in the north; meeting room, the desk's office, copy room
# and a shaft in the middle; reception, caretaker, open-plan office and lounge in the south.
OFFICE = """
########################################################################
#ooooooooooooo..oo#.oooooooo.......#oo.....oooooooo#oo..ooooooooooo....#
#ooooooooooooo..oo#.oooooooo.......#oo.....oooooooo#oo..ooooooooooo....#
#oo...............#.oooooooo.......#oo.....oooooooo#oo...............oo#
#oo.........oo....#................#oo.............#oo.......m.......oo#
#oo.k.............#....oo.......ooo#oo........oo...#oo...............oo#
#oo........oooo...#.............ooo#...............#oo...............oo#
#oo........oooo...#.............ooo#...............#oo...............oo#
#oo...............#.............ooo#...............#oo...............oo#
#...........oo....#.............ooo#...............#oo...............oo#
#.................#................#...............#oo.................#
#.................#................#...............#...................#
#########....###############....######....#################....#########
#o.....................................................................#
#o.....................................................................#
#......................................................................#
#......................................................................#
#......................................................................#
#o.....................................................................#
#o..........############################....####################.......#
#o..........#...............#o.................#oo......#      #.......#
#o..........#.....o.o.o.....#o....ddddd........#oo......#      #.......#
#...........#...............#o....ddddd........#oo.....o#      #.......#
#...........#....ooooooo....#o.................#oo.....o#      #.......#
#...........#....ooooooo....#..................#.......o#      #.......#
#...........#....ooooooo....#....ooooooo.....oo#.......o#      #.......#
#...........#...............#....ooooooo.....oo#........#      #.......#
#...........#.....o.o.o.....#................oo#........#      #.......#
#...........#...............#.......o........oo#........#      #.......#
#...........#####....#############################....##########.......#
#......................................................................#
#......................................................................#
#......................................................................#
#......................................................................#
#....................................................................oo#
#....................................................................oo#
#.................#######....#######....#######....######....###########
#.................#.............#....................#.................#
#........oooooo...#.............#....................#.................#
#oo......oooooo...#oo...........#...o..o.....o..o....#..............ooo#
#oo...............#oo...........#..oooooo...oooooo...#........ooo...ooo#
#oo...............#oo.h.........#..oooooo...oooooo...#........ooo...ooo#
#oo...............#oo...........#....................#........ooo.l.ooo#
#oo...............#oo...........#...o..o.....o..o....#..............ooo#
#oo...S...........#oo...........#..oooooo...oooooo...#..............ooo#
#oo...............#oo........ooo#..oooooo...oooooo...#.oooooo..........#
#oo...............#oo........ooo#....................#.oooooo..........#
########################################################################
"""

TSP_NINE = """
###############
#......#......#
#..g...#..r...#
#......#......#
#.......b...r.#
#.............#
#..b..###.....#
#.....###.g...#
#..........r..#
#.............#
#.......#.....#
#..b....#...g.#
#S......#.....#
###############
"""

# The top of the cliff has two niches in the north, its foot has two in the south.
CLIFF_1 = """
#############
###f####r####
#S..........#
#...........#
vvvvvvvvvvvvv
#...........#
#...........#
####s####b###
#############
"""

# Mirrored, with rocks, and every niche one cell deeper: two cells more from niche to niche.
CLIFF_2 = """
#############
####r####f###
####.####.###
#..........S#
###.........#
vvvvvvvvvvvvv
#..........##
#.........###
###.####.####
###b####s####
#############
"""

# Flag and rope have changed places, with a wall between them: the same ways are open, at costs of
# their own.
CLIFF_3 = """
#############
###r#####f###
#S...##.....#
#...........#
vvvvvvvvvvvvv
#...........#
#...........#
####s####b###
#############
"""

# The flag has fallen down, and a shell lies on the top.
CLIFF_4 = """
#############
###s####r####
#S..........#
#...........#
vvvvvvvvvvvvv
#...........#
#...........#
####f####b###
#############
"""

XOR_DNF = """
#############
#.....#.....#
#.1...#...2.#
#.....#.....#
#...........#
#....S......#
#...........#
#..4.....3..#
#############
"""

REMAP_3X3 = """
...
...
...
"""

WORLDS = {
    'running_example': World(RUNNING_EXAMPLE),
    'office': World(OFFICE, side=0.2, cells=4, margin=2),
    'tsp_nine': World(TSP_NINE),
    'cliff_1': World(CLIFF_1),
    'cliff_2': World(CLIFF_2),
    'cliff_3': World(CLIFF_3),
    'cliff_4': World(CLIFF_4),
    'xor_dnf': World(XOR_DNF),
    'remap_3x3': World(REMAP_3X3),
}

if __name__ == '__main__':
    write_worlds(Path(__file__).parent)
