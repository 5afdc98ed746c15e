"""``python -m gym_batchnav.cli``, for starters of programs that want a module, such as torchrun."""

from gym_batchnav.cli import main

if __name__ == "__main__":
    main()
