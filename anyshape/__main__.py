"""`python -m anyshape` is the `anyshape` command."""

from anyshape.cli import main

if __name__ == "__main__":
    main()
