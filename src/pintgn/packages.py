"""Optional packages, with one clear error if one is missing."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from pintgn.errors import BadInput


def need(module: str, package: str | None = None, extra: str | None = "interop") -> Any:
    """A module of another package; an error that says how to install it where it is missing."""
    try:
        with warnings.catch_warnings():  # what others will have to mend in their own code is no news to our users
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module(module)
    except ImportError as error:
        package = package or module.split(".")[0]
        install = f"pip install 'pintgn[{extra}]'" if extra else f"pip install {package}"
        raise BadInput(f"this needs {package}, which cannot be imported ({error}). Install it: {install}.") from error


def data_frame(columns: Any) -> Any:
    """A pandas frame of columns by name, or of rows."""
    return need("pandas", extra=None).DataFrame(columns)
