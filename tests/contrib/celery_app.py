"""An application of Celery, for workers in processes of their own."""

import os

import redis
from celery import Celery

import holdfast
from holdfast.contrib.celery import single_instance

URL = os.environ["HOLDFAST_URL"]

app = Celery("shop", broker=URL, backend=URL)
app.conf.broker_connection_retry_on_startup = True
client = holdfast.Client(URL)
gate = redis.Redis.from_url(URL)


@app.task(bind=True)  # type: ignore[untyped-decorator]
@single_instance(client, "import:{supplier}")
def import_or_skip(self: object, supplier: int) -> str:
    gate.blpop(["gate"])
    return f"imported {supplier}"


@app.task(max_retries=None)  # type: ignore[untyped-decorator]
@single_instance(client, lambda supplier: f"import:{supplier}", retry=0.1)
def import_or_retry(supplier: int) -> str:
    return f"imported {supplier} later"


with client.lock("warm"):  # so that the workers inherit a client that is connected
    pass
