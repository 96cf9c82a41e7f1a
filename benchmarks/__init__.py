"""What holdfast costs, as ratios to peers and to raw floors measured in the same run.

measure.py   interleaved rounds, medians and quartiles
peers.py     what is measured: filelock, the bare SQL statements, and whether a peer is installed
pairs.py     an acquire and a release, by holdfast and others, side by side
workers.py   the same in other processes
relay.py     a lock that goes from hand to hand between them
servers.py   the servers that cases share
redis/       floors and peers over Redis; `sql/` over PostgreSQL and MariaDB
cases/       one file a question
report.py    the answers as Markdown; `plot.py` draws the headline
series.py    what came out of every promise, report by report
"""
