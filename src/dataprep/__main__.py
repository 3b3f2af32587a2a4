"""`python -m dataprep`: the command."""

from dataprep.cli.main import main

if __name__ == "__main__":
    main()
