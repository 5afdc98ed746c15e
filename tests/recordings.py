"""Recordings of rerun, read by its own reader."""

from collections import defaultdict

import numpy as np
from rerun.chunk import RrdReader


class Recorded:
    """The first recording of a file.

    Attributes:
        steps: Steps [M] of each column, by (entity, component).
        rows: Their values, a list of M lists.
        fixed: The values of what does not change, lists by (entity, component).
        name: The name of the recording.
    """

    def __init__(self, path):
        reader = RrdReader(path)
        self.num_recordings = len(reader.recordings())
        self.num_blueprints = len(reader.blueprints())
        self.rows = defaultdict(list)
        self.fixed = {}
        steps = defaultdict(list)
        for chunk in reader.stream().to_chunks():
            batch = chunk.to_record_batch()
            for name in batch.schema.names:
                kind = (batch.schema.field(name).metadata or {}).get(b"rerun:kind")
                if kind != b"data":
                    continue
                key = (chunk.entity_path, name)
                if chunk.is_static:
                    self.fixed[key] = batch[name].to_pylist()[-1]
                    continue
                steps[key].append(np.array(batch["step"].to_pylist()))
                self.rows[key] += batch[name].to_pylist()
        order = {key: np.argsort(np.concatenate(parts)) for key, parts in steps.items()}
        self.steps = {key: np.concatenate(parts)[order[key]] for key, parts in steps.items()}
        self.rows = {key: [rows[place] for place in order[key]] for key, rows in self.rows.items()}
        self.name = self.fixed[("/__properties", "RecordingInfo:name")][0]

    def entities(self):
        """The paths of all entities."""
        return {path for path, _ in (*self.rows, *self.fixed)}

    def curve(self, path):
        """The steps and values of a curve of single numbers."""
        key = (f"/{path}", "Scalars:scalars")
        return self.steps[key], np.array([value for (value,) in self.rows[key]])

    def vectors(self, path, component):
        """The values of a column with one vector per step."""
        return np.array([value for (value,) in self.rows[f"/{path}", component]])

    def images(self, path, archetype, dtype):
        """Images [F, H, W, C] of an entity."""
        layouts = [layout for (layout,) in self.rows[f"/{path}", f"{archetype}:format"]]
        assert all(layout == layouts[0] for layout in layouts)
        size = (layouts[0]["height"], layouts[0]["width"])
        found = [np.array(data, np.uint8).view(dtype) for (data,) in self.rows[f"/{path}", f"{archetype}:buffer"]]
        return np.stack([pixels.reshape(*size, -1) for pixels in found])
