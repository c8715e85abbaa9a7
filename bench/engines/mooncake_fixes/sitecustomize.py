# SPDX-License-Identifier: Apache-2.0
"""On PYTHONPATH of processes that have vLLM and Mooncake's connector.

The connector marks the end of a step by an event of CUDA, and its thread waits for that. On CPUs a step has ended when
the connector is called.
"""

import importlib.util

if importlib.util.find_spec("torch") is not None:
    import torch

    class _Ended:
        def record(self, stream=None):
            pass

        def synchronize(self):
            pass

    if not torch.cuda.is_available():
        torch.cuda.Event = _Ended
