"""What holdfast costs, as ratios to peers and to raw floors measured in the same run.

measure.py   interleaved rounds, medians and quartiles
peers.py     what is measured: holdfast, filelock, the bare SQL statements
workers.py   the same in other processes
redis/       floors and peers over Redis
cases/       one file a question
report.py    the answers as Markdown; `plot.py` as a picture
"""
