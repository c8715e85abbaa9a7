# SPDX-License-Identifier: Apache-2.0
"""Panels and alerts of deploy/ against the metrics of a server under load."""
import re
import unittest

import kit

# Metrics of workers and of clusters, which are not here.
ELSEWHERE = ('quire_batch_', 'quire_worker_', 'quire_reuse_', 'quire_cluster_', 'quire_replica_', 'quire_hot_')
# What stands still while nothing is wrong.
QUIET = ('quire_admission_queued', 'quire_admission_refused_total', 'quire_ssd_gate_refused_total', 'quire_ssd_gate_waiting',
         'quire_calls_unauthenticated_total', 'quire_cached_evictions_total', 'quire_segments_cached', 'quire_ssd_bytes_cached',
         'quire_documents_pinned', 'quire_segments_damaged', 'quire_scrub_damaged_total', 'quire_degraded', 'quire_troubles_total',
         'quire_select_nan_scores_total', 'quire_scrub_bytes_total', 'quire_contexts_open', 'quire_payload_device_errors_total',
         'quire_dram_extents_damaged_total')


class DashboardTest(unittest.TestCase):
    def test_panels_and_alerts_name_metrics_that_are_there_and_move(self):
        server = kit.Server('--dram-bytes', '8MiB', '--ssd-bytes', '1GiB')
        self.addCleanup(server.close)
        load = kit.Load(server)
        self.addCleanup(load.close)
        load.stop()
        # Names of callers are in no label.
        self.assertEqual([], [series for series in server.metrics() if 'manual' in series or 'onerror' in series])
        scraped = {}
        for series, value in server.metrics().items():
            scraped.setdefault(series.split('{')[0], []).append(float(value))
        deploy = kit.ROOT / 'deploy'
        texts = [(deploy / name).read_text() for name in ('grafana/dashboards/quire.json', 'prometheus/alerts.yml')]
        named = {name for name in re.findall(r'\bquire_[a-z_]+', ''.join(texts)) if not name.startswith(ELSEWHERE)}
        self.assertGreater(len(named), 40)
        self.assertEqual(set(), named - set(scraped), 'there is no such metric')
        self.assertEqual(set(), {name for name in named if not any(scraped[name])} - set(QUIET), 'these have not moved')
