"""`python -m ruler_cli` is `ruler`."""

from ruler_cli.cli import main

main()
