"""BatchAttributes: Gymnasium's access to the attributes and methods of all environments of a batch."""

from __future__ import annotations

from typing import Any


class BatchAttributes:
    """Methods of Gymnasium's vector API for attributes that all environments share; a base class of BatchNavEnv.

    Attributes:
        num_envs: N.
    """

    num_envs: int

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of the batch, or read an attribute, and return one result per environment.

        ``call("render")`` returns one frame per environment; any other result is that of the batch, repeated.
        """
        result = getattr(self, name)
        if callable(result):
            result = result(*args, **kwargs)
        return result if name == "render" and result is not None else (result,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the batch, once per environment."""
        return (getattr(self, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute that all environments share; the entries of a list must be equal.

        Raises:
            ValueError: The entries of a list differ, or their number is not N.
        """
        if isinstance(values, (list, tuple)):
            if len(values) != self.num_envs or any(value != values[0] for value in values):
                raise ValueError(f"set_attr({name!r}): the environments of a batch share it; pass one value")
            values = values[0]
        setattr(self, name, values)
