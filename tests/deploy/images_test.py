# SPDX-License-Identifier: Apache-2.0
"""The images: lint, the flags they start with, and that they have the libraries that the programs link."""
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import kit

DOCKERFILE = kit.DEPLOY / 'docker' / 'Dockerfile'
PROGRAMS = {'server': 'quired', 'cli': 'quire', 'worker': 'quire'}


def stages():
    """Instructions of each stage with those of the stages that it builds on, as (name, arguments)."""
    stages, current = {}, None
    for line in re.sub(r'\\\n', ' ', DOCKERFILE.read_text()).splitlines():
        word, _, rest = line.strip().partition(' ')
        if word == 'FROM':
            base, _, name = rest.split()
            current = stages[name] = list(stages.get(base, []))
        elif current is not None and word.isupper():
            current.append((word, rest.strip()))
    return stages


def last(instructions, name):
    return [rest for word, rest in instructions if word == name][-1]


def installed_packages(instructions):
    packages = set()
    for word, rest in instructions:
        if word == 'RUN' and 'apt-get install' in rest:
            words = rest.split('apt-get install', 1)[1].split('&&')[0].split()
            packages |= {w for w in words if not w.startswith('-')}
    return packages


def with_dependencies(packages):
    """The packages and what they depend on, as far as they are installed here."""
    closed, waiting = set(), list(packages)
    while waiting:
        package = waiting.pop()
        if package in closed:
            continue
        closed.add(package)
        depends = subprocess.run(['dpkg-query', '-W', '-f', '${Depends} ${Pre-Depends}', package], capture_output=True,
                                 text=True, check=False).stdout
        waiting += re.findall(r'(?:^|[,|])\s*([a-z0-9.+-]+)', depends)
    return closed


def packages_of_libraries(program):
    """Debian packages of the libraries that a program names itself."""
    needed = re.findall(r'NEEDED\s+(\S+)', kit.run('objdump', '-p', kit.BIN / program))
    found = dict(re.findall(r'(\S+) => (/\S+)', kit.run('ldd', kit.BIN / program)))
    paths = [found[library] for library in needed if library in found]  # All but the loader.
    paths += ['/usr' + path for path in paths]  # Packages of Debian 12 have the one or the other.
    owners = subprocess.run(['dpkg', '-S', *paths], capture_output=True, text=True, check=False).stdout
    return {line.split(':')[0] for line in owners.splitlines()}


class ImagesTest(unittest.TestCase):
    def test_hadolint_has_no_findings(self):
        kit.run(kit.tool('hadolint'), DOCKERFILE)

    def test_shellcheck_has_no_findings(self):
        kit.run(kit.tool('shellcheck'), kit.DEPLOY / 'docker' / 'healthy')

    def test_images_run_as_a_user_and_say_how_they_are(self):
        for name in PROGRAMS:
            instructions = stages()[name]
            self.assertEqual('10001:10001', last(instructions, 'USER'), name)
            self.assertIn('org.opencontainers.image.licenses', last(instructions, 'LABEL'), name)
            health = last(instructions, 'HEALTHCHECK')
            if name == 'cli':
                self.assertEqual('NONE', health)
                continue
            admin_port = re.search(r'--admin-listen=[0-9.]+:(\d+)', last(instructions, 'CMD')).group(1)
            self.assertIn(f'CMD ["healthy", "{admin_port}"]', health, name)
            self.assertIn(admin_port, last(instructions, 'EXPOSE'), name)

    def test_the_version_is_that_of_the_tree(self):
        version = re.search(r'QUIRE_VERSION "([0-9.]+)"', (kit.ROOT / 'include' / 'quire' / 'version.h').read_text()).group(1)
        self.assertIn(f'image.version="{version}"', last(stages()['runtime'], 'LABEL'))
        chart = kit.read_yaml(kit.DEPLOY / 'helm' / 'quire' / 'Chart.yaml')
        self.assertEqual((version, version), (chart['version'], chart['appVersion']))
        compose = kit.read_yaml(kit.DEPLOY / 'compose' / 'compose.yaml')
        ours = [service['image'] for service in compose['services'].values() if service['image'].startswith('quire/')]
        self.assertEqual({version}, {image.split(':')[1] for image in ours})

    def test_programs_take_the_flags_that_images_start_them_with(self):
        for name in ('server', 'worker'):
            instructions = stages()[name]
            command = json.loads(last(instructions, 'ENTRYPOINT')) + json.loads(last(instructions, 'CMD'))
            self.assertEqual(PROGRAMS[name], command[0])
            kit.expect_flags(self, command)

    def test_images_have_the_libraries_that_their_programs_link(self):
        if shutil.which('dpkg-query') is None or shutil.which('objdump') is None:
            self.skipTest('there is no dpkg-query or no objdump')
        base = {'libc6', 'libgcc-s1', 'libstdc++6'}
        for name, program in PROGRAMS.items():
            needed = packages_of_libraries(program)
            self.assertGreater(len(needed), 10, program)
            have = with_dependencies(installed_packages(stages()[name])) | base
            self.assertLessEqual(needed, have, f'{name} lacks libraries of {program}')

    def test_the_tree_configures_as_the_build_stages_do(self):
        for name in ('build', 'build-cuda'):
            run, = [rest for word, rest in stages()[name] if word == 'RUN' and rest.startswith('cmake ')]
            configure, build = (shlex.split(part) for part in run.split('&&')[:2])
            with self.subTest(stage=name), tempfile.TemporaryDirectory() as folder:
                self.expect_configures(configure, build, folder)

    def expect_configures(self, configure, build, folder):
        """Runs a stage's first command in another folder, and has ninja plan the targets of its second."""
        compiler = 'nvcc' if '-DQUIRE_CUDA=ON' in configure else 'clang++-14'
        if shutil.which(compiler, path=os.environ['PATH'] + ':/usr/local/cuda/bin') is None:
            self.skipTest(f'there is no {compiler}')
        configure = [word for word in configure if not word.startswith('build/')]
        configure = [word for word in configure if word != '-B'] + ['-B', folder]
        kit.run(*configure, cwd=kit.ROOT)
        targets = build[build.index('--target') + 1:]
        kit.run('ninja', '-C', folder, '-n', *targets)

    def test_what_is_copied_from_the_tree_is_there(self):
        for instructions in stages().values():
            for word, rest in instructions:
                if word == 'COPY' and not rest.startswith('--from'):
                    self.assertTrue((kit.ROOT / rest.split()[0]).exists(), rest)
