# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of one module of the working directory; exit code 77 says that every one was skipped."""
import sys
import unittest


class _Result(unittest.TextTestResult):
    """Counts what passed, and names every skipped test with its reason."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f'skipped: {test}: {reason}', flush=True)


def main(module):
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    result = unittest.TextTestRunner(resultclass=_Result).run(suite)
    if result.wasSuccessful() and result.passed == 0 and result.skipped:
        return 77
    return 0 if result.wasSuccessful() and result.passed > 0 else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
