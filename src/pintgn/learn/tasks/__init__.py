"""What a run is asked: whether events happen (`link`), a column of them, or whether something happens in time."""
