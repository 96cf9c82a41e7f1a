"""`make demo`: real processes compete for one lock, one holder is killed, and no two overlap.

    worker.py    the command that runs under the lock, and writes down when it began and ended
    contest.py   starts the processes, kills one, and follows what happens
    evidence.py  reads what the workers wrote, and looks for two that overlapped
    picture.py   draws it: frames for a terminal, lines for a pipe
"""
