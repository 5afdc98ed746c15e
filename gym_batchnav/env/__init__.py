"""The vector environment, its simulator, and single environments."""
