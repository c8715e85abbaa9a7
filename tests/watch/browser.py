# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, driven over the pipe of its DevTools protocol. Needs nothing but Python."""
import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

PATIENCE_S = 30


def program():
    """Path of Chromium; skips the test without it."""
    for name in ('chromium', 'chromium-browser', 'google-chrome'):
        if shutil.which(name):
            return shutil.which(name)
    raise unittest.SkipTest('there is no chromium; ./dev test installs it')


def _pipe():
    """A pipe whose ends are not the descriptors that the browser gets."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved


class Browser:
    """One tab. What it asks the network for and what its console says is kept."""

    def __init__(self):
        self._profile = tempfile.mkdtemp()
        to_browser, self._write = _pipe()
        self._read, from_browser = _pipe()
        command = [program(), '--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe',
                   '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run',
                   '--disable-dev-shm-usage', '--hide-scrollbars', f'--user-data-dir={self._profile}', 'about:blank']
        # The pipe is at descriptors 3 and 4.
        self._process = subprocess.Popen(['bash', '-c', f'exec "$@" 3<&{to_browser} 4>&{from_browser}', 'bash', *command],
                                         pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b''
        self._number = 0
        self._session = None
        self.requests = []
        self.console = []
        target = next(each for each in self.call('Target.getTargets')['targetInfos'] if each['type'] == 'page')
        self._session = self.call('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Network', 'Runtime', 'Log'):
            self.call(f'{domain}.enable')

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _message(self):
        while b'\0' not in self._buffer:
            read = os.read(self._read, 1 << 20)
            if not read:
                raise AssertionError('the browser has ended')
            self._buffer += read
        message, self._buffer = self._buffer.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, **params):
        self._number += 1
        message = {'id': self._number, 'method': method, 'params': params}
        if self._session is not None:
            message['sessionId'] = self._session
        os.write(self._write, json.dumps(message).encode() + b'\0')
        while True:
            answer = self._message()
            if answer.get('id') == self._number:
                if 'error' in answer:
                    raise AssertionError(f'{method}: {answer["error"]}')
                return answer['result']
            self._note(answer)

    def _note(self, event):
        kind, what = event.get('method'), event.get('params', {})
        if kind == 'Network.requestWillBeSent':
            self.requests.append(what['request']['url'])
        elif kind == 'Runtime.exceptionThrown':
            self.console.append(what['exceptionDetails'])
        elif kind == 'Runtime.consoleAPICalled' and what['type'] in ('error', 'warning', 'assert'):
            self.console.append(what['args'])
        elif kind == 'Log.entryAdded' and what['entry']['level'] in ('error', 'warning'):
            self.console.append(what['entry'])

    def evaluate(self, script):
        result = self.call('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in result:
            raise AssertionError(f'{script}: {result["exceptionDetails"]}')
        return result['result'].get('value')

    def wait(self, script):
        """The first true value of a script."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            value = self.evaluate(script)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f'not in {PATIENCE_S} s: {script}')

    def open(self, url):
        self.call('Page.navigate', url=url)

    def key(self, key, text=None):
        codes = {'Enter': 13, 'Escape': 27, 'Tab': 9, 'ArrowLeft': 37, 'End': 35}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        text = text if text is not None else {'Enter': '\r'}.get(key, key if len(key) == 1 else '')
        kind = 'keyDown' if text else 'rawKeyDown'
        self.call('Input.dispatchKeyEvent', type=kind, key=key, text=text, windowsVirtualKeyCode=code)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        for letter in text:
            self.key(letter)

    def look(self, width, height, dark):
        """Sets the size of the page and the colours that its reader prefers."""
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = [{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}]
        self.call('Emulation.setEmulatedMedia', features=scheme)

    def picture(self, path):
        """What the window shows."""
        path.write_bytes(base64.b64decode(self.call('Page.captureScreenshot', format=path.suffix[1:])['data']))
