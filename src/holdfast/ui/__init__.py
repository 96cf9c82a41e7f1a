"""A page that shows all locks, live: `holdfast ui`, or mounted in an ASGI application.

    from fastapi import FastAPI
    import holdfast.ui

    site = FastAPI()
    site.mount("/locks", holdfast.ui.app("redis://10.0.0.7:6379", token=SECRET))

It needs `pip install 'holdfast[ui]'`.
"""

from holdfast.ui.routes import app

__all__ = ["app"]
