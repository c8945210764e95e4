"""What it means: the model contract and the models, one file each."""
