"""``python -m gym_batchnav``: the command line, for launchers that run modules, such as torchrun."""

from gym_batchnav.cli import main

if __name__ == "__main__":
    main()
