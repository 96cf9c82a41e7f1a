"""`make demo`: real processes compete for one lock, one holder is killed, and no two overlap.

worker.py    the command that runs under the lock, and writes down when it began and ended
turn.py      one `holdfast run` with its worker
contest.py   all turns: starts them, kills one holder, checks what happened
__main__.py  shows the contest, the picture of it, and what it proves
"""
