# SPDX-License-Identifier: Apache-2.0
"""The units of systemd: what systemd says of them, and the flags that they give."""
import re
import shlex
import shutil
import tempfile
import unittest
import pathlib

import kit

UNITS = kit.DEPLOY / 'systemd'
# Exposure of a unit by systemd's own measure, from 0 to 100: at most.
EXPOSURE = {'quired@.service': 25, 'quire-worker.service': 40}


def environment(name):
    """Variables of an environment file, those that are commented out as well."""
    return dict(re.findall(r'(?m)^#?([A-Z_]+)=(.*)$', (UNITS / name).read_text()))


def command(unit, variables):
    """The command line of a unit, with the variables of its example file."""
    line = re.search(r'(?m)^ExecStart=(.*)$', (UNITS / unit).read_text()).group(1)
    for name, value in variables.items():
        line = line.replace(f'${name}', value)
    return shlex.split(line)


class SystemdTest(unittest.TestCase):
    def test_systemd_takes_the_units(self):
        analyze = kit.tool('systemd-analyze')
        with tempfile.TemporaryDirectory() as folder:
            for unit in EXPOSURE:
                text = (UNITS / unit).read_text()
                here = re.sub(r'/usr/local/bin/', f'{kit.BIN}/', text).replace('User=quire', 'User=root')
                path = pathlib.Path(folder, unit.replace('@', '@disk-1'))
                path.write_text(here)
                said = kit.run(analyze, 'verify', path)
                self.assertNotRegex(said, rf'{path.name}|{folder}', unit)

    def test_units_give_programs_no_more_than_they_use(self):
        analyze = kit.tool('systemd-analyze')
        with tempfile.TemporaryDirectory() as folder:
            for unit, most in EXPOSURE.items():
                path = shutil.copy(UNITS / unit, pathlib.Path(folder, unit.replace('@', '@disk-1')))
                kit.run(analyze, 'security', '--offline=yes', f'--threshold={most}', '--no-pager', path)

    def test_programs_take_the_flags_of_units_and_example_files(self):
        server = command('quired@.service', {**environment('quired.env'), '{STATE_DIRECTORY}': '/var/lib/quire/disk-1'})
        kit.expect_flags(self, server)
        self.assertIn('--cluster', server)
        worker = command('quire-worker.service', environment('quire-worker.env'))
        kit.expect_flags(self, worker)
        self.assertIn('--device', worker)

    def test_example_files_set_what_units_read(self):
        for unit, example in (('quired@.service', 'quired.env'), ('quire-worker.service', 'quire-worker.env')):
            read = set(re.findall(r'\$([A-Z_]+)', (UNITS / unit).read_text()))
            self.assertLessEqual(read, set(environment(example)), unit)
