"""`python -m broker` is `evermq`."""

from broker.cli import main

if __name__ == "__main__":
    main()
