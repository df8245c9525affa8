"""`python -m hierbench` is the same program as `hierbench`."""

from hierbench.cli import main

if __name__ == "__main__":
    main()
