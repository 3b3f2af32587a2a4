"""Threads: wake one, run several, and what becomes of them when the interpreter exits.

    bells       wake a thread that waits, without a lock that an interrupt could leave locked
    several     one function for many items, by several threads
    exits       what other threads do for us is stopped before the interpreter is taken apart

Part of the ground floor. Knows nothing of runs or batches.
"""
