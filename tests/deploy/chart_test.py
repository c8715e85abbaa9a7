# SPDX-License-Identifier: Apache-2.0
"""The Helm chart, rendered by Helm's own library and held to the schemas of Kubernetes."""
import copy
import re
import unittest

import jsonschema
import yaml

import kit

CHART = kit.DEPLOY / 'helm' / 'quire'
# Oldest version that Chart.yaml admits, and a new one.
KUBERNETES = ('1.25.0', '1.36.0')
# Settings that no default has: everything that templates may leave out.
EVERYTHING = {
    'replicas': 5,
    'imagePullSecrets': [{'name': 'registry'}],
    'cluster': {'name': 'books', 'zone': 'rack-b', 'etcd': ['etcd-0.etcd:2379', 'etcd-1.etcd:2379', 'other:4001']},
    'storage': {'size': '1Ti', 'limit': '900GiB', 'className': 'fast'},
    'tenants': ['team-a', 'team-b'],
    'tenantTokensSecret': 'tokens',
    'tracing': {'collector': 'otel.monitoring:4317', 'share': 0.05},
    'extraFlags': ['--eviction=pgdsf'],
    'nodeSelector': {'disk': 'nvme'},
    'tolerations': [{'key': 'storage', 'operator': 'Exists'}],
    'podAnnotations': {'team': 'ops'},
    'networkPolicy': {'enabled': True, 'clients': [{'podSelector': {'matchLabels': {'app': 'worker'}}}],
                      'monitoring': [{'namespaceSelector': {'matchLabels': {'name': 'monitoring'}}}],
                      'etcd': [{'podSelector': {'matchLabels': {'app': 'etcd'}}}],
                      'collector': [{'namespaceSelector': {'matchLabels': {'name': 'monitoring'}}}]},
    'serviceMonitor': {'enabled': True, 'interval': '30s', 'labels': {'release': 'prometheus'}},
}
BAD_VALUES = ({'replicas': 0}, {'replicas': 'three'}, {'cluster': {'etcd': []}}, {'cluster': {'etcd': ['http://etcd:2379']}},
              {'cluster': {'name': 'Books'}}, {'dram': '4 GB'}, {'durability': 'replicated'}, {'tenants': []}, {'tenants': ['team a']},
              {'extraFlags': ['eviction=lru']}, {'terminationGracePeriodSeconds': 5}, {'replica': 3},
              {'serviceMonitor': {'enabled': 'yes'}}, {'tracing': {'collector': 'http://otel:4317'}}, {'tracing': {'share': 2}})


def helm():
    try:
        import helm_python
    except ImportError as error:
        raise unittest.SkipTest(f'{error}; ./dev test gets it')
    return helm_python


def render(values):
    """Texts of the rendered files by name, and the objects in them by kind."""
    with helm().Chart.load(str(CHART)) as chart:
        texts = {path.rsplit('/', 1)[1]: text for path, text in chart.render(values, name='demo', namespace='prod').items()}
    objects = [document for name, text in texts.items() if name.endswith('.yaml') for document in yaml.safe_load_all(text)]
    return texts, {document['kind']: document for document in objects if document}


def merged(changes):
    values = copy.deepcopy(kit.read_yaml(CHART / 'values.yaml'))
    for name, value in changes.items():
        values[name] = {**values[name], **value} if isinstance(values.get(name), dict) else value
    return values


def check_with_kubernetes(document, version):
    """Holds an object to the strict schema of its kind, which knows no further fields."""
    folder = kit.file_of_package('kubernetes_validate', f'kubernetes-json-schema/v{version}-local-strict')
    group, _, number = document['apiVersion'].rpartition('/')
    name = '-'.join(filter(None, (document['kind'].lower(), group.split('.')[0], number)))
    schema = kit.read_json(folder / f'{name}.json')
    definitions = kit.read_json(folder / '_definitions.json')
    resolver = jsonschema.RefResolver(schema['$id'], schema, store={definitions['$id']: definitions})
    jsonschema.Draft202012Validator(schema, resolver=resolver).validate(document)


def container(objects):
    found, = objects['StatefulSet']['spec']['template']['spec']['containers']
    return found


class ChartTest(unittest.TestCase):
    def test_helm_has_no_findings(self):
        found = helm().lint(str(CHART))
        self.assertEqual([], found['errors'])
        self.assertEqual(['icon is recommended'], [message['error'] for message in found['messages']])

    def test_kubernetes_takes_every_object(self):
        for values in ({}, EVERYTHING):
            _, objects = render(values)
            objects.pop('ServiceMonitor', None)  # Not of Kubernetes itself.
            self.assertEqual({'StatefulSet', 'Service', 'ServiceAccount', 'PodDisruptionBudget', 'NetworkPolicy'}, set(objects))
            for document in objects.values():
                for version in KUBERNETES:
                    with self.subTest(kind=document['kind'], version=version):
                        check_with_kubernetes(document, version)

    def test_kubernetes_would_refuse_a_field_that_is_not_there(self):
        _, objects = render({})
        objects['Service']['spec']['selektor'] = {}
        with self.assertRaises(jsonschema.ValidationError):
            check_with_kubernetes(objects['Service'], KUBERNETES[0])

    def test_the_server_takes_the_flags(self):
        for values, wanted in (({}, ['--cluster=demo', '--tenants=default']),
                               (EVERYTHING, ['--cluster=books', '--zone=rack-b', '--ssd-bytes=900GiB', '--eviction=pgdsf',
                                             '--tenant-tokens=/etc/quire/tenant-tokens', '--tenants=team-a', '--tenants=team-b',
                                             '--etcd=etcd-0.etcd:2379,etcd-1.etcd:2379,other:4001'])):
            args = container(render(values)[1])['args']
            kit.expect_flags(self, ['quired', *args])
            self.assertLessEqual(set(wanted), set(args))

    def test_probes_and_ports_are_those_of_the_server(self):
        pod = container(render({})[1])
        ports = {port['name']: port['containerPort'] for port in pod['ports']}
        self.assertIn(f'--listen=0.0.0.0:{ports["grpc"]}', pod['args'])
        self.assertIn(f'--admin-listen=0.0.0.0:{ports["admin"]}', pod['args'])
        probes = {name: pod[name]['httpGet'] for name in ('startupProbe', 'livenessProbe', 'readinessProbe')}
        self.assertEqual({'startupProbe': '/readyz', 'livenessProbe': '/healthz', 'readinessProbe': '/readyz'},
                         {name: probe['path'] for name, probe in probes.items()})
        self.assertEqual({'admin'}, {probe['port'] for probe in probes.values()})

    def test_traces_go_to_the_collector(self):
        variables = {one['name']: one.get('value') for one in container(render(EVERYTHING)[1])['env']}
        self.assertEqual(('http://otel.monitoring:4317', 'parentbased_traceidratio', '0.05'),
                         tuple(variables[f'OTEL_{name}'] for name in ('EXPORTER_OTLP_ENDPOINT', 'TRACES_SAMPLER', 'TRACES_SAMPLER_ARG')))
        self.assertNotIn('OTEL_', str(container(render({})[1])['env']))

    def test_nodes_are_found_by_the_name_that_they_advertise(self):
        _, objects = render({})
        stateful, service = objects['StatefulSet'], objects['Service']
        self.assertEqual(service['metadata']['name'], stateful['spec']['serviceName'])
        self.assertEqual('None', service['spec']['clusterIP'])
        self.assertTrue(service['spec']['publishNotReadyAddresses'])
        self.assertIn(f'--advertise=$(POD_NAME).{service["metadata"]["name"]}.$(POD_NAMESPACE).svc:7410',
                      container(objects)['args'])

    def test_every_selector_selects_the_pods(self):
        _, objects = render(EVERYTHING)
        labels = objects['StatefulSet']['spec']['template']['metadata']['labels']
        for selector in (objects['StatefulSet']['spec']['selector']['matchLabels'], objects['Service']['spec']['selector'],
                         objects['PodDisruptionBudget']['spec']['selector']['matchLabels'],
                         objects['NetworkPolicy']['spec']['podSelector']['matchLabels']):
            self.assertEqual(labels, selector)
        monitored = objects['ServiceMonitor']['spec']['selector']['matchLabels']
        self.assertLessEqual(monitored.items(), objects['Service']['metadata']['labels'].items())

    def test_pods_run_without_rights(self):
        _, objects = render({})
        pod = objects['StatefulSet']['spec']['template']['spec']
        self.assertTrue(pod['securityContext']['runAsNonRoot'])
        self.assertFalse(pod['automountServiceAccountToken'])
        rights = container(objects)['securityContext']
        self.assertEqual((False, True, ['ALL']), (rights['allowPrivilegeEscalation'], rights['readOnlyRootFilesystem'],
                                                  rights['capabilities']['drop']))

    def test_the_network_policy_lets_in_and_out_what_is_named(self):
        policy = render(EVERYTHING)[1]['NetworkPolicy']['spec']
        calls, metrics = policy['ingress']
        self.assertEqual(['grpc'], [port['port'] for port in calls['ports']])
        self.assertEqual(EVERYTHING['networkPolicy']['clients'], calls['from'][1:])
        self.assertEqual(EVERYTHING['networkPolicy']['monitoring'], metrics['from'])
        etcd, collector = policy['egress'][-2:]
        self.assertEqual({'ports': [{'port': 4317}], 'to': EVERYTHING['networkPolicy']['collector']}, collector)
        self.assertEqual([2379, 4001], [port['port'] for port in etcd['ports']])
        self.assertEqual(EVERYTHING['networkPolicy']['etcd'], etcd['to'])
        behind = render({'networkPolicy': {'enabled': True, 'etcdPorts': [12379]}})[1]['NetworkPolicy']['spec']
        self.assertEqual([{'port': 12379}], behind['egress'][-1]['ports'])
        self.assertNotIn('NetworkPolicy', render({'networkPolicy': {'enabled': False}})[1])

    def test_the_monitored_job_is_the_one_that_rules_name(self):
        endpoint, = render(EVERYTHING)[1]['ServiceMonitor']['spec']['endpoints']
        self.assertEqual('quire', endpoint['relabelings'][0]['replacement'])
        self.assertNotIn('ServiceMonitor', render({})[1])

    def test_notes_have_the_commands_and_warn_of_missing_tokens(self):
        notes = render({})[0]['NOTES.txt']
        self.assertIn('quire cluster status --etcd etcd:2379 --cluster demo', notes)
        self.assertIn('is believed', notes)
        self.assertNotIn('is believed', render(EVERYTHING)[0]['NOTES.txt'])
        for flag in re.findall(r'--\w+', ' '.join(re.findall(r'quire cluster status .*', notes))):
            self.assertIn(flag, kit.flags_of('quire', 'cluster', 'status'))


class ValuesTest(unittest.TestCase):
    schema = kit.read_json(CHART / 'values.schema.json')

    def test_defaults_and_every_setting_keep_the_schema(self):
        jsonschema.Draft7Validator.check_schema(self.schema)
        for changes in ({}, EVERYTHING):
            jsonschema.validate(merged(changes), self.schema)

    def test_bad_settings_are_refused(self):
        for changes in BAD_VALUES:
            with self.subTest(changes=changes), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(merged(changes), self.schema)

    def test_helm_refuses_them_too(self):
        error = helm().HelmError
        with helm().Chart.load(str(CHART)) as chart:
            for changes in BAD_VALUES:
                with self.subTest(changes=changes), self.assertRaises(error):
                    chart.validate_schema(changes)

    def test_the_schema_has_every_setting(self):
        self.assertEqual({'global'} | set(kit.read_yaml(CHART / 'values.yaml')), set(self.schema['properties']))
