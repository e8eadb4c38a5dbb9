"""Looking into saved programs without loading them: nothing in them is run, and no GPU is needed."""
