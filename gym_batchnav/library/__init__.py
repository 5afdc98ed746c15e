"""The K scenes that N agents share, and how scenes of a long list take turns.

Glossary:

- *scene*: a ``Scene``, one home or room: triangles, materials, textures.
- *recipe*: how a scene is made again, here or in another process: a file, a seed of the generator, an entry of a
  dataset. Scenes that exist in memory only have none.
- *source*: one entry of the list of scenes: a name, how to load it, and its recipe.
- *slot*: a place for one scene. Agents, renderers and navmeshes refer to scenes by slot.
- *lane*: one of K queues of episodes. New episodes of a lane begin in its *active* slot. ``num_active`` is K, which the
  environment calls ``resident_scenes``.
- *resident*: a scene that has a lane, or that a caller has put into a slot.
- *spare*: a slot without a scene, into which the next one is loaded.
- *arriving*: a scene in a slot that will soon take over a lane.
- *leaving*: a scene that has lost its lane, with agents still in it.
- *rotation*: the lanes change their scenes in turn, every ``rotate_every`` steps, in the order of the *plan*.
- *preparer*: a callable that makes something of a scene (a navmesh, a ray tree, buffers), once per scene.
- *prepare ahead*: worker processes fill the cache before the process that steps loads a scene.
- *refused*: a scene that can never be used. *failed*: one that could not be loaded at its turn and is tried again at
  the next. *passed over*: one that did not fit into memory at its turn.

Modules: ``library`` (SceneLibrary), ``slots``, ``plan``, ``pace`` (how rotation keeps up), ``loader``, ``refusals``,
``supply`` (the first scenes), ``sources`` (what ``scenes=`` may name), ``recipes``, ``packing`` and ``cache``.
"""
