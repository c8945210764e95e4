"""Expressive power of classes of models: reference code, slow and simple, that fast packages are tested against.

    from pintgn.theory import distinguish, temporal_wl, report

Public names load on first use. Modules have other names than the functions in them, because a module that is imported
becomes an attribute of the package and would hide the function.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
