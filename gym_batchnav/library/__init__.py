"""The K scenes that N agents share, and the rotation through a longer list of scenes.

Glossary:

- *scene*: a ``Scene``, one home or room: triangles, materials, textures.
- *recipe*: a description from which this or another process can make a scene again: a file, a seed of the generator,
  an entry of a dataset. Scenes that exist only in memory have none.
- *source*: an entry of the list of scenes: its name, a function that loads it, and its recipe.
- *slot*: a place for one scene. Agents, renderers and navmeshes refer to scenes by slot.
- *lane*: one of K queues of episodes. New episodes of a lane begin in its *active* slot. ``num_active`` is K, which the
  environment calls ``resident``.
- *resident*: a scene that has a lane, or that a caller has put into a slot.
- *spare*: a slot without a scene, into which the next one is loaded.
- *arriving*: a scene in a slot that will soon take over a lane.
- *leaving*: a scene that has lost its lane, with agents still in it.
- *rotation*: the lanes change their scenes in turn, every ``rotate_every`` steps, in the order of the *plan*.
- *preparer*: a callable that derives data from a scene (a navmesh, a ray tree, buffers), once per scene.
- *prepare ahead*: worker processes fill the cache before the process that steps loads a scene.
- *refused*: a scene that can never be used. *failed*: a scene that could not be loaded at its turn and is retried at
  its next turn, if scenes rotate. *passed over*: a scene that did not fit into memory at its turn.

Modules: ``library`` (SceneLibrary: slots, lanes, rotation in and out), ``rotation`` (which scene and when), ``loader``
(in the background; refusals), ``sources`` (what ``scenes=`` may name; recipes), ``packing`` and ``cache``, ``prepare``
(a scene becomes ready to walk in), ``workers`` (in other processes), ``shipped`` (tables that are part of the package)
and ``warmup`` (kernels compiled ahead).
"""
