# SPDX-License-Identifier: Apache-2.0
"""QuireStorage whose server is killed after a look-up has promised pages, before they have come."""

from killing import kill_as_told

from quire.sglang import QuireStorage


class KilledStorage(QuireStorage):
    def batch_get_v1(self, keys, host_indices, extra_info=None):
        kill_as_told(self._config.extra_config["kill_file"])
        return super().batch_get_v1(keys, host_indices, extra_info)
