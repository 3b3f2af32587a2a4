"""Chat templates in the manners that real ones have, and a tokenizer with their special tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SPECIAL = (
    *("<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>", "<|start|>", "<|stop|>", "<|user|>"),
    *("<|assistant|>", "<|tool|>"),
)
STOP = ("</s>", "<|im_end|>", "<|stop|>")
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content "
    "+ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# Thinking of earlier turns is dropped, that of the last is written even if there is none; tools,
# tool calls, and results that are joined in one turn.
THINKING = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'Tools:' }}
    {%- for tool in tools %}{{- '\\n' + tool | tojson }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.last < 0 and message.role == 'user' %}{%- set ns.last = index %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set content = message.content %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last %}
            {{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in message.tool_calls or [] %}
            {{- '<call>' + call.function.name + ' ' }}
            {{- call.function.arguments | tojson + '</call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<result>\\n' + message.content + '\\n</result>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}
"""
# The prompt ends the user's turn, there is no header; the system text is moved; contents trimmed.
INSTRUCTION = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}"
    "{% set system = messages[0].content + '\\n\\n' %}{% else %}{% set rest = messages %}"
    "{% set system = '' %}{% endif %}{% for message in rest %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if loop.first %}{% set content = system + message.content %}{% else %}"
    "{% set content = message.content %}{% endif %}"
    "{% if message.role == 'user' %}{{ '[INST] ' + content | trim + ' [/INST]' }}"
    "{% else %}{{ ' ' + content | trim + eos_token }}{% endif %}{% endfor %}"
)
# A header, but no generation prompt at all.
NO_PROMPT = (
    "{% for m in messages %}{{ '### ' + m['role'] | capitalize + ':\\n' + m['content'] }}"
    "{{ '\\n\\n' }}{% endfor %}"
)
# EOS after the loop; numbers instead of messages in the loop.
AFTER_LOOP = (
    "{% for i in range(messages | length) %}{% set m = messages[i] %}"
    "{{ '<|' + m.role + '|>\\n' + m.content + '<|stop|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"
)
# A turn is ended when the next one starts.
NEXT_ENDS = (
    "{{ bos_token }}{% for m in messages %}{% if not loop.first %}{{ '<|stop|>' }}{% endif %}"
    "{{ '<|start|>' + m.role + '\\n' + m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|stop|><|start|>assistant\\n' }}{% endif %}"
)
MACRO = (
    "{% macro turn(m) %}{% if m.role == 'assistant' %}{{ '<|assistant|>' }}{% else %}"
    "{{ '<|user|>' }}{% endif %}{% set text %}{{ m.content | trim }}{% endset %}{{ text }}"
    "{{ eos_token }}{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
TAGGED = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|assistant|>' }}"
    "{% generation %}{{ m.content + eos_token }}{% endgeneration %}{% else %}"
    "{{ '<|user|>' + m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
PARTS = (
    "{% for m in messages %}{{ m.role | upper + ': ' }}{% for part in m.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}{{ '<image>' }}{% endif %}{% endfor %}"
    "{{ '<|stop|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT: ' }}{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "thinking": THINKING,
    "instruction": INSTRUCTION,
    "no_prompt": NO_PROMPT,
    "after_loop": AFTER_LOOP,
    "next_ends": NEXT_ENDS,
    "macro": MACRO,
    "tagged": TAGGED,
    "parts": PARTS,
}

# Templates that are written twice, with {% generation %} for the brackets and without.
TWINS = {
    "chatml": """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.role == 'assistant' %}⟦{{- m.content + '<|im_end|>\\n' }}⟧{%- else %}
{{- m.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
    "thinking": """\
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}{{- '<|start|>assistant\\n' }}⟦
{%- if loop.index0 > ns.last %}{{- '<think>' + (m.reasoning_content or '') + '</think>' }}
{%- endif %}{{- m.content.split('</think>')[-1] }}
{%- for call in m.tool_calls or [] %}{{- '<call>' + call | tojson + '</call>' }}{%- endfor %}
{{- '<|stop|>' }}⟧
{%- else %}{{- '<|start|>' + m.role + '\\n' + m.content + '<|stop|>' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant\\n' }}{%- endif %}""",
    "merged": """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}{%- set system, rest = messages[0].content, messages[1:] %}
{%- else %}{%- set system, rest = '', messages %}{%- endif %}
{%- for m in rest %}
{%- if m.role == 'user' %}
{{- '<|user|>' + (system + '\\n' if loop.first and system else '') + m.content | trim }}
{%- elif m.role == 'assistant' %}{{- '<|assistant|>' }}⟦{{- m.content | trim + eos_token }}⟧
{%- else %}{{- '<|tool|>' + m.content }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}""",
    "grouped": """\
{%- for m in messages %}
{%- if m.role == 'tool' %}
{%- if not loop.previtem or loop.previtem.role != 'tool' %}{{- '<|user|>' }}{%- endif %}
{{- '<r>' + m.content + '</r>' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|stop|>' }}{%- endif %}
{%- elif m.role == 'assistant' %}{{- '<|assistant|>' }}⟦{{- m.content }}
{%- for call in m.tool_calls or [] %}{{- call.function.name }}
{%- for k, v in call.function.arguments.items() %}{{- ' ' + k + '=' + v | tojson }}{%- endfor %}
{%- endfor %}{{- '<|stop|>' }}⟧
{%- else %}{{- '<|' + m.role + '|>' + m.content + '<|stop|>' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}""",
}
OPEN, CLOSE = "{%- generation %}", "{%- endgeneration %}"


def twins(name: str) -> tuple[str, str]:
    """Return a template without tags and with them."""
    source = TWINS[name]
    tagged = source.replace("⟦", OPEN).replace("⟧", CLOSE)
    return source.replace("⟦", "").replace("⟧", ""), tagged


def write_chat_tokenizer(folder: Path, template: str | None = CHATML, **more: Any) -> Path:
    """Write a byte-level tokenizer with a chat template beside it; return the folder."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = ["user assistant system hello the what is it a thing", "the thing is what it is hello"]
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(words * 20, trainer)
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in SPECIAL])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {**VARIABLES, **({"chat_template": template} if template else {}), **more}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    stops = [tokenizer.token_to_id(token) for token in STOP]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": stops}))
    return folder


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}
