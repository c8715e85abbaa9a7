# SPDX-License-Identifier: Apache-2.0
"""`quire top` in a terminal that is resized, in a pipe, and while its server is away."""
import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unittest

import kit

STYLES = re.compile(r'\x1b\[[0-9;]*m')


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, width, height, *command):
        self._master, slave = pty.openpty()
        self.resize(width, height)
        self._process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, close_fds=True)
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder('utf-8')()
        self.written = ''

    def resize(self, width, height):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack('HHHH', height, width, 0, 0))

    def press(self, key):
        os.write(self._master, key.encode())

    def read(self, seconds=0.1):
        if select.select([self._master], [], [], seconds)[0]:
            try:
                self.written += self._decoder.decode(os.read(self._master, 1 << 16))
            except OSError:  # The program has ended.
                pass

    def screen(self, wanted):
        """Lines of the first whole screen of which `wanted` is true."""
        end = time.monotonic() + kit.PATIENCE_S
        lines = []
        while time.monotonic() < end:
            self.read()
            frames = self.written.split('\x1b[H')
            if len(frames) > 2:
                lines = STYLES.sub('', frames[-2]).replace('\x1b[K', '').replace('\x1b[J', '').replace('\r', '').split('\n')
                if wanted(lines):
                    return lines
        raise AssertionError('\n'.join(lines))

    def end(self):
        """Exit code of a program that ends by itself."""
        end = time.monotonic() + kit.PATIENCE_S
        while self._process.poll() is None and time.monotonic() < end:
            self.read()
        self.read(0)
        return self._process.wait(0.1)

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._master)


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = kit.Server('--dram-bytes', '8MiB', '--ssd-bytes', '1GiB')
        cls.addClassCleanup(cls.server.close)
        cls.load = kit.Load(cls.server)
        cls.addClassCleanup(cls.load.close)
        cls.quire = [str(kit.BINARIES / 'quire'), '--server', cls.server.address]

    def test_a_terminal_shows_a_server_that_comes_and_goes(self):
        terminal = Terminal(80, 24, *self.quire, 'top', '--interval', '0.2')
        self.addCleanup(terminal.close)
        lines = terminal.screen(lambda lines: any('Session/Recall' in line and 'SSD' in line for line in lines))
        self.expect_size(lines, 80, 24)
        text = '\n'.join(lines)
        for part in ('sound', 'DRAM', '8.0 MiB', 'hits', 'moved', 'recall', 'TENANT', 'METHOD', 'SLOW CALL', 'q end'):
            self.assertIn(part, text)
        terminal.resize(44, 11)
        self.expect_size(terminal.screen(lambda lines: len(lines) == 11), 44, 11)
        terminal.resize(160, 50)
        self.expect_size(terminal.screen(lambda lines: len(lines) == 50), 160, 50)
        self.server.stop()
        lines = terminal.screen(lambda lines: 'no answer' in lines[0])
        self.assertIn('DRAM', '\n'.join(lines), 'what was known stays')
        self.server.start()
        terminal.screen(lambda lines: 'sound' in lines[0])
        terminal.press('q')
        self.assertEqual(0, terminal.end())
        self.assertIn('\x1b[?1049l', terminal.written)

    def expect_size(self, lines, width, height):
        self.assertEqual(height, len(lines))
        self.assertEqual([], [line for line in lines if len(line) > width])

    def test_a_pipe_gets_plain_lines(self):
        lines = subprocess.check_output([*self.quire, 'top', '--count', '2', '--interval', '0.2'], text=True).splitlines()
        self.assertEqual(3, len(lines))
        self.assertNotIn('\x1b', ''.join(lines))
        self.assertTrue(lines[0].startswith('TIME'))
        self.assertRegex(lines[2], r'^\d\d:\d\d:\d\d .* sound$')
        values = json.loads(subprocess.check_output([*self.quire, '--json', 'top', '--count', '1'], text=True))
        self.assertEqual([], values['degraded'])
        self.assertTrue(values['slow'])
