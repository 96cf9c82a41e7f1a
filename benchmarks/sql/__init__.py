"""What PostgreSQL and MariaDB are measured with.

words.py   what is said for a pair: holdfast's own statements, and the locks that databases have
floors.py  the words through a driver, and nothing else
peers.py   other people's locks
"""
