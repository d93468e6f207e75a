"""Watches over a PPO run: metric history in, alarms and actions out. Torch-free.

history.py keeps the course of the run, rules.py says what is wrong, door.py what to do about it, and
monitor.py is the one object that a trainer asks after each step.
"""
