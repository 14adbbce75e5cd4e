"""Chat templates: the text that `transformers` renders, and a sandbox that nothing leaves or outlasts."""

import time
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from anyshape.llm import chat, gguf, gguf_tokenizer
from anyshape.llm.chat import ChatTemplate
from anyshape.support.errors import TemplateError
from tests.llm.models import smollm2

LLAMA3 = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] +
'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}
{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""

MISTRAL = """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant!') }}
{% endif %}{% endfor %}"""

TOOLS = """{%- macro describe(tool) %}{{ tool.function.name }}({{ tool.function.parameters | tojson }}){% endmacro -%}
{%- set ns = namespace(last=-1, names=[]) -%}
{%- for m in messages[::-1] %}{%- set at = messages|length - 1 - loop.index0 %}
{%- if m.role == "user" and ns.last < 0 and not m.content.startswith('<tool') %}{% set ns.last = at %}{% endif %}{% endfor -%}
{%- if tools %}{% for tool in tools %}{{ describe(tool) }}{{ ", " if not loop.last }}{% endfor %}{% endif %}
{%- for m in messages if m.content is string and m.content %}
  {%- set text = m.content.split('</think>')[-1].lstrip('\\n') if '</think>' in m.content else m.content %}
  {%- generation %}{{ loop.index ~ '/' ~ ns.last ~ ':' ~ m.role|upper ~ ' ' ~ text }}{% endgeneration %}
  {%- if loop.index > 3 %}{% break %}{% endif %}
{% endfor %}{{ dict(a=1, b=[1, 2.5, none, true]) | tojson(indent=2) }}{{ strftime_now("%Y") }}"""

CONVERSATION = [
    {"role": "user", "content": "  Grüße, {{ 7 * 7 }}?\n"},
    {"role": "assistant", "content": "<think>hm</think>\n\n49"},
    {"role": "user", "content": "thanks"},
]
FUNCTIONS: list[dict[str, Any]] = [{"function": {"name": "add", "parameters": {"x": "<int>", "ß": [1, None]}}}]


@pytest.mark.parametrize("source", [LLAMA3, MISTRAL, TOOLS], ids=["llama3", "mistral", "tools"])
@pytest.mark.parametrize("prompt", [False, True])
def test_the_text_is_that_of_transformers(source: str, prompt: bool) -> None:
    tools = FUNCTIONS if source == TOOLS else None
    expected, _ = render_jinja_template(
        [CONVERSATION], tools=tools, chat_template=source, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>",
        return_assistant_tokens_mask=False,
    )  # fmt: skip
    template = ChatTemplate(source, bos="<s>", eos="</s>")
    assert template.render(CONVERSATION, add_generation_prompt=prompt, tools=tools) == expected[0]


def test_the_template_of_smollm2() -> None:
    metadata = gguf.open(smollm2()).metadata
    tokenizer = gguf_tokenizer.from_metadata(metadata)
    template = chat.from_metadata(metadata, tokenizer)
    assert template is not None
    text = template.render([{"role": "user", "content": "Hi"}])
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    tokens = tokenizer.encode(text, special=False)
    assert tokens[:3] == [1, 9690, 198]
    assert tokens.count(1) == 3
    assert tokenizer.decode(tokens, control=True) == text


def test_the_time_can_be_given() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}{{ x }}")
    now = datetime(2024, 7, 26, tzinfo=UTC)
    assert template.render([], now=now, variables={"x": 1}) == "26 Jul 20241"


def test_what_a_template_raises_is_told() -> None:
    with pytest.raises(TemplateError, match="Only user and assistant!"):
        ChatTemplate(MISTRAL, where="m.gguf").render(
            [{"role": "user", "content": ""}, {"role": "system", "content": "x"}]
        )


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ ''['__class__'] }}",
        "{{ messages[0]|attr('__class__') }}",
        "{{ [messages]|map(attribute='__class__')|list }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__self__.filters }}",
        "{{ strftime_now.__func__ }}",
        "{{ namespace.__init__ }}",
        "{{ self.__init__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ loop.__class__ }}{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
        "{{ cycler }}{{ cycler.__init__ }}",
        "{{ lipsum.__globals__ }}",
        "{{ '%s'.format(1) }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ '{x.__class__}'.format_map({'x': 1}) }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ messages.pop() }}",
        "{% macro m() %}{% endmacro %}{{ m.__class__ }}",
        "{% macro m() %}{% endmacro %}{{ m._func }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{% filter upper %}x{% endfilter %}",
        "{{ x | pprint }}",
        "{{ range }}",
        "{{ (1).real }}",
        "{{ (1).to_bytes(99999999, 'big') }}",
        "{{ 'x'.encode() }}",
        "{{ 'x'.ljust(1000000000) }}",
        "{{ 'x' | center(1000000000) }}",
        "{% if %}",
        "{{ unknown.attribute }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content.index('zzz') }}",
        "{{ messages | tojson(indent=1000000000) }}",
    ],
)
def test_nothing_leaves_the_sandbox(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        text = ChatTemplate(source, where="file.gguf").render(CONVERSATION)
        assert text == "", f"rendered {text!r}"
    assert "file.gguf" in str(caught.value)


GROW = "{% set ns = namespace(x='0123456789') %}{% for i in range(100) %}"


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{% if a == b %}{% continue %}{% endif %}x{% endfor %}{% endfor %}",
        "{{ range(1000000000) | list }}",
        "{% for i in range(100000000) %}x{% endfor %}",
        GROW + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        GROW + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
        GROW + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        GROW + "{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x == 1 }}",
        GROW + "{% set ns.x = (ns.x, ns.x) %}{% endfor %}",
        GROW + "{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}",
        GROW + "{% set ns.x = ns.x.replace('0', '00') %}{% endfor %}",
        GROW + "{% set ns.x = ns.x | replace('0', '0' ~ ns.x) %}{% endfor %}",
        GROW + "{% set ns.x = ns.x.join([ns.x, ns.x, ns.x]) %}{% endfor %}",
        GROW + "{% set ns.x = [ns.x, ns.x] | join(ns.x) %}{% endfor %}",
        GROW + "{% set ns.x = ns.x | escape | e | string %}{% set ns.x = ns.x ~ '&' * 9 %}{% endfor %}",
        GROW + "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{% set a = 'x' * 1000000000 %}",
        "{{ [0] * 1000000000 }}",
        "{{ 10 ** 1000000 }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{% set ns = namespace(x=2) %}{% for i in range(100) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ 'a\nb' | indent(1000000000) }}",
        "{{ 'a\nb' | indent(width='x' ~ 'y') }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% set s = 'ab' ~ messages[0].content %}{% for i in range(9999) %}{{ s }}{% for j in range(999) %}{{ s }}{% endfor %}{% endfor %}",
        "{{ range(10000) | map('string') | map('replace', '', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' ~ messages) | list }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "-" * 20000 + "1 }}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
        "x" * 300_000,
    ],
)
def test_nothing_outlasts_the_budget(source: str) -> None:
    start = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError):
            ChatTemplate(source).render(CONVERSATION)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 << 20
    assert time.monotonic() - start < 20


def test_long_conversations_are_no_attack() -> None:
    messages = [{"role": "user" if index % 2 == 0 else "assistant", "content": "word " * 1000} for index in range(401)]
    assert len(ChatTemplate(MISTRAL).render(messages)) > 2_000_000


def test_a_template_that_failed_can_be_used_again() -> None:
    template = ChatTemplate("{% for i in range(n) %}{% for j in range(n) %}{% endfor %}{% endfor %}ok")
    with pytest.raises(TemplateError, match="budget"):
        template.render([], variables={"n": 9999})
    assert template.render([], variables={"n": 3}) == "ok"


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(TemplateError, match="not function"):
        ChatTemplate("{{ f() }}").render([], variables={"f": lambda: 1})
