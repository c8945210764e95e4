"""Drawings as SVG text, for pages, files and documentation: no library needed, same input, same bytes."""
