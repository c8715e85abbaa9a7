# SPDX-License-Identifier: Apache-2.0
"""SGLang with HiCache, and Quire as its storage."""

import json
import os
import statistics
import subprocess

import demo_kit
from demo_kit import ANSWER, HERE, ROOT, Child, Questions, check

PYTHON = ROOT / "build/tools/sglang/bin/python"
FIXES = HERE / "sglang_fixes"
PAGE = 64  # Tokens, as in sglang_engine.py.


class Demo(demo_kit.Demo):
    """SGLang in front of Quire."""

    def __init__(self, build, folder, out):
        super().__init__(build, folder, out)
        self.questions = Questions([0, 6, 12])
        self.prompts = self.questions.prompts
        self.engine = None
        self.cold = []
        self.kill_file = folder / "kill"
        self.environment = {
            "PYTHONPATH": f"{FIXES}:{HERE}:{build}/python",
            "SGLANG_USE_CPU_ENGINE": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def chapters(self):
        return self.own_factory, self.first_answers, self.after_the_kill, self.without_server

    def close(self):
        if self.engine is not None:
            self.engine.kill()
        super().close()

    def own_factory(self):
        """SGLang's factory loads the backend. Pages of every layout of its pool go through it, and are compared."""
        done = subprocess.run(
            [PYTHON, HERE / "sglang_storage_check.py", self.server.address],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        check(done.returncode == 0, done.stderr[-2000:])
        self.results.update(layouts_read_back=True)
        self.out(f"  {done.stdout.splitlines()[-1]}")

    def start(self, layout, module="quire.sglang", name="QuireStorage"):
        own = {"address": self.server.address, "retry_after": 0.5, "patience": 1.0}
        storage = {"backend_name": "quire", "module_path": module, "class_name": name, "interface_v1": 1, "quire": own}
        storage["kill_file"] = str(self.kill_file)
        model = str(demo_kit.model_folder(self.folder))
        options = json.dumps({"model": model, "layout": layout, "storage": storage})
        self.engine = Child("sglang", [PYTHON, HERE / "sglang_engine.py", options], self.folder, self.environment)

    def ask(self, prompts):
        return [self.engine("ask", prompt=prompt, max_tokens=ANSWER) for prompt in prompts]

    def first_answers(self):
        """SGLang answers, and computes every prompt. Its pages are stored."""
        before = self.stored()
        self.start("layer_first")
        self.cold = self.ask(self.prompts)
        check(all(answer["cached"] == 0 for answer in self.cold), "prompts were not computed:", self.cold)
        pages = sum(len(prompt) // PAGE for prompt in self.prompts)
        self.await_stored(before + pages, self.engine.log)
        self.results.update(questions=len(self.prompts), right=self.questions.right(self.cold), pages_stored=pages)
        self.results.update(answer_cold_ms=answer_ms(self.cold))
        self.out(f"  {self.results['right']} of {len(self.prompts)} right; {pages} pages of {PAGE} tokens stored")

    def after_the_kill(self):
        """Everything is killed (SIGKILL). New processes, with another layout, answer the same from these pages."""
        self.engine.kill()
        self.server.kill()
        self.server.start()
        self.start("page_first_direct", "storage_killed_in_load", "KilledStorage")
        warm = self.ask(self.prompts[:2])
        self.same(warm, self.cold, "after the restart")
        check(all(answer["cached"] >= 4000 for answer in warm), "pages were not found:", warm)
        self.results.update(
            identical_after_kill=True,
            prefill_tokens_saved=sum(answer["cached"] for answer in warm),
            answer_warm_ms=answer_ms(warm),
        )
        self.out(f"  identical tokens; {self.results['prefill_tokens_saved']} tokens of prefill saved")

    def without_server(self):
        """The server is killed when a load begins, and stays away. Answers are the same, computed."""
        self.kill_file.write_text(str(self.server.process.pid))
        self.same(self.ask(self.prompts[2:]), self.cold[2:], "after a broken load")
        check(not self.kill_file.exists(), "the server was not killed in a load:", self.engine.words())
        self.server.kill()
        self.engine("forget")
        (again,) = self.ask(self.prompts[:1])
        self.same([again], self.cold, "without the server")
        check(again["cached"] == 0, "it was not computed:", again)
        self.results.update(identical_without_server=True)
        self.out("  identical tokens")


def answer_ms(answers):
    return 1000 * statistics.median(answer["seconds"] for answer in answers)
