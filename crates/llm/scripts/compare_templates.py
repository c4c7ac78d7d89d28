"""Writes conversations, and what transformers makes of them with each of a folder's chat templates.

    python compare_templates.py TEMPLATES CASES.jsonl [PER_TEMPLATE]
    python compare_templates.py --table > ../serving/tests/it/jinja.json
    WARPWRIGHT_TEMPLATES=CASES.jsonl cargo test -p warpwright-llm-serving --test it -- --ignored published_templates

TEMPLATES has files *.jinja. Needs `pip install jinja2`; the environment is made as `apply_chat_template` of
transformers makes it. Each line of CASES has the template, the variables and either the text or null, if the template
refuses the conversation.
"""

import json
import random
import sys
from datetime import datetime, timezone
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

WORDS = ["Hello", "grüße", "日本語", "a<b>&'\"", "x\ny", "  padded ", "", "🦀", "{{ no }}", "</think>", "Let's go.", "1\\2", "\t", "é\u0301",
         "<think>\nhm\n</think>\n\nok", "[TOOL_CALLS]", "\u2028", "<|im_end|>", "<tool_call>"]


class Generation(Extension):
    """`{% generation %}` of transformers, without its marks."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _body(self, context, caller):
        return caller()


def environment():
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = datetime.now(timezone.utc).strftime
    return env


def text(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 3)))


def content(rng, role, is_wild):
    kind = rng.random()
    if not is_wild or kind < 0.8:
        return text(rng)
    if kind < 0.93:
        return [{"type": "text", "text": text(rng)} for _ in range(rng.randint(1, 2))]
    return None if role == "assistant" else text(rng)


def schema(rng, depth=0):
    kind = rng.choice(["string", "integer", "number", "boolean", "array", "object"] if depth < 2 else ["string", "integer"])
    node = {"type": kind}
    if rng.random() < 0.6:
        node["description"] = text(rng)
    if kind == "string" and rng.random() < 0.3:
        node["enum"] = ["a", "b'c", "d"]
    if rng.random() < 0.2:
        node["default"] = rng.choice([None, 1, 1.5, True, "x", [1, 2], 1e22, 1e-7])
    if rng.random() < 0.1:
        node["nullable"] = True
    if rng.random() < 0.1:
        node["type"] = [kind, "null"]
    if kind == "array":
        node["items"] = schema(rng, depth + 1)
    if kind == "object":
        node["properties"] = {name: schema(rng, depth + 1) for name in rng.sample(["a", "b", "type", "items", "ü"], rng.randint(0, 3))}
        if node["properties"] and rng.random() < 0.7:
            node["required"] = list(node["properties"])[:1]
    return node


def tool(rng, number):
    parameters = {"type": "object", "properties": {name: schema(rng) for name in rng.sample(["city", "days", "unit", "x"], rng.randint(0, 3))}}
    if rng.random() < 0.7:
        parameters["required"] = list(parameters["properties"])[:1]
    function = {"name": f"function_{number}", "description": text(rng), "parameters": parameters}
    if rng.random() < 0.15:
        function["return"] = {"type": "string", "description": "out"}
    if rng.random() < 0.1:
        function["strict"] = True
    return {"type": "function", "function": function}


def arguments(rng):
    return {name: rng.choice([1, -2, 1.5, 1e16, True, None, "Ulm", "a\n\"b\"", [1, "x"], {"k": "ü"}, ""]) for name in rng.sample(["city", "days", "x"], rng.randint(0, 3))}


def conversation(rng):
    messages = []
    is_wild = rng.random() < 0.35
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system", "system", "developer"]) if is_wild else "system", "content": content(rng, "system", is_wild)})
    calls = 0
    turns = rng.randint(1, 4)
    has_calls = rng.random() < 0.5
    for turn in range(turns):
        messages.append({"role": "user", "content": content(rng, "user", is_wild)})
        if has_calls and rng.random() < 0.6:
            made = [{"id": f"call{calls + i:05}"[:9], "type": "function", "function": {"name": f"function_{i}", "arguments": arguments(rng)}}
                    for i in range(rng.choice([1, 1, 1, 2]))]
            calls += len(made)
            message = {"role": "assistant", "content": rng.choice(["", None, text(rng)] if is_wild else ["", text(rng)]), "tool_calls": made}
            if rng.random() < 0.3:
                message["reasoning_content"] = text(rng)
            messages.append(message)
            for call in made:
                messages.append({"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"],
                                 "content": rng.choice([text(rng), "{\"t\": 12}"] + [[{"type": "text", "text": "12"}]] * is_wild)})
        if turn > 0 and rng.random() < 0.1:
            break
        if turn + 1 < turns if not is_wild else rng.random() < 0.75:
            message = {"role": "assistant", "content": content(rng, "assistant", is_wild)}
            if rng.random() < 0.25:
                message[rng.choice(["reasoning_content", "reasoning", "thinking"])] = text(rng)
            messages.append(message)
    if is_wild and rng.random() < 0.1:
        messages = messages[1:] or messages
    variables = {}
    for name, values in [("enable_thinking", [True, False]), ("thinking", [True, False]), ("reasoning_effort", ["low", "high"]),
                         ("date_string", ["1 Jan 2026"]), ("tools_in_user_message", [True, False]), ("keep_past_thinking", [True])]:
        if rng.random() < 0.2:
            variables[name] = rng.choice(values)
    tools = [tool(rng, i) for i in range(rng.choice([1, 1, 2, 3]))] if rng.random() < 0.5 else None
    return {"messages": messages, "tools": tools, "add_generation_prompt": rng.random() < 0.7, "bos_token": "<s>", "eos_token": "</s>",
            "documents": None, **variables}


VALUES = ["none", "true", "0", "7", "-3", "2.5", "1e16", "-0.0", "''", "'Ab c'", "' x\\n y '", "'grüße <b>&'", "'1,2,3'", "'-42'", "'0x1F'",
          "'3.7'", "'tool_x-y'", "[]", "[3, 1, 2]", "['b', 'A', 'c']", "[[1, 2], [3]]", "(1, 'x')", "{}", "{'b': 1, 'a': [none, 'x']}",
          "[{'n': 'a', 'v': 2}, {'n': 'B', 'v': 1}]", "missing", "range(3)|list", "d.items()", "d.keys()", "'a'|safe", "ns"]
FILTERS = ["abs", "attr('n')", "batch(2)|list", "batch(2, 'f')|list", "capitalize", "center(9)", "count", "default('z')", "default('z', true)",
           "dictsort", "dictsort(by='value')", "escape", "first", "float", "float(1.5)", "format(1)", "groupby('v')|list|length", "indent",
           "indent(2, true)", "indent('> ', first=true, blank=true)", "int", "int(5)", "int(base=16)", "items|list", "join", "join('-')",
           "join(',', attribute='n')", "last", "length", "list", "lower", "map('upper')|list", "map(attribute='n')|list",
           "map(attribute='n', default='?')|join", "max", "min", "max(attribute='v')", "reject('none')|list", "rejectattr('n')|list",
           "replace('a', 'X')", "replace('', '.')", "replace('a', 'b', 1)", "reverse", "reverse|list", "round", "round(1)", "round(1, 'ceil')",
           "safe", "select|list", "select('string')|list", "selectattr('n', 'equalto', 'a')|list", "slice(2)|list", "sort", "sort(reverse=true)",
           "sort(attribute='v')", "string", "striptags", "sum", "sum(attribute='v')", "title", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)",
           "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "tojson(ensure_ascii=true, indent=1, separators=('; ', ' = '), sort_keys=true)",
           "trim", "trim('x ')", "unique|list", "upper", "wordcount", "selectattr('n')|list|length"]
METHODS = ["upper()", "title()", "capitalize()", "swapcase()", "strip()", "strip(' x')", "lstrip('A')", "rstrip('c')", "split()", "split(',')", "split(',', 1)",
           "split(none, 1)", "rsplit(' ', 1)", "rsplit(none, 1)", "splitlines()", "splitlines(true)", "replace('a', 'b')", "replace('a', 'b', 1)",
           "startswith('A')", "startswith(('x', 'A'))", "endswith('c')", "find('b')", "rfind('b')", "index('b')", "count('b')", "zfill(8)", "center(9, '*')",
           "ljust(6)|tojson", "rjust(6, '.')", "partition(',')", "rpartition(' ')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()",
           "islower()", "istitle()", "isidentifier()", "removeprefix('A')", "removesuffix('c')", "expandtabs(4)", "join(['a', 'b'])", "format(1, x=2)",
           "casefold()", "get('a')", "get('q', 5)", "items()|list", "keys()|list", "values()|list", "copy()", "index(1)", "append(1)", "pop()", "update({})",
           "isnumeric()", "isdecimal()", "lower().upper()", "q", "n", "a", "items", "partition('')", "split('')"]
TESTS = ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "sequence", "iterable", "callable",
         "odd", "even", "divisibleby 3", "divisibleby(0)", "lower", "upper", "eq 7", "ne 7", "gt 1", "in [7, 'Ab c']", "sameas none", "escaped", "not none", "equalto('Ab c')",
         "filter", "test", "lt 'B'"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FORMATS = ["'%s' % x", "'%d' % x", "'%5.2f|' % x", "'%-6s|' % x", "'%06d' % x", "'%+d' % x", "'%x' % x", "'%#x' % x", "'%e' % x", "'%g' % x", "'%r' % x",
           "'%c' % x", "'%%' % x", "'%s %s' % (x, 1)", "'%(k)s' % {'k': x}", "'%.3s' % x", "'%i%%' % x", "'{}'.format(x)", "'{:>8}|'.format(x)",
           "'{:^8}|'.format(x)", "'{:08.3f}'.format(x)", "'{0}{0}'.format(x)", "'{:,}'.format(x)", "'{:x}'.format(x)", "'{!r}'.format(x)", "'{x[0]}'.format(x=x)",
           "'{{}}{}'.format(x)", "'{:.2%}'.format(x)", "'{:e}'.format(x)", "'{:g}'.format(x)", "'{:d}'.format(x)", "'%*d' % (5, x)", "'%s' % x|e", "'%s'|safe % x"]
SLICES = ["[0]", "[-1]", "[9]", "['a']", "[1:]", "[:-1]", "[::-1]", "[::2]", "[-2:]", "[5:1:-1]", "[none]", "['upper']()", "[1:none]", "['n']", "[:2][0]", "[0][0]"]
STATEMENTS = [
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.previtem }}{{ loop.cycle('x', 'y') }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ x }}/{{ loop.length }}{% else %}none{% endfor %}", "{% for x in [] %}{% else %}none{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for k, v in d %}{{ k }}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for n in [1, [2, [3]]] recursive %}{% if n is iterable %}({{ loop(n) }}{{ loop.depth }}){% else %}{{ n }}{% endif %}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "{% if true %}{% set x = 5 %}{% endif %}{{ x }}",
    "{% set n = namespace(a=1, b=[]) %}{% for i in [1, 2] %}{% set n.a = n.a + i %}{% set n.b = n.b + [i] %}{% endfor %}{{ n.a }}{{ n.b }}{{ n.c }}",
    "{% macro m(a, b='x', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3, 4, k=5) }}{{ m(b=3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m() %}[{{ caller(3) }}]{% endmacro %}{% call(v) m() %}b{{ v }}{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% set t %}a{{ 1 }}  {% endset %}[{{ t }}]{{ t is string }}",
    "{% set t | upper | trim %} ab {% endset %}[{{ t }}]", "{% filter upper %}ab{{ 'c' }}{% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% generation %}{% set q = 1 %}x{% endgeneration %}{{ q }}", "  {% generation %}\n x\n  {% endgeneration %}\n y",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "a\n  {%- if true %}\n  b\n  {%- endif -%}\n  c", "  {% if true %}\n  x\n  {% endif %}\n  y\n", "  {%+ if true %}\nx{%+ endif +%}\ny\n\n", "{{ 1 -}}\n\n  a {{- 2 }}",
    "{# c #}\n a {#- c -#} \n b", "  {# c #}\nx", "{% raw %}{{ x }}{% endraw %}", " {%- raw -%} {{ x }} {%- endraw -%} y", "{% raw %}\n a {% endraw %}\n b", "x\r\ny\rz\n\n", "{{ 'a' 'b' }}", "{{ 'a\\n\\x41\\u00e9\\q' }}",
    "{{ 1 if false }}|{{ 2 if true else 3 }}|{{ (1 if false) is undefined }}", "{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}", "{{ not true or true }}", "{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}{{ 7 // -2 }}{{ -7 % 3 }}{{ 7 / 2 }}{{ 6 / 2 }}",
    "{{ -7 | abs }}{{ 'a' ~ 1 ~ none ~ true }}", "{{ [1, 2][0] }}{{ (1,) }}{{ () }}{{ 1, 2 }}", "{{ {'a': 1}.a }}{{ {'items': 1}.items }}{{ {'items': 1}['items'] }}", "{{ 1_000 }}{{ 0x1f }}{{ 1e3 }}{{ 1.5e-7 }}",
    "{{ x.y }}", "{{ none.y }}", "{{ none.y.z }}", "{{ missing.y }}", "{{ missing[0] }}", "{{ missing() }}", "{{ missing + 1 }}", "{{ missing ~ 'a' }}", "{{ d.missing }}", "{{ d.missing.deeper }}", "{{ 'x'.missing }}",
    "{{ dict(a=1, b=2) }}{{ dict([('a', 1)]) }}{{ dict({'a': 1}, b=3) }}", "{{ range(2, 9, 3) | list }}{{ range(5, 0, -2) | list }}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}",
    "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{{ loop }}", "{% set x = 'a' + 1 %}", "{% if missing %}x{% elif none %}y{% else %}z{% endif %}",
    "{{ 'abc' is in 'xabcx' }}", "{{ 1 in {'a': 1} }}{{ 'a' in {'a': 1} }}{{ 1 in 'a' }}", "{{ '%s-%s' | format('a', 2) }}", "{{ '<a>' | e }}{{ '<a>' | e + '<b>' }}{{ ('<a>' | e) ~ '<b>' }}{{ '<b>' + ('<a>' | e) }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}", "{{ messages[0]['role'] }}{{ messages[-1].content }}{{ messages[5] }}", "{{ messages | length }}{{ messages | first }}",
    "{{ 'a b/ü' | urlencode }}", "{{ [1, 2] | map('string') | list }}{{ [1, 2] | map('string') | length }}", "{% if [] | map('upper') %}x{% endif %}",
    "{% set g = [1, 2] | select %}{{ g | list }}{{ g | list }}", "{{ ([1, 2] | map('string'))[0] }}", "{{ [2, 1] | map('string') | sort }}{{ [1] | reverse | first }}", "{% print 1 %}", "{{ raise_exception('x') }}", "{% do x %}", "{{ 1 | nofilter }}", "{{ 1 is notest }}", "{% if %}", "{{ }}", "{{ 1", "{% for %}", "{{ (1, 2 }}", "{{ [1 }}", "{% endif %}", "{% if 1 %}", "{{ 'a }}", "{{ a b }}",
    "{{ f(a=1, 2) }}", "{{ true is true }}{{ 1 is true }}{{ True and None }}", "{{ 'a' is string and 'b' is defined or x }}", "{{ x is defined and x }}", "{{ not x is defined }}", "{{ d is mapping and d is iterable and d is not string }}",
    "{{ loop.index }}", "{% for i in [1] %}{{ loop.nextitem is defined }}{{ loop.changed(i) }}{{ loop.depth0 }}{% endfor %}", "{{ [1, 2, 3] | join(', ') | upper }}", "{{ (1 + 2) * 3 - 4 / 2 }}", "{{ 10 | string + 'x' }}", "{{ ['a'] * 2 + ['b'] }}",
]


def expressions(env):
    """Each filter, method, test, operator and format with each value."""
    bodies = [f"{{{{ {value}|{f} }}}}" for value in VALUES for f in FILTERS]
    bodies += [f"{{{{ ({value}).{m} }}}}" for value in VALUES for m in METHODS]
    bodies += [f"{{{{ ({value}) is {t} }}}}" for value in VALUES for t in TESTS]
    bodies += [f"{{{{ ({a}) {o} ({b}) }}}}" for a in VALUES for o in BINARY for b in VALUES[:26:2] if o != "-" or not a.startswith("d.")]
    bodies += [f"{{% set x = {value} %}}{{{{ {f} }}}}" for value in VALUES for f in FORMATS]
    bodies += [f"{{% set x = {value} %}}{{{{ x{s} }}}}" for value in VALUES for s in SLICES]
    prelude = "{% set d = {'a': 1, 'b': 'x'} %}{% set ns = namespace(n=1) %}"
    for body in bodies + STATEMENTS:
        source = body if body in STATEMENTS else prelude + body
        variables = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}], "tools": None,
                     "add_generation_prompt": False, "bos_token": "<s>", "eos_token": "</s>", "documents": None, "d": {"a": 1, "b": [1]}}
        case = {"name": body, "source": source, "variables": variables, "text": None}
        try:
            case["text"] = env.from_string(source).render(**variables)
        except Exception as error:
            case["reason"] = f"{type(error).__name__}: {error}"
        # Addresses differ each time.
        if " at 0x" not in (case["text"] or ""):
            yield case


def table(env):
    """A part of the expressions for a test that needs no Python."""
    cases = [case for i, case in enumerate(expressions(env)) if i % 29 == 0 or case["name"] in STATEMENTS]
    rows = [{"source": case["source"], "text": case["text"]} for case in cases if "random" not in case["source"]]
    print("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]")


def main():
    if sys.argv[1] == "--table":
        return table(environment())
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    number = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    env = environment()
    refused = 0
    with out.open("w") as lines:
        for case in expressions(env):
            lines.write(json.dumps(case) + "\n")
        for path in sorted(folder.rglob("*.jinja")):
            source = path.read_text()
            name = str(path.relative_to(folder))
            try:
                template = env.from_string(source)
            except Exception as error:
                print(f"{name}: {error}")
                lines.write(json.dumps({"name": name, "source": source, "variables": None, "text": None}) + "\n")
                continue
            for seed in range(number):
                variables = conversation(random.Random(f"{name} {seed}"))
                try:
                    result = template.render(**variables)
                    if " object at 0x" in result:
                        continue
                except Exception as error:
                    result, refused = None, refused + 1
                    reason = f"{type(error).__name__}: {error}"
                case = {"name": name, "source": source if seed == 0 else None, "variables": variables, "text": result}
                if result is None:
                    case["reason"] = reason
                lines.write(json.dumps(case) + "\n")
    print(f"{refused} refused")


if __name__ == "__main__":
    main()
