"""Maps that agents draw of what their depth cameras see, and paths that they plan on them."""
