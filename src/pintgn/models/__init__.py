"""Models: the contract, and one file for each family."""
