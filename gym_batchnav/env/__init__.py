"""The batch behind Gymnasium's vector API."""
