"""`holdfast ui`: the link, what it refuses, how it ends, and what to install."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.ui.server import Visitor

from .processes import Holdfast, line_of


def test_the_link_works_and_a_lock_is_broken(holdfast: Holdfast, tmp_path: Path) -> None:
    audit = tmp_path / "audit"
    holder = holdfast.hold("stuck", "--ttl", "3")
    page = holdfast.start("ui", "--port", "0", "--allow-break", "--audit-log", str(audit))
    link = urlsplit(line_of(page.stdout))
    assert link.hostname == "127.0.0.1"
    assert link.port
    visitor = Visitor(link.port)
    assert visitor.status("GET", "") == 401
    visitor.sign_in(link.query.removeprefix("token="))
    assert visitor.status("GET", "", Host="evil.example") == 421
    row = visitor.find("stuck")
    asked = {"name": "stuck", "holder": row["members"][0]["id"], "reason": "it hangs"}
    assert visitor.status("POST", f"locks/{row['id']}/break", asked) == 200
    assert json.loads(audit.read_text())["reason"] == "it hangs"
    assert holder.wait() == 70
    page.send_signal(signal.SIGINT)
    _, err = page.communicate(timeout=60)
    assert page.returncode == -signal.SIGINT
    assert "holdfast: audit: {" in err
    assert "Traceback" not in err
    assert link.query not in err


def test_another_address_needs_a_token(holdfast: Holdfast, tmp_path: Path) -> None:
    for address in ("0.0.0.0", "::", "192.0.2.7"):
        done = holdfast.run("ui", "--bind", address, "--port", "0")
        assert done.returncode == 64
        assert "give --token-file" in done.stderr
    token = tmp_path / "token"
    token.write_text("a-token-of-some-length")
    token.chmod(0o644)
    readable = holdfast.run("ui", "--bind", "0.0.0.0", "--token-file", str(token))
    assert (readable.returncode, "chmod 600" in readable.stderr) == (64, True)
    token.chmod(0o600)
    page = holdfast.start("ui", "--bind", "0.0.0.0", "--port", "0", "--token-file", str(token))
    port = urlsplit(line_of(page.stdout)).port
    assert port
    visitor = Visitor(port)
    assert visitor.status("GET", "?token=a-token-of-some-length") == 401
    assert visitor.status("POST", "login", b"token=a-token-of-some-length") == 303
    token.write_text("short")
    assert "at least 20" in holdfast.run("ui", "--token-file", str(token)).stderr


def test_what_to_install() -> None:
    code = """if True:
        import sys
        sys.modules["starlette"] = None
        sys.argv[1:] = ["ui"]
        import importlib.util as util
        find = util.find_spec
        util.find_spec = lambda name: None if name == "starlette" else find(name)
        from holdfast.cli import main
        main()
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 69
    assert "pip install 'holdfast[ui]'" in done.stderr
