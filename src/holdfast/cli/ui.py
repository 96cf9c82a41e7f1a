"""`holdfast ui`: serve a page that shows all locks."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
import sys
from pathlib import Path

import click
import uvicorn

from holdfast.cli.options import (
    audit_log_option,
    bad_arguments_are_usage_errors,
    open_client,
    url_option,
)
from holdfast.ui import app

PORT = 8421


@click.command("ui")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port; 0: any that is free.",
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with a token to sign in with. Needed for an ADDRESS that other hosts reach.",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="A further name that the page is opened by. Can be given several times.",
)
@click.option("--allow-break", is_flag=True, help="Locks can be broken. Default: read-only.")
@audit_log_option
@url_option
def serve(
    port: int,
    bind: str,
    token_file: Path | None,
    allow_host: tuple[str, ...],
    allow_break: bool,
    audit_log: Path | None,
    url: str | None,
) -> None:
    """Serve a page that shows all locks, live: holders, waiters, time left, and a lock's history.

    It prints a link with a token that works once. Without --allow-break it changes nothing.
    """
    if not _is_loopback(bind) and token_file is None:
        raise click.UsageError(
            f"{bind} can be reached from other hosts: give --token-file, or leave --bind out and"
            " open the page through `ssh -L`."
        )
    token = _read_token(token_file) if token_file else secrets.token_urlsafe()
    names = {"localhost", "127.0.0.1", "::1", bind, *allow_host}
    if not _is_loopback(bind):
        names |= {socket.gethostname(), socket.getfqdn()}
    _print_audit()
    with open_client(url) as client, bad_arguments_are_usage_errors():
        try:
            page = app(
                client,
                token=token,
                once=token_file is None,
                hosts=names,
                allow_break=allow_break,
                audit_log=audit_log,
            )
            family = socket.AF_INET6 if ":" in bind else socket.AF_INET
            listener = socket.create_server((bind, port), family=family)
        except OSError as error:
            raise click.UsageError(str(error)) from error
        with listener:
            where = f"http://{f'[{bind}]' if ':' in bind else bind}:{listener.getsockname()[1]}/"
            click.echo(where if token_file else f"{where}?token={token}")
            if token_file and not _is_loopback(bind):
                click.echo("holdfast: no TLS here: put a proxy with TLS before it", err=True)
            sys.stdout.flush()
            # No access log: the token stands in the first request.
            config = uvicorn.Config(
                page,
                access_log=False,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
            )
            uvicorn.Server(config).run(sockets=[listener])


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _read_token(path: Path) -> str:
    if path.stat().st_mode & 0o077:
        raise click.UsageError(f"other users may read {path}: chmod 600 {path}")
    return path.read_text().strip()


def _print_audit() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("holdfast: audit: %(message)s"))
    logging.getLogger("holdfast.audit").addHandler(handler)
