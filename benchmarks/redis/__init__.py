"""What Redis is measured with.

floors.py   the commands that holdfast sends, on raw sockets and on bare asyncio connections
peers.py    other libraries' locks
contest.py  processes, threads and tasks that want one lock all the time
"""
