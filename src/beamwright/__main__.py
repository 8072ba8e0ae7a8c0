"""`python -m beamwright`."""

from beamwright.surfaces.cli import main

main()
