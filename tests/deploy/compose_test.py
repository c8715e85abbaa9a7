# SPDX-License-Identifier: Apache-2.0
"""The compose file, and what it hands to Prometheus and Grafana."""
import unittest

import jsonschema
import yaml

import kit

COMPOSE = kit.DEPLOY / 'compose' / 'compose.yaml'
FOLDER = COMPOSE.parent


def services():
    return kit.read_yaml(COMPOSE)['services']


def nodes():
    return {name: service for name, service in services().items() if name.startswith('node-')}


def flag(service, name):
    return [word.split('=', 1)[1] for word in service['command'] if word.startswith(f'--{name}=')]


class ComposeTest(unittest.TestCase):
    def test_it_keeps_the_schema_of_compose(self):
        schema = kit.read_json(kit.file_of_package('compose', 'config/compose_spec.json'))
        document = kit.read_yaml(COMPOSE)
        self.assertRegex(document.pop('name'), '^[a-z]+$')  # Younger than the schema.
        jsonschema.validate(document, schema)

    def test_nodes_differ_in_name_zone_address_and_disk(self):
        self.assertEqual(3, len(nodes()))
        for name, service in nodes().items():
            kit.expect_flags(self, ['quired', *service['command']])
            self.assertEqual([name], flag(service, 'node'))
            self.assertEqual([f'{name}:7410'], flag(service, 'advertise'))
            self.assertEqual([f'{name}:/var/lib/quire'], service['volumes'])
        self.assertEqual(3, len({flag(service, 'zone')[0] for service in nodes().values()}))
        self.assertEqual({('books',)}, {tuple(flag(service, 'cluster')) for service in nodes().values()})

    def test_etcd_compacts(self):
        etcd = services()['etcd']
        self.assertEqual(['periodic'], flag(etcd, 'auto-compaction-mode'))
        self.assertEqual(['1h'], flag(etcd, 'auto-compaction-retention'))

    def test_images_that_it_builds_are_targets(self):
        built = [service['build'] for service in services().values() if 'build' in service]
        self.assertGreater(len(built), 3)
        for build in built:
            self.assertEqual(kit.ROOT, (FOLDER / build['context']).resolve())
            text = (kit.ROOT / build['dockerfile']).read_text()
            self.assertRegex(text, rf'(?m)^FROM \S+ AS {build["target"]}$')

    def test_volumes_are_declared_or_are_in_the_tree(self):
        declared = set(kit.read_yaml(COMPOSE)['volumes'])
        for name, service in services().items():
            for volume in service.get('volumes', []):
                source = volume.split(':')[0]
                there = (FOLDER / source).is_dir() if source.startswith('.') else source in declared
                self.assertTrue(there, f'{name}: {volume}')

    def test_clients_know_every_node(self):
        words = services()['cli']['entrypoint']
        kit.expect_flags(self, words)
        self.assertEqual('--server=' + ','.join(f'{name}:7410' for name in nodes()), words[1])

    def test_nothing_but_prometheus_and_grafana_is_open_and_only_on_this_host(self):
        ports = {name: service['ports'] for name, service in services().items() if 'ports' in service}
        self.assertEqual({'prometheus', 'grafana'}, set(ports))
        for port in sum(ports.values(), []):
            self.assertRegex(port, '^127[.]0[.]0[.]1:')


class MonitoringTest(unittest.TestCase):
    def test_prometheus_scrapes_every_node_under_the_name_that_rules_use(self):
        scrape, = kit.read_yaml(kit.DEPLOY / 'prometheus' / 'prometheus.yml')['scrape_configs']
        self.assertEqual('quire', scrape['job_name'])
        self.assertEqual([f'{name}:7411' for name in nodes()], scrape['static_configs'][0]['targets'])

    def test_grafana_gets_the_data_source_and_the_dashboards(self):
        provisioning = kit.DEPLOY / 'grafana' / 'provisioning'
        source, = kit.read_yaml(provisioning / 'datasources' / 'prometheus.yml')['datasources']
        self.assertEqual(('prometheus', 'http://prometheus:9090'), (source['type'], source['url']))
        provider, = kit.read_yaml(provisioning / 'dashboards' / 'quire.yml')['providers']
        mounts = [volume.split(':')[:2] for volume in services()['grafana']['volumes']]
        self.assertIn(['../grafana/dashboards', provider['options']['path']], mounts)
        self.assertIn(['../grafana/provisioning', '/etc/grafana/provisioning'], mounts)


class YamlTest(unittest.TestCase):
    def test_every_file_says_each_key_once(self):
        files = [path for path in kit.DEPLOY.rglob('*') if path.suffix in ('.yml', '.yaml') and 'templates' not in path.parts]
        self.assertGreater(len(files), 5)
        for path in files:
            _check_keys(self, path, yaml.compose(path.read_text()))


def _check_keys(test, path, node):
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        test.assertEqual(len(keys), len(set(keys)), f'{path}: {keys}')
        for _, value in node.value:
            _check_keys(test, path, value)
    if isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_keys(test, path, value)
