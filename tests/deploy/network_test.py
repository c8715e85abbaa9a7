# SPDX-License-Identifier: Apache-2.0
"""The services of the compose file as processes, each in a network namespace of its own.

All run inside one private network, mount and process namespace, which takes them along when the test ends. Paths of
volumes stand for folders of the test; everything else is as the compose file says.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import kit

COMPOSE = kit.DEPLOY / 'compose' / 'compose.yaml'
INSIDE = 'QUIRE_DEPLOY_TEST_IS_INSIDE'
PATIENCE_S = 30


def setUpModule():
    """Starts this program again inside namespaces of its own; skips all tests where that is not allowed."""
    if INSIDE in os.environ:
        return
    kit.tool('ip')
    kit.tool('etcd')
    enter = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
    probe = 'mount -t tmpfs none /mnt && ip link add probe type bridge'
    if os.geteuid() != 0 or subprocess.run([*enter, 'sh', '-c', probe], capture_output=True, check=False).returncode != 0:
        raise unittest.SkipTest('network namespaces and bridges need root and a kernel that has them')
    sys.stdout.flush()
    os.execvpe(enter[0], [*enter, sys.executable, '-B', *sys.argv], {**os.environ, INSIDE: '1'})


def eventually(test, condition):
    """The first true value of `condition()`; fails after a while."""
    end = time.monotonic() + PATIENCE_S
    said = None
    while time.monotonic() < end:
        try:
            value = condition()
            if value:
                return value
            said = value
        except (OSError, AssertionError) as error:
            said = error
        time.sleep(0.1)
    return test.fail(f'not in {PATIENCE_S} s: {said}')


class Network:
    """Namespaces by service name on one bridge, which know each other by these names."""

    def __init__(self, names, folder):
        self._addresses = {name: f'10.99.0.{number}' for number, name in enumerate(names, 1)}
        hosts = folder / 'hosts'
        hosts.write_text('127.0.0.1 localhost\n' + ''.join(f'{address} {name}\n' for name, address in self._addresses.items()))
        kit.run('mount', '--bind', hosts, '/etc/hosts')
        os.makedirs('/run/netns', exist_ok=True)
        kit.run('mount', '-t', 'tmpfs', 'none', '/run/netns')
        self._ip('link add quire type bridge', 'addr add 10.99.0.254/24 dev quire', 'link set quire up', 'link set lo up')
        for number, (name, address) in enumerate(self._addresses.items(), 1):
            self._ip(f'netns add {name}', f'link add eth{number} type veth peer name eth0 netns {name}',
                     f'link set eth{number} master quire up', f'-n {name} addr add {address}/24 dev eth0',
                     f'-n {name} link set eth0 up', f'-n {name} link set lo up')

    @staticmethod
    def _ip(*commands):
        for command in commands:
            kit.run(kit.tool('ip'), *command.split())

    def inside(self, name, command):
        return [kit.tool('ip'), 'netns', 'exec', name, *map(str, command)]


class Topology:
    """The compose file's services, started in the order of their dependencies."""

    def __init__(self, folder):
        self._folder = folder
        self._services = kit.read_yaml(COMPOSE)['services']
        self.network = Network(self._services, folder)
        self.processes = {}

    def command(self, name):
        """Command line of a service, with folders of the test for its volumes."""
        service = self._services[name]
        words = service['command']
        for volume in service['volumes']:
            source, target = volume.split(':')[:2]
            path = (COMPOSE.parent / source).resolve() if source.startswith('.') else self._folder / source
            path.mkdir(exist_ok=True)
            words = [re.sub(f'={target}(?=/|$)', f'={path}', word) for word in words]
        return [*self._entrypoint(name), *words]

    @staticmethod
    def _entrypoint(name):
        """What the service's image puts before its command."""
        if name.startswith('node-'):
            return [kit.BIN / 'quired']
        return [kit.tool('prometheus')] if name == 'prometheus' else []

    def start(self, name):
        log = open(self._folder / f'{name}.log', 'wb')
        self.processes[name] = subprocess.Popen(self.network.inside(name, self.command(name)), stdout=log, stderr=log)

    def run(self, name, *command):
        return kit.run(*self.network.inside(name, command))

    def stop(self, name):
        """Exit code of a service that is told to end."""
        self.processes[name].terminate()
        return self.processes[name].wait(timeout=PATIENCE_S)

    def logs(self):
        return '\n'.join(f'{path.name}: {path.read_text()[-2000:]}' for path in sorted(self._folder.glob('*.log')))


def get(url):
    with urllib.request.urlopen(url, timeout=2) as answer:
        return json.load(answer)


class NetworkTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.topology = Topology(folder)
        self.addCleanup(self.end)
        self.nodes = ('node-1', 'node-2', 'node-3')

    def end(self):
        """Ends what still runs, and shows its last words."""
        if any(self.topology.processes[name].returncode != 0 for name in self.nodes if name in self.topology.processes):
            print(self.topology.logs())
        for process in self.topology.processes.values():
            process.kill()
            process.wait()

    def start_cluster(self):
        for name in ('etcd', *self.nodes):
            self.topology.start(name)
        eventually(self, lambda: self.states() == {name: 'up' for name in self.nodes})

    def states(self):
        answer = self.topology.run('cli', kit.BIN / 'quire', '--json', 'cluster', 'nodes', '--etcd=etcd:2379')
        return {node['name']: node['state'] for node in json.loads(answer)['nodes']}

    def test_the_compose_file_makes_a_cluster_that_answers_and_is_watched(self):
        self.start_cluster()
        self.assertIn('node-3', self.topology.run('cli', kit.BIN / 'quire', 'cluster', 'nodes', '--etcd=etcd:2379'))
        self.expect_healthy()
        self.expect_documents()
        self.expect_watched()
        self.assertEqual([0, 0, 0], [self.topology.stop(name) for name in self.nodes])

    def expect_healthy(self):
        """The images' health check succeeds at each node, and fails where nothing listens."""
        healthy = kit.DEPLOY / 'docker' / 'healthy'
        for name in self.nodes:
            eventually(self, lambda name=name: self.topology.run(name, healthy, '7411') == '')
        with self.assertRaisesRegex(AssertionError, 'does not answer 200'):
            self.topology.run('cli', healthy, '7411')

    def expect_documents(self):
        """The command line of the compose file finds the node of each document."""
        entrypoint = kit.read_yaml(COMPOSE)['services']['cli']['entrypoint']
        client = [kit.BIN / entrypoint[0], *entrypoint[1:]]
        example = self.documented_text()
        texts = sorted(example.parent.glob('dossier-0[1-3].txt'))
        self.assertIn(example, texts)
        for text in texts:
            self.topology.run('cli', *client, 'put', text)
            self.topology.run('cli', *client, 'stat', text.name)

    def documented_text(self):
        """The file behind `put` in the README, in the tree from which the image has it."""
        path, = re.findall(r'run --rm cli put (\S+)', (kit.DEPLOY / 'README.md').read_text())
        self.assertRegex((kit.DEPLOY / 'docker' / 'Dockerfile').read_text(), r'models\S* /opt/quire/models')
        return kit.ROOT / pathlib.PurePosixPath(path).relative_to('/opt/quire')

    def expect_watched(self):
        """Prometheus scrapes every node, has the rules, and none of them fires."""
        self.topology.start('prometheus')
        api = 'http://prometheus:9090/api/v1'

        def scraped():
            found = get(f'{api}/query?query=quire_cluster_members{{state="up"}}')['data']['result']
            return {each['metric']['instance']: each['value'][1] for each in found} == {f'{n}:7411': '3' for n in self.nodes}

        eventually(self, scraped)
        groups = get(f'{api}/rules')['data']['groups']
        states = {rule['state'] for group in groups for rule in group['rules']}
        self.assertTrue(states, 'rules are known')
        self.assertNotIn('firing', states)  # Pending ones may follow from one slow scrape.
