"""Package gk_planner for ament_python and pip."""

from glob import glob

from setuptools import find_packages, setup

PACKAGE = 'gk_planner'

setup(
    name=PACKAGE,
    version='0.1.0',
    packages=find_packages(include=[PACKAGE, PACKAGE + '.*']),
    package_data={PACKAGE: ['py.typed']},
    data_files=[
        ('share/ament_index/resource_index/packages', ['resource/' + PACKAGE]),
        ('share/' + PACKAGE, ['package.xml']),
        ('share/' + PACKAGE + '/config', glob('config/*.yaml')),
        ('share/' + PACKAGE + '/config/tasks', glob('config/tasks/*.yaml')),
        ('share/' + PACKAGE + '/launch', glob('launch/*.py') + glob('launch/*.rviz')),
        ('share/' + PACKAGE + '/maps', glob('maps/*.yaml') + glob('maps/*.pgm')),
    ],
    python_requires='>=3.11',
    install_requires=['numpy', 'scipy', 'numba', 'shapely>=2', 'pyyaml', 'pillow', 'matplotlib',
                      'tqdm'],
    extras_require={
        'engine': ['ortools'],
        'dask': ['distributed'],
        'test': ['pytest', 'pytest-xdist', 'hypothesis', 'mpmath', 'ruff', 'mypy',
                 'types-PyYAML', 'ortools', 'distributed'],
        'bench': ['scikit-image', 'up-fast-downward', 'ortools', 'distributed'],
    },
    zip_safe=True,
    author='gk_planner maintainers',
    maintainer='gk_planner maintainers',
    maintainer_email='maintainers@gk-planner.dev',
    description='Optimal plans for logical errands on an occupancy grid',
    license='Apache-2.0',
    entry_points={'console_scripts': [
        'gk_planner = gk_planner.cli:main',
        'planner_node = gk_planner.ros.start:planner_node',
        'sim_node = gk_planner.ros.start:sim_node',
        'send_task = gk_planner.ros.start:send_task',
    ]},
)
