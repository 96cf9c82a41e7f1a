"""`make demo`: real processes compete for one lock, one holder is killed, and no two overlap.

worker.py    the command that runs under the lock, and writes down when it began and ended
turn.py      one `holdfast run` with its worker
contest.py   all turns: starts them, kills one, follows what happens
evidence.py  reads what the workers wrote, and looks for two that overlapped
picture.py   the contest as lines; `ink.py` has their colours and characters
screen.py    where they are shown: a terminal that is redrawn, or a pipe
"""
