"""Chat templates of every kind that matters, each cut down to what is special about it."""

from __future__ import annotations

BOS, EOS = "<s>", "</s>"

TEMPLATES = {
    # System prompt of its own, given when there is none.
    "default_system": """
        {%- if messages[0].role != 'system' %}{{- '<|im_start|>system\\nBe good.<|im_end|>\\n' }}{%- endif %}
        {%- for m in messages %}
            {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
        {%- endfor %}
        {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
    # Reasoning: stripped from all answers but the last, switched off by an option.
    "thinking": """
        {%- set ns = namespace(last=0) %}
        {%- for m in messages if m.role == 'user' %}{%- set ns.last = messages.index(m) %}{%- endfor %}
        {%- for m in messages %}
            {%- set text = m.content %}
            {%- if m.role == 'assistant' %}
                {%- set thought = '' %}
                {%- if '</think>' in text %}
                    {%- set thought = text.split('</think>')[0].split('<think>')[-1].strip() %}
                {%- endif %}
                {%- set text = text.split('</think>')[-1].lstrip('\\n') %}
                {%- if loop.index0 > ns.last %}
                    {%- set text = '<think>\\n' + thought + '\\n</think>\\n\\n' + text %}
                {%- endif %}
            {%- endif %}
            {{- '<|im_start|>' + m.role + '\\n' + text + '<|im_end|>\\n' }}
        {%- endfor %}
        {%- if add_generation_prompt %}
            {{- '<|im_start|>assistant\\n' }}
            {%- if enable_thinking is defined and enable_thinking is false %}
                {{- '<think>\\n\\n</think>\\n\\n' }}
            {%- endif %}
        {%- endif %}""",
    # Headers, BOS, and a system block with the date that is always there.
    "headers": """
        {{- bos_token }}
        {%- set system = '' %}
        {%- if messages[0].role == 'system' %}
            {%- set system = messages[0].content %}{%- set messages = messages[1:] %}
        {%- endif %}
        {{- '<|head|>system<|/head|>\\n\\nToday: ' + strftime_now('%d %b %Y') }}
        {{- '\\n\\n' + system + '<|eot|>' }}
        {%- for m in messages %}
            {{- '<|head|>' + m.role + '<|/head|>\\n\\n' + m.content + '<|eot|>' }}
        {%- endfor %}
        {%- if add_generation_prompt %}{{- '<|head|>assistant<|/head|>\\n\\n' }}{%- endif %}""",
    # Alternation enforced, no system, no generation prompt.
    "alternating": """
        {{- bos_token }}
        {%- for m in messages %}
            {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
                {{- raise_exception('must alternate') }}
            {%- endif %}
            {%- if m.role == 'user' %}{{- '[INST] ' + m.content + ' [/INST]' }}
            {%- else %}{{- ' ' + m.content + eos_token }}{%- endif %}
        {%- endfor %}""",
    # The same, with the system text inside the first user turn, and BOS before each user turn.
    "embedded_system": """
        {%- set start = '' %}
        {%- if messages[0].role == 'system' %}
            {%- set start = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' %}
            {%- set messages = messages[1:] %}
        {%- endif %}
        {%- for m in messages %}
            {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
                {{- raise_exception('must alternate') }}
            {%- endif %}
            {%- if m.role == 'user' %}
                {{- bos_token + '[INST] ' + (start if loop.first else '') + m.content + ' [/INST]' }}
            {%- else %}{{- ' ' + m.content.strip() + ' ' + eos_token }}{%- endif %}
        {%- endfor %}""",
    # System refused, assistant called model.
    "no_system": """
        {{- bos_token }}
        {%- if messages[0].role == 'system' %}{{- raise_exception('System role not supported') }}{%- endif %}
        {%- for m in messages %}
            {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
                {{- raise_exception('must alternate') }}
            {%- endif %}
            {%- set role = 'model' if m.role == 'assistant' else m.role %}
            {{- '<turn>' + role + '\\n' + m.content | trim + '<end>\\n' }}
        {%- endfor %}
        {%- if add_generation_prompt %}{{- '<turn>model\\n' }}{%- endif %}""",
    # EOS at the end of a conversation that is not to go on.
    "trailer": """
        {%- for m in messages %}{{- '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{%- endfor %}
        {%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- else %}{{- eos_token }}{%- endif %}""",
    # No closing of user turns, system text bare, reasoning stripped always.
    "bare": """
        {{- bos_token }}
        {%- for m in messages %}
            {%- if m.role == 'system' %}{{- m.content }}
            {%- elif m.role == 'user' %}{{- '<User>' + m.content }}
            {%- else %}{{- '<Assistant>' + m.content.split('</think>')[-1] + eos_token }}{%- endif %}
        {%- endfor %}
        {%- if add_generation_prompt %}{{- '<Assistant><think>\\n' }}{%- endif %}""",
    # Another token ends the last answer than ends the others.
    "other_last": """
        {%- for m in messages %}
            {{- '<|start|>' + m.role + '<|say|>' + m.content }}
            {%- set is_last = m.role == 'assistant' and loop.last and not add_generation_prompt %}
            {{- '<|return|>' if is_last else '<|end|>' }}
        {%- endfor %}
        {%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}""",
    # Contents as lists of parts; nothing else is rendered.
    "parts": """
        {%- for m in messages %}
            {{- '<' + m.role + '>' }}
            {%- for part in m.content %}{%- if part.type == 'text' %}{{- part.text }}{%- endif %}{%- endfor %}
            {{- '</' + m.role + '>\\n' }}
        {%- endfor %}
        {%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}""",
    # Tool results share one user turn; a template that wants its list of tools.
    "tools": """
        {%- for tool in tools %}{{- tool | tojson }}{%- endfor %}
        {%- for m in messages %}
            {%- if m.role == 'tool' %}
                {%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
                {{- '\\n<result>\\n' + m.content + '\\n</result>' }}
                {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
            {%- else %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endif %}
        {%- endfor %}
        {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
    # The generation prompt is ignored; loop controls and training marks are used.
    "ignores_prompt": """
        {%- for m in messages %}
            {%- if m.role == 'nobody' %}{%- continue %}{%- endif %}
            {%- generation %}{{- m.role.upper() + ': ' + m.content + '\\n' }}{%- endgeneration %}
        {%- endfor %}""",
}
NO_SYSTEM = {"alternating", "no_system"}
ALTERNATING = {"alternating", "embedded_system", "no_system"}
