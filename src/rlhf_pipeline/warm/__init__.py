"""A warm Python: one process imports torch, verl and vLLM once; every worker is a fork of it.

A PPO run is some twelve Python processes, and each would spend ten seconds of CPU time on the same
imports; on two cores that is most of a short run. server.py imports and forks, python.py takes the
interpreter's place (`python.py -c ...`, `-m ...`, `script.py ...`), start.py starts both. Forking is
safe only while nothing has started a thread or touched a GPU, so this is used on CPU alone.
"""
