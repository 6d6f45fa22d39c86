"""Sessions that depend on what was said early, and grades of their answers by hidden checks.

:mod:`specifications` and ``tasks/`` make the definitions, :mod:`filler` the work in between, :mod:`trial` one
session of both; :mod:`answers`, :mod:`sandbox` and :mod:`grading` grade what a model answers. :mod:`cells`
says what is compared, :mod:`runner` measures it turn by turn (:mod:`play`), :mod:`journal` keeps it,
:mod:`summary` and :mod:`report` say what it came to.
"""
