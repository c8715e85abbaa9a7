# SPDX-License-Identifier: Apache-2.0
"""Alert rules and the dashboard: their syntax, when rules fire, and that their metrics are those of docs/metrics.md."""
import json
import pathlib
import re
import shutil
import tempfile
import unittest

import kit

RULES = kit.DEPLOY / 'prometheus' / 'alerts.yml'
DASHBOARD = kit.DEPLOY / 'grafana' / 'dashboards' / 'quire.json'
CASES = pathlib.Path(__file__).with_name('alerts_cases.yml')
METRIC = re.compile(r'\bquire_[a-z0-9_]+\b')
LABELS = re.compile(r'\b(quire_[a-z0-9_]+)\{([^}]*)\}')
LABELS_OF_THE_SCRAPE = {'instance', 'job', 'le'}


def alerts():
    return [rule for group in kit.read_yaml(RULES)['groups'] for rule in group['rules']]


def panels():
    return [panel for panel in kit.read_json(DASHBOARD)['panels'] if panel['type'] != 'row']


def documented_metrics():
    """Labels of each metric, by name; a histogram under the names of its series."""
    metrics = {}
    for line in (kit.ROOT / 'docs' / 'metrics.md').read_text().splitlines():
        cells = [cell.strip() for cell in line.split('|')]
        if len(cells) < 6 or not cells[1].startswith('`quire_') or cells[2] not in ('counter', 'gauge', 'histogram'):
            continue
        suffixes = ('_bucket', '_sum', '_count') if cells[2] == 'histogram' else ('',)
        for suffix in suffixes:
            metrics[cells[1].strip('`') + suffix] = set(re.findall('`([a-z]+)`', cells[3]))
    return metrics


def reasons(lasting):
    """Reasons of troubles that last, or of those that only happen."""
    page = (kit.ROOT / 'docs' / 'metrics.md').read_text()
    table = page[page.index('| reason | lasts |'):page.index('## What to watch')]
    return {row[0] for row in re.findall(r'^\| `([a-z_]+)` \|([^|]*)\|', table, re.M) if bool(row[1].strip()) == lasting}


def expressions():
    found = [(rule['alert'], rule['expr']) for rule in alerts()]
    return found + [(panel['title'], target['expr']) for panel in panels() for target in panel['targets']]


class AlertsTest(unittest.TestCase):
    def test_prometheus_takes_rules_and_configuration(self):
        promtool = kit.tool('promtool')
        kit.run(promtool, 'check', 'rules', RULES)
        kit.run(promtool, 'check', 'config', kit.DEPLOY / 'prometheus' / 'prometheus.yml')

    def test_rules_fire_when_they_should(self):
        promtool = kit.tool('promtool')
        rules = kit.read_yaml(RULES)
        for group in rules['groups']:
            for rule in group['rules']:
                del rule['annotations']
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, 'alerts.yml').write_text(json.dumps(rules))
            cases = shutil.copy(CASES, folder)
            kit.run(promtool, 'test', 'rules', cases)

    def test_every_rule_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent(self):
        cases = [test for case in kit.read_yaml(CASES)['tests'] for test in case['alert_rule_test']]
        names = {rule['alert'] for rule in alerts()}
        self.assertEqual(names, {case['alertname'] for case in cases if case.get('exp_alerts')})
        self.assertEqual(names, {case['alertname'] for case in cases if not case.get('exp_alerts')})

    def test_every_reason_that_a_rule_names_is_one_that_it_fires_for(self):
        fired = {(test['alertname'], alert['exp_labels'].get('reason'))
                 for case in kit.read_yaml(CASES)['tests'] for test in case['alert_rule_test']
                 for alert in test.get('exp_alerts', [])}
        named = {(rule['alert'], reason) for rule in alerts()
                 for reasons_of_rule in re.findall(r'reason=~?"([^"]*)"', rule['expr'])
                 for reason in reasons_of_rule.split('|')}
        self.assertGreater(len(named), 10)
        self.assertLessEqual(named, fired)

    def test_every_rule_says_what_is_wrong(self):
        for rule in alerts():
            self.assertIn(rule['labels']['severity'], ('critical', 'warning'), rule['alert'])
            self.assertEqual({'summary', 'description'}, set(rule['annotations']), rule['alert'])

    def test_every_trouble_that_lasts_has_a_rule(self):
        text = ' '.join(rule['expr'] for rule in alerts())
        named = set(re.findall('[a-z_]+', ' '.join(re.findall(r'quire_degraded\{reason=~?"([^"]*)"', text))))
        if 'quire_cluster_view_frozen' in text:
            named.add('cluster_frozen')
        self.assertGreater(len(reasons(lasting=True)), 10)
        self.assertEqual(reasons(lasting=True), named)
        happened = set(re.findall('[a-z_]+', ' '.join(re.findall(r'quire_troubles_total\{reason=~?"([^"]*)"', text))))
        self.assertLessEqual(happened, reasons(lasting=False))


class MetricsTest(unittest.TestCase):
    def test_metrics_and_labels_are_documented(self):
        metrics = documented_metrics()
        self.assertGreater(len(metrics), 100)
        for place, expression in expressions():
            for name in METRIC.findall(expression):
                self.assertIn(name, metrics, place)
            for name, matchers in LABELS.findall(expression):
                labels = set(re.findall(r'([a-z]+)\s*(?:=|!)', matchers))
                self.assertLessEqual(labels, metrics[name] | LABELS_OF_THE_SCRAPE, place)

    def test_a_method_that_is_named_is_served(self):
        services = ''.join(path.read_text() for path in (kit.ROOT / 'proto' / 'quire' / 'v1').glob('*.proto'))
        for place, expression in expressions():
            for service, method in re.findall(r'method="quire\.v1\.(\w+)/(\w+)"', expression):
                self.assertRegex(services, rf'service {service} ', place)
                self.assertRegex(services, rf'rpc {method}\(', place)


class DashboardTest(unittest.TestCase):
    def test_panels_have_names_places_and_a_data_source(self):
        dashboard = kit.read_json(DASHBOARD)
        ids = [panel['id'] for panel in dashboard['panels']]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertGreater(len(panels()), 20)
        for panel in panels():
            self.assertEqual({'type': 'prometheus', 'uid': '${datasource}'}, panel['datasource'], panel['title'])
            self.assertLessEqual(panel['gridPos']['x'] + panel['gridPos']['w'], 24, panel['title'])
            self.assertTrue(panel['targets'], panel['title'])
        self.assertEqual(['datasource', 'instance'], [v['name'] for v in dashboard['templating']['list']])

    def test_prometheus_takes_every_query(self):
        rules = [{'record': f'panel:{number}', 'expr': expression.replace('$__rate_interval', '5m').replace('$instance', '.*')}
                 for number, (_, expression) in enumerate(expressions())]
        with tempfile.NamedTemporaryFile('w', suffix='.yml') as file:
            json.dump({'groups': [{'name': 'panels', 'rules': rules}]}, file)
            file.flush()
            kit.run(kit.tool('promtool'), 'check', 'rules', '--lint-fatal', file.name)
