"""`python -m dataprep`: the command."""

from dataprep_jax import main

if __name__ == "__main__":
    main()
