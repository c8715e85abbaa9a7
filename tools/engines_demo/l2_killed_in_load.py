# SPDX-License-Identifier: Apache-2.0
"""QuireL2 whose server is killed after a look-up has promised chunks, before they have come."""

from killing import kill_as_told

from quire.lmcache import QuireL2


class KilledL2(QuireL2):
    def __init__(self, kill_file, **params):
        super().__init__(**params)
        self._kill_file = kill_file

    def submit_batch_get(self, keys, buffers):
        kill_as_told(self._kill_file)
        return super().submit_batch_get(keys, buffers)
