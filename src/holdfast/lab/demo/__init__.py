"""`make demo`: real processes compete for one lock, one holder is killed, and no two overlap.

worker.py    the command that runs under the lock, and writes down when it began and ended
turn.py      one `holdfast run` with its worker, and whether two overlapped
contest.py   all turns: starts them, kills one, follows what happens
picture.py   the contest as lines, with their colours and characters
screen.py    where they are shown: a terminal that is redrawn, or a pipe
"""
