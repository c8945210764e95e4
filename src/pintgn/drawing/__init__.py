"""SVG charts and drawings without a plotting library; the same input gives the same bytes."""
