"""What PostgreSQL and MariaDB are measured with.

statements.py  what is sent for a pair: holdfast's own statements, and the databases' own locks
floors.py      the statements through a driver, and nothing else
peers.py       other libraries' locks
"""
