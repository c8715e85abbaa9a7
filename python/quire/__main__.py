# SPDX-License-Identifier: Apache-2.0
"""`python -m quire demo`: the command line of the package."""

from quire import programs

programs.quire()
