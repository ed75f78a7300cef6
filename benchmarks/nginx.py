"""nginx before an engine, where it is installed: what a proxy in C adds that knows nothing of models."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.manager import START_SECONDS, end
from support import free_port, healthy, wait_for

_CONFIGURATION: Final = """\
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 2; }}
  server {{
    listen 127.0.0.1:{port};
    keepalive_requests 1000000;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


def find() -> str | None:
    """Return the path of nginx, or None."""
    return shutil.which("nginx")


@contextmanager
def nginx(program: str, folder: Path, engine: int) -> Iterator[int]:
    """Run nginx before the engine on a port until the block ends; yield its own port."""
    folder.mkdir()
    port = free_port()
    path = folder / "nginx.conf"
    path.write_text(_CONFIGURATION.format(folder=folder, engine=engine, port=port), encoding="utf-8")
    command = [program, "-p", str(folder), "-c", str(path), "-e", str(folder / "error.log")]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: healthy(port) or process.poll() is not None, START_SECONDS, "nginx answers")
        if process.poll() is not None:
            raise RuntimeError((folder / "error.log").read_text(encoding="utf-8")[-2000:])
        yield port
    finally:
        end(process)
