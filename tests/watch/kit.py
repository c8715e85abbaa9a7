# SPDX-License-Identifier: Apache-2.0
"""A server with documents and load, for tests of what people look at."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get('QUIRE_BINARY_DIR', ROOT / 'build' / 'release')) / 'bin'
PATIENCE_S = 30


def eventually(condition, what='it'):
    """The first true value of `condition()`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f'not in {PATIENCE_S} s: {what}')


class Server:
    """quired on free ports, over a directory that stays when it starts again."""

    def __init__(self, *flags, documents=0):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        if documents:
            subprocess.run([BINARIES / 'watch_fill', self.folder / 'data', str(documents)], check=True)
        self._flags = flags
        self.port = self.admin_port = 0
        self.process = None
        self.start()

    def start(self):
        """The same ports again, where it ran before."""
        command = [BINARIES / 'quired', '--data-dir', self.folder / 'data', '--listen', f'127.0.0.1:{self.port}',
                   '--port-file', self.folder / 'port', '--admin-listen', f'127.0.0.1:{self.admin_port}',
                   '--admin-port-file', self.folder / 'admin-port', *self._flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(self.folder / 'log', 'ab'), text=True)
        line = self.process.stdout.readline()
        if 'listening' not in line:
            raise AssertionError((self.folder / 'log').read_text())
        self.port = int((self.folder / 'port').read_text())
        self.admin_port = int((self.folder / 'admin-port').read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.folder)

    @property
    def address(self):
        return f'127.0.0.1:{self.port}'

    @property
    def page(self):
        return f'http://127.0.0.1:{self.admin_port}'

    def json(self, path):
        """An answer of the admin port."""
        with urllib.request.urlopen(self.page + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def metrics(self):
        """Values of /metrics by series."""
        with urllib.request.urlopen(self.page + '/metrics', timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        return {name: value for name, _, value in (line.rpartition(' ') for line in lines if not line.startswith('#'))}


class Load:
    """A few documents, and recalls by another process, from the start on."""

    def __init__(self, server):
        self._process = subprocess.Popen([BINARIES / 'watch_load', server.address], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self.wait('loading')

    def wait(self, word):
        line = self._process.stdout.readline().strip()
        if line != word:
            raise AssertionError(f'"{line}" in place of "{word}"')

    def stop(self):
        """Ends the load; a session stays open."""
        self._process.stdin.write('\n')
        self._process.stdin.flush()
        self.wait('stopped')

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
