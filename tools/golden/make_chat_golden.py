#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/golden/chat: chat templates in the forms of the decoder's families, and what Hugging Face's
transformers makes of conversations with them. gpuworker/text is tested against them. The templates are ours.

    pip install transformers tokenizers jinja2
    python tools/golden/make_chat_golden.py              # writes the files, after make_text_golden.py
    python tools/golden/make_chat_golden.py --check PROGRAM
        # compares PROGRAM (build/release/bin/render_chats) with transformers on 2,000 other conversations of each family
"""

import argparse
import json
import pathlib
import random
import subprocess

from make_text_golden import GOLDEN as TOKENIZERS
from make_text_golden import noise, sentence
from transformers import PreTrainedTokenizerFast

GOLDEN = TOKENIZERS.parent / "chat"

LLAMA2 = """
{%- if messages[0]['role'] == 'system' -%}
    {%- set system = '<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set system = '' -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for turn in turns -%}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('user and assistant must take turns') }}
    {%- endif -%}
    {%- if turn['role'] == 'user' -%}
        {{ bos_token + '[INST] ' + (system if loop.first else '') + turn['content'].strip() + ' [/INST]' }}
    {%- else -%}
        {{ ' ' ~ turn['content'] | trim ~ ' ' ~ eos_token }}
    {%- endif -%}
{%- endfor -%}
"""
LLAMA3 = """{% set header = '<|start_header_id|>' %}
{% for message in messages %}
{% set text = header + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}
{% if loop.index0 == 0 %}{{ bos_token }}{% endif %}
{{- text -}}
{% endfor %}
{% if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
{% endif %}
"""
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = "1" + strftime_now("%Y")[:0] ~ " Jan 2025" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{#- The system's message stands with the date. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {%- for tool in tools %}{{- tool | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {%- for name, value in call.arguments | items %}{{- name + '="' + value + '"' }}{%- endfor %}
    {%- elif message.content is mapping or message.content is iterable %}
        {{- message.content | tojson }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = """{{ bos_token }}
{%- set ns = namespace(users=0) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}
        {%- set ns.users = ns.users + 1 -%}
        {{ '[INST] ' + message.content + ' [/INST]' }}
    {%- elif message.role == 'assistant' and ns.users > 0 -%}
        {{ ' ' + message.content + eos_token }}
    {%- else -%}
        {{ raise_exception('only user and assistant take turns, and not ' + message.role) }}
    {%- endif -%}
{%- endfor -%}
"""
MISTRAL_NEMO = """
{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- set last_user = (turns | selectattr("role", "equalto", "user") | list)[-1] %}
{{- bos_token }}
{%- for turn in turns | rejectattr("role", "equalto", "tool") %}
    {%- if turn["role"] == "user" %}
        {%- if loop.last and system is defined %}
            {{- "[INST]" + system + "\\n\\n" + turn["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + turn["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif turn["role"] == "assistant" %}
        {{- turn["content"] + eos_token }}
    {%- else %}
        {{- raise_exception("unknown role " ~ turn["role"]) }}
    {%- endif %}
{%- endfor %}
"""
QWEN2 = """
{%- macro turn(role, text, end='<|im_end|>\\n') -%}
    {{ '<|im_start|>' + role + '\\n' + text + end }}
{%- endmacro %}
{%- for message in messages %}
    {%- if loop.first and messages[0].role != 'system' %}
        {{- turn('system', 'You are a helpful assistant.') }}
    {%- endif %}
    {{- turn(message.role, message.content) }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- turn('assistant', '', end='') }}
{%- endif %}
"""
QWEN3 = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(seeking=true, last_question=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.seeking and message.role == "user" and message.content is string and not (message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.seeking = false %}
        {%- set ns.last_question = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_question and (loop.last or (not loop.last and thoughts)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
ALTERNATIVES = [{"name": "tool_use", "template": "{{ tools | tojson }}"}, {"name": "default", "template": QWEN3}]
# Family: its tokenizer and its tokenizer_config.json.
FAMILIES = {
    "llama2": ("llama2", {"bos_token": "<s>", "eos_token": "</s>", "chat_template": LLAMA2}),
    "llama3": ("llama3", {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "chat_template": LLAMA3}),
    "llama3_1": ("llama3", {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "chat_template": LLAMA31}),
    "mistral": ("mistral", {"bos_token": "<s>", "eos_token": "</s>", "chat_template": MISTRAL}),
    "mistral_nemo": ("mistral_nemo", {"bos_token": "<s>", "eos_token": "</s>", "chat_template": MISTRAL_NEMO}),
    "qwen2": ("qwen", {"bos_token": None, "eos_token": "<|im_end|>", "chat_template": QWEN2}),
    "qwen3": ("qwen", {"bos_token": None, "eos_token": "<|im_end|>", "chat_template": ALTERNATIVES}),
}
# Small templates that use every other word of the language that is read.
LANGUAGE = [
    "{{ [1,2,3][1:] }} {{ 'abc'[::-1] }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2*3 }} {{ 'a' ~ 1 }} {{ not 1 == 2 }}",
    "{% set d = {'k': 1, 'b': [1, 'x'], 'n': {'z': none}} %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} "
    "{{ d }} {{ d|length }} {{ d.get('x', 5) }} {{ 'k' in d }} {{ d|tojson }} {{ d|tojson(indent=2) }} {{ d['k'] }}",
    "{% macro f(a, b='z') %}<{{ a }}|{{ b }}>{% endmacro %}{{ f(1) }}{{ f(2, b=3) }}{{ f('x','y')|upper }}",
    "  {% if true %}\n  a\n  {% endif %}\n  b {#- c -#}  d\n{% for i in range(3) if i != 1 %}\n {{ i }},{{ loop.first }}\n"
    "{% else %}none{% endfor %}\n",
    "{% for i in [] %}x{% else %}none{% endfor %}{% set x %}block {{ 1 }}{% endset %}[{{ x }}]",
    "{{ messages | selectattr('role','equalto','user') | list | length }} {{ messages | map(attribute='role') | join(',') }} "
    "{{ (messages|first).role }} {{ messages|rejectattr('role','eq','user')|map(attribute='content')|list }}",
    "{{ none }} {{ None is none }} {{ x is defined }} {{ x is undefined }} {{ x }}| {{ true and 'y' or 'n' }} "
    "{{ 'a' if false }}| {{ 1 if x else 2 }} {{ (1,2) == (1,2) }} {{ {'a':[1,{'b':none}]} }} {{ 3 is number }}",
    "{{ 'é\"\\n\\t' | tojson }} {{ [true, none, -1] | tojson }} {{ '  a b '.split() }} {{ 'a,b,c'.split(',', 1) }} "
    "{{ 'a-b'|replace('-','+') }} {{ [3,1]|last }} {{ 'aXa'.replace('a', 'b', 1) }} {{ 'ab'|reverse }} {{ [1,2]|reverse|list }}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %} "
    "{{ 'it' 's' }} {{ \"q'q\" }} {{ ['a\\'b', 'c\"d', '\\u00e9'] }}",
    "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% set y = 5 %}{% endfor %}{{ ns.n }} "
    "{{ y is defined }} {{ 'abc'|first }} {{ ''|default('e', true) }} {{ zz|default('q') }} {{ 1 in [1, 2] }} {{ 3 not in [1] }}",
    "\n\nline\n{%- if 1 %} y {%- endif +%}\nz\n{{ '\\u2028 x\\x0b'|trim if false else ' \\u2003x '.strip() }}|{{ 'xxaxx'.strip('x') }}",
    "{{ messages[0].content | lower }} {{ messages[0]['content'].upper()[:3] }} {{ messages | length > 1 and 2 <= 3 }} "
    "{{ 'b' > 'a' }} {{ messages[-1].role != 'user' }} {% generation %}g{% endgeneration %} {{ (1 > 2) is false }}",
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ loop.revindex }} {{ loop.revindex0 }} "
    "{{ loop.previtem.role if loop.previtem is defined }} {{ loop.nextitem is defined }};{% endfor %}{{ dict(a=1)|items|list|length }}",
    "{{ undefined_name.attribute }}", "{{ 1 + 'a' }}", "{{ raise_exception('no') }}", "{% if %}", "{{ 1",
    "{% endif %}", "{{ x | no_such_filter }}", "{% for a, b in [1] %}{% endfor %}", "{{ 1 // 0 }}", "{{ 'a' < 1 }}",
]  # fmt: skip


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


CONVERSATIONS = [
    [user("What is in the store?")],
    [user("  padded \n")],
    [user("")],
    [system("Be brief."), user("Hi \"there\" <|im_start|> é 数据 🙂")],
    [system(" "), user("x")],
    [user("One"), assistant("two"), user("three")],
    [system("S"), user("Q1"), assistant("<think>\nwhy\n</think>\n\nA1 "), user("Q2\n"), assistant("A2")],
    [user("Q"), assistant("<think>a</think>b")],
    [user("\n\nquestion\r\n\tof lines\n")],
    [assistant("first")],
    [user("twice"), user("twice")],
    [system("only")],
    [user("الثعلب e\u0301 \u200b 👨‍👩‍👧 \ue000")],
]  # fmt: skip


def tokenizer_of(family):
    name, config = FAMILIES[family]
    tokens = {key: value for key, value in config.items() if key != "chat_template" and value}
    template = config["chat_template"]
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZERS / f"{name}.json"), **tokens)
    tokenizer.chat_template = template
    return tokenizer


def rendered(tokenizer, messages, add_generation_prompt):
    try:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=add_generation_prompt, tokenize=False)
    except Exception:  # The template refuses: its own exception, or one of Jinja.
        return None
    ids = tokenizer.apply_chat_template(
        messages, add_generation_prompt=add_generation_prompt, tokenize=True, return_dict=False
    )
    return {"text": text, "ids": ids}


DOCUMENTS = ["A line.\nAnother one, with 数据 and 🙂\n", "No line end at the end", " begins with a space.", "[INST] </s> it's\n\n"]
QUESTIONS = ["What is it?", " it's", "数据", "3", "🙂"]


def with_documents(tokenizer):
    cases = []
    for document in DOCUMENTS:
        for question in QUESTIONS:
            made = rendered(tokenizer, [user(document + "\n\n" + question)], True)
            cases.append({"document": document, "question": question, "ids": made["ids"]})
    return cases


def language():
    tokenizer = tokenizer_of("qwen2")
    cases = []
    for template in LANGUAGE:
        tokenizer.chat_template = template
        made = rendered(tokenizer, CONVERSATIONS[6], True)
        cases.append({"template": template, "text": made["text"] if made else None})
    return {"messages": CONVERSATIONS[6], "cases": cases}


def write():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    golden = {"conversations": CONVERSATIONS, "language": language(), "families": {}}
    for family, (name, config) in FAMILIES.items():
        (GOLDEN / f"{family}.json").write_text(json.dumps(config, indent=1) + "\n")
        tokenizer = tokenizer_of(family)
        golden["families"][family] = {
            "tokenizer": name,
            "with_prompt": [rendered(tokenizer, messages, True) for messages in CONVERSATIONS],
            "without_prompt": [rendered(tokenizer, messages, False) for messages in CONVERSATIONS],
            "documents": with_documents(tokenizer),
        }
    (GOLDEN / "chats.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def conversation(rng):
    def text():
        return rng.choice([sentence, noise])(rng)

    messages = [system(text())] if rng.random() < 0.4 else []
    for turn in range(rng.randint(1, 6)):
        swapped = rng.random() < 0.05
        messages.append(user(text()) if (turn % 2 == 0) != swapped else assistant(text()))
    return messages


def check(program):
    for family, (name, _) in FAMILIES.items():
        rng = random.Random(13)
        cases = [(conversation(rng), rng.random() < 0.5) for _ in range(2000)]
        lines = [json.dumps({"messages": m, "add_generation_prompt": add}) for m, add in cases]
        command = [program, str(TOKENIZERS / f"{name}.json"), str(GOLDEN / f"{family}.json")]
        out = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
        tokenizer, refused, ids = tokenizer_of(family), 0, 0
        for (messages, add), line in zip(cases, out.stdout.split("\n"), strict=False):
            got, want = json.loads(line), rendered(tokenizer, messages, add)
            assert ("error" in got) if want is None else got == want, f"{family}: {messages}: {got} instead of {want}"
            refused += want is None
            ids += len(want["ids"]) if want else 0
        print(f"{family}: {len(cases)} conversations, {refused} refused by both, {ids} tokens: equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="PROGRAM")
    args = parser.parse_args()
    if args.check:
        check(args.check)
    else:
        write()


if __name__ == "__main__":
    main()
