# SPDX-License-Identifier: Apache-2.0
"""The page of a live server under load, in headless Chromium.

With QUIRE_PICTURES=FOLDER pictures are kept there, after some minutes of load; docs/images has such.
"""
import http.client
import os
import pathlib
import shutil
import socket
import tempfile
import threading
import time
import unittest

import browser
import kit

DOCUMENTS = 100_000
SEARCH_LIMIT_MS = 300
BROWSERS = 200
SIZES = ((390, 1688), (1024, 1366), (1920, 1200))
LIFE_OF_PICTURES_S = 300
# Elements that Tab must reach.
REACHED = {'pause', 'theme', 'q', 'slow-more', 'next'}
SHOWN = "Object.fromEntries([...document.querySelectorAll('[data-series]')].map(e => [e.dataset.series, e.textContent.replaceAll(',', '')]))"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        browser.program()
        cls.server = kit.Server('--dram-bytes', '8MiB', '--ssd-bytes', '1GiB', '--tenants', 'default,team-b',
                                documents=DOCUMENTS)
        cls.addClassCleanup(cls.server.close)
        cls.load = kit.Load(cls.server)
        cls.addClassCleanup(cls.load.close)

    def setUp(self):
        self.tab = browser.Browser()
        self.addCleanup(self.tab.close)

    def test_a_person_watches_a_server(self):
        self.tab.look(1920, 1080, dark=False)
        self.tab.open(self.server.page + '/')
        self.tab.wait("typeof status === 'object' && status && document.querySelector('#results tbody') !== null")
        self.expect_it_moves()
        self.expect_search()
        self.expect_names_as_text()
        self.expect_used_pages()
        self.tab.wait('rows.length > 0 && status.slow.length > 8')
        self.expect_keys()
        self.expect_layouts()
        self.load.stop()
        self.expect_the_numbers_of_metrics()
        self.expect_foreign_requests_refused()
        self.expect_many_browsers()
        self.assertEqual([], [url for url in self.tab.requests if not url.startswith((self.server.page, 'data:'))])
        self.assertEqual([], self.tab.console)
        self.expect_it_comes_back()

    def expect_it_moves(self):
        """Numbers change while the server works, without anybody's doing."""
        before = self.tab.wait("document.querySelector('#tile-calls .sub').textContent")
        self.tab.wait(f"document.querySelector('#tile-calls .sub').textContent !== {before!r}")
        self.tab.wait("document.querySelector('#tile-calls .big').textContent !== '-'")

    def search(self, text):
        """Looks for a text by keyboard alone. Returns the names that are found."""
        self.tab.evaluate('document.activeElement.blur()')
        self.tab.key('/')
        self.tab.type(text)
        self.tab.key('Enter')
        self.tab.wait(f"document.getElementById('took').dataset.q === {text!r}")
        return self.tab.evaluate("[...document.querySelectorAll('#results tbody tr td:first-child')].map(e => e.textContent)")

    def expect_search(self):
        self.assertEqual(20, self.tab.evaluate("document.querySelectorAll('#results tbody tr').length"))
        found = self.search('report-142424')
        took = int(self.tab.evaluate("document.getElementById('took').dataset.ms"))
        print(f'search among {DOCUMENTS} documents: {took} ms')
        self.assertEqual(1, len(found), found)
        self.assertIn('/report-142424.md', found[0])
        self.assertLess(took, SEARCH_LIMIT_MS)
        self.assertEqual([], self.search('no-such-report'))

    def expect_names_as_text(self):
        name, = self.search('onerror')
        self.assertEqual('default/<img src=x onerror=document.title=1> & <b>bold<b>', name)
        self.assertEqual(0, self.tab.evaluate("document.querySelectorAll('main img, main b b').length"))
        self.assertEqual('Quire', self.tab.evaluate('document.title'))
        self.tab.key('Escape')
        self.tab.wait("document.getElementById('took').dataset.q === ''")

    def expect_used_pages(self):
        """A document that is chosen shows which of its pages questions used, as the server counts them."""
        self.search('manual-0')
        self.tab.evaluate("document.querySelector('#results button.name').focus()")
        self.tab.key('Enter')
        self.tab.wait("document.querySelectorAll('#strip rect').length > 40")
        self.assertRegex(self.tab.evaluate("document.querySelector('#strip svg').getAttribute('aria-label')"),
                         r'^\d+ of 128 pages of 16 tokens used, most near page \d+: [\d,]+ times$')
        answer = self.server.json('/pages?tenant=default&collection=live&name=manual-0.md')
        self.assertEqual(128, len(answer['uses']))
        self.assertEqual(answer['used'], sum(1 for use in answer['uses'] if use))
        self.tab.key('Enter')
        self.tab.wait("document.querySelector('#strip').childElementCount === 0")
        self.tab.key('/')
        self.tab.key('Escape')
        self.tab.wait("document.getElementById('took').dataset.q === ''")

    def expect_keys(self):
        self.tab.evaluate('document.activeElement.blur()')
        self.tab.key('p')
        self.assertEqual('paused', self.tab.evaluate("document.getElementById('state').textContent"))
        self.tab.key('p')
        self.tab.wait("document.getElementById('state').textContent === 'sound'")
        reached = set()
        charts = set()
        for _ in range(60):
            self.tab.key('Tab')
            reached.add(self.tab.evaluate('document.activeElement.id'))
            if self.tab.evaluate("document.activeElement.tagName === 'svg'"):
                charts.add(self.tab.evaluate('document.activeElement.parentElement.id'))
                self.tab.key('ArrowLeft')
                self.assertRegex(self.tab.evaluate("document.activeElement.getAttribute('aria-label')"), r'\d\d:\d\d:\d\d')
        self.assertLessEqual(REACHED, reached)
        self.assertEqual(5, len(charts))

    def expect_layouts(self):
        folder = os.environ.get('QUIRE_PICTURES')
        if folder:
            time.sleep(LIFE_OF_PICTURES_S)
        else:
            folder = tempfile.mkdtemp()
            self.addCleanup(shutil.rmtree, folder)
        for width, height in SIZES:
            for dark in (False, True):
                self.tab.look(width, height, dark)
                self.tab.evaluate('scrollTo(0, 0); new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)))')
                self.assertEqual(width, self.tab.evaluate('innerWidth'))
                wide = self.tab.evaluate("[document.documentElement, ...document.querySelectorAll('section, header, h2, .tile *, .line')]"
                                         ".filter(e => e.scrollWidth > innerWidth || e.getBoundingClientRect().right > innerWidth + 1)"
                                         ".map(e => e.id || e.className || e.tagName)")
                self.assertEqual([], wide, width)
                background = self.tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
                self.assertEqual(dark, background < 128)
                path = pathlib.Path(folder, f'page-{width}-{"dark" if dark else "light"}.webp')
                self.tab.picture(path)
                self.assertGreater(path.stat().st_size, 20_000)
        self.tab.look(1920, 1080, dark=False)

    def expect_the_numbers_of_metrics(self):
        """Series that stand still are the same on the page and in /metrics, to the last digit."""
        self.tab.evaluate("document.querySelector('#metrics summary').click()")

        def differ():
            before, shown, after = self.server.metrics(), self.tab.evaluate(SHOWN), self.server.metrics()
            still = {name for name in shown if before.get(name) == after.get(name)}
            return len(still), {name: (shown[name], after[name]) for name in still if shown[name] != after[name]}

        last = []

        def same():
            last[:] = differ()
            return last[0] > 200 and not last[1]

        kit.eventually(same, last)
        self.assertIn('quire_sessions_open', self.tab.evaluate(SHOWN))
        self.assertEqual('1', self.tab.evaluate("document.querySelector('#tile-sessions .big').textContent"))

    def ask(self, path, **headers):
        connection = http.client.HTTPConnection('127.0.0.1', self.server.admin_port, timeout=kit.PATIENCE_S)
        connection.request('GET', path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def expect_foreign_requests_refused(self):
        self.assertEqual(200, self.ask('/status'))
        self.assertEqual(403, self.ask('/status', Origin='http://evil.example'))
        self.assertEqual(403, self.ask('/documents?tenant=default', **{'Sec-Fetch-Site': 'cross-site'}))
        self.assertEqual(421, self.ask('/status', Host='evil.example'))
        with socket.create_connection(('127.0.0.1', self.server.admin_port)) as endless:
            endless.sendall(b'GET /status HTTP/1.1\r\nLong: ' + 20_000 * b'x')
            self.assertIn(b' 431 ', endless.recv(100))
        self.assertEqual(400, self.ask('/documents?tenant=default&limit=9999999'))
        self.assertEqual(404, self.ask('/documents?tenant=nobody'))

    def expect_many_browsers(self):
        """All of them get the page and its numbers, and the server goes on."""
        answers = []
        threads = [threading.Thread(target=lambda n=n: answers.append((self.ask('/'), self.ask(f'/status?after={n % 3}'))))
                   for n in range(BROWSERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([(200, 200)] * BROWSERS, answers)

    def expect_it_comes_back(self):
        self.server.stop()
        self.tab.wait("document.getElementById('state').textContent.includes('again in')")
        self.server.start()
        self.tab.wait("document.getElementById('state').textContent === 'sound'")
