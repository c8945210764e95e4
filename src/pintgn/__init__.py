"""pintgn: learn from streams of timestamped interactions.

Public names load on first use, so that `import pintgn` and `pintgn --help` stay fast; `__init__.pyi` lists them.
"""

from lazy_loader import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
