"""How answers and progress look in a terminal and in a notebook."""
