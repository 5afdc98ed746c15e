"""Conversion of datasets for other libraries, each by the library's own writer, which must be installed."""
