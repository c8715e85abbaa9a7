# SPDX-License-Identifier: Apache-2.0
"""What the demonstrations of engines share: a server that is killed and comes back, engines in processes of their
own, and the bundled questions."""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
MODEL = ROOT / "models/recall-small"
DOCUMENTS = MODEL / "documents"
sys.path.insert(0, str(ROOT / "tools/train"))
from tokenizer import Tokenizer  # noqa: E402

ANSWER = 40  # Tokens of an answer that are compared.


class Failed(Exception):
    """A chapter did not show what it is for."""


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(part) for part in what))


def await_true(condition, seconds, *what):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        check(time.monotonic() < deadline, *what)
        time.sleep(0.05)
    return answer


class Server:
    """A quired over a folder. It is started again after a kill, on the same socket."""

    def __init__(self, build, folder, transport=None):
        """`transport`: the only one that it offers; None: all."""
        self.build, self.folder = build, folder
        self.arguments = ["--transports", transport] if transport else []
        if transport in (None, "shm"):
            self.arguments += ["--shm-socket", folder / "shm.sock"]
        self.address = f"unix:{folder}/quired.sock"
        self.process = None

    def start(self):
        command = [self.build / "bin/quired", "--data-dir", self.folder / "data", "--listen", self.address]
        command += ["--dram-bytes", "256MiB", *self.arguments]
        with open(self.folder / "quired.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        check(b"listening" in self.process.stdout.readline(), "quired did not start:", self.words())

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def words(self):
        return (self.folder / "quired.log").read_text(errors="replace")[-2000:]

    def ask(self, *arguments):
        command = [self.build / "bin/quire", "--server", self.address, "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, *arguments, done.stdout, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


class Child:
    """A program that is driven by lines of JSON: a command in, a reply out."""

    def __init__(self, name, command, folder, environment):
        self.name, self.log = name, folder / f"{name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **environment},
                start_new_session=True,  # An engine has processes of its own, which are killed with it.
            )
        self._reply()

    def __call__(self, call, **arguments):
        self.process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        self.process.stdin.flush()
        return self._reply()

    def kill(self):
        kill_session(self.process)
        self.process.stdin.close()
        self.process.stdout.close()

    def words(self):
        return self.log.read_text(errors="replace")[-3000:]

    def _reply(self):
        line = self.process.stdout.readline()
        check(line, f"{self.name} ended:", self.words())
        return json.loads(line)


def kill_session(process):
    """Kills (SIGKILL) a process that leads a session, and all that it has started."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()


def model_folder(folder):
    """The bundled model without its tokenizer, which engines do not know."""
    model = folder / "model"
    if not model.exists():
        model.mkdir()
        for name in ("config.json", "model.safetensors"):
            (model / name).symlink_to(MODEL / name)
    return model


class Questions:
    """The bundled questions as prompts."""

    def __init__(self, wanted):
        """`wanted`: numbers of questions in questions.jsonl."""
        tokenizer = Tokenizer.load(str(MODEL / "tokenizer.json"))
        self.decode, self.encode = tokenizer.decode, tokenizer.encode
        asked = [json.loads(line) for line in open(DOCUMENTS / "questions.jsonl")]
        self.asked = [asked[number] for number in wanted]
        self.documents = {q["document"]: (DOCUMENTS / q["document"]).read_text() for q in self.asked}
        self.prompts = [[0] + self.encode(self.documents[q["document"]] + q["question"]) for q in self.asked]

    def right(self, answers):
        """How many answers are right."""
        return sum(self.decode(a["tokens"]).startswith(q["answer"]) for a, q in zip(answers, self.asked))


class Demo:
    """Chapters, in their order. Each leaves what the next one goes on with."""

    def __init__(self, build, folder, out):
        self.build, self.folder, self.out = build, folder, out
        self.server = Server(build, folder)
        self.results = {}

    def chapters(self):
        raise NotImplementedError

    def first_answers(self):
        raise NotImplementedError

    def after_the_kill(self):
        raise NotImplementedError

    def run(self, short=False):
        """All chapters, or the two that every engine has. The server runs when they begin."""
        self.server.start()
        for chapter in (self.first_answers, self.after_the_kill) if short else self.chapters():
            began = time.monotonic()
            self.out(f"\n{chapter.__doc__.splitlines()[0]}")
            chapter()
            self.out(f"  ({time.monotonic() - began:.0f} s)")

    def close(self):
        self.server.kill()

    def same(self, answers, first, where):
        """Fails unless the answers are those that were given first."""
        wrong = [n for n, (a, b) in enumerate(zip(answers, first)) if a["tokens"][:ANSWER] != b["tokens"][:ANSWER]]
        check(not wrong, where, "answers differ from the first ones:", wrong)

    def stored(self):
        """Objects and other segments that the server has."""
        return self.server.ask("stat", "--counters")["counters"]["segments"]

    def await_stored(self, objects, log):
        """Waits until the server has that many. An engine's threads store them, and nothing says when they are done."""
        await_true(lambda: self.stored() >= objects, 30, "not all of", objects, "were stored; see", log)
