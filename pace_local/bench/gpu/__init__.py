"""``scripts/gpu-check``: one prepared run that says whether a device computes rightly, and how fast.

``check.py`` goes through the stages; ``journal.py`` keeps what each gave, so that a run that was cut off goes
on. ``full_shape.py`` makes the model on the spot, ``native_tests.py`` runs the tests of the native layer on
the device, ``speed.py`` takes the speeds, ``offline.py`` packs what a machine without network needs.
"""
