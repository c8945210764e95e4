"""Progress bars and HTML tables for terminals and notebooks."""
