# SPDX-License-Identifier: Apache-2.0
"""What connectors of engines share. Nothing here knows an engine."""
