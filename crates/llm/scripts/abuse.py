"""Abuses a server for some time, and checks that other requests are answered and its memory stays bounded.

    python abuse.py HOST PORT SECONDS PID [now]

Bodies that are slow, huge, deep, cut or no JSON; grammars, tools and fields that cost much; clients that leave, read
slowly, send requests ahead, say nothing or come in hundreds; foreign hosts and origins; prompts that churn the cache.
PID is the server's, whose resident memory is printed every ten seconds. In the end the metrics are compared with one
another, and the server gets SIGTERM and has to end; with `now`, it gets SIGTERM in the middle of it all. Start it with
`--dtype f32`, so that an answer is the same in any batch.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time

HOST, PORT, SECONDS, PID = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
NOW = "now" in sys.argv[5:]
COUNTS, WRONG, TIMES, REFUSED = {}, [], [], 0
GOOD = {"prompt": "the man", "max_tokens": 20, "temperature": 0, "seed": 1}
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
PATHS = ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/detokenize", "/nothing"]
stopping = False


def head(path, length, more="", host="localhost"):
    return f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n".encode()


async def exchange(sent, wait=600.0):
    reader, writer = await asyncio.open_connection(HOST, PORT, limit=1 << 24)
    try:
        writer.write(sent)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), wait)
    finally:
        writer.close()
    if not answer:
        raise ConnectionError("no answer")
    status, rest = int(answer.split(b" ", 2)[1]), answer.split(b"\r\n\r\n", 1)[1]
    return status, rest


async def request(body, path="/v1/completions", more="", host="localhost", wait=600.0):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await exchange(head(path, len(body), "Connection: close\r\n" + more, host) + body, wait)


def expect(name, status, allowed, text=b""):
    global REFUSED
    if status in (429, 503) and (status == 429 or stopping):
        REFUSED += 1
    elif status not in allowed:
        WRONG.append(f"{name}: {status} {text[:200]}")


async def good():
    begin = time.monotonic()
    status, text = await request(GOOD)
    TIMES.append(time.monotonic() - begin)
    expect("good", status, [200], text)
    choice = json.loads(text)["choices"][0] if status == 200 else None
    if choice and choice["text"] != EXPECTED and not (stopping and choice["finish_reason"] == "abort"):
        WRONG.append(f"good: {text[:200]}")


async def good_stream():
    status, text = await request({**GOOD, "stream": True})
    expect("stream", status, [200], text)
    if status == 200:
        lines = [line[6:] for line in text.split(b"\n") if line.startswith(b"data: ")]
        choices = [choice for line in lines[:-1] for choice in json.loads(line).get("choices", [])]
        whole = "".join(choice["text"] for choice in choices)
        is_cut = stopping and choices and choices[-1]["finish_reason"] == "abort"
        if lines[-1] != b"[DONE]" or (whole != EXPECTED and not is_cut):
            WRONG.append(f"stream: {whole!r} {lines[-1][:200]}")


async def metrics():
    status, text = await exchange(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 30)
    expect("metrics", status, [200])
    await asyncio.sleep(1)


async def slow():
    reader, writer = await asyncio.open_connection(HOST, PORT)
    body = json.dumps(GOOD).encode()
    writer.write(head("/v1/completions", len(body)))
    for byte in body:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.05)
    await reader.read(1)
    writer.close()


async def stuck():
    _, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(random.choice([b"", b"POST /v1/comp", head("/v1/completions", 100), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"]))
    await asyncio.sleep(random.uniform(1, 5))
    writer.close()


async def reads_slowly():
    body = json.dumps({"prompt": "the", "max_tokens": 400, "ignore_eos": True, "stream": True, "n": 4, "logprobs": 5}).encode()
    reader, writer = await asyncio.open_connection(HOST, PORT, limit=1024)
    writer.write(head("/v1/completions", len(body)) + body)
    for _ in range(random.randint(1, 60)):
        if not await reader.read(64):
            break
        await asyncio.sleep(0.25)
    writer.close()


async def many():
    streams = await asyncio.gather(*(asyncio.open_connection(HOST, PORT) for _ in range(700)), return_exceptions=True)
    await asyncio.sleep(random.uniform(0, 2))
    for stream in streams:
        if not isinstance(stream, BaseException):
            stream[1].close()
    await asyncio.sleep(8)


async def ahead():
    body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
    sent = b"".join(head("/v1/completions", len(body), "" if i < 4 else "Connection: close\r\n") + body for i in range(5))
    reader, writer = await asyncio.open_connection(HOST, PORT, limit=1 << 20)
    writer.write(sent)
    # The five are answered one after the other.
    answer = await asyncio.wait_for(reader.read(), 5 * 600)
    writer.close()
    if answer.count(b"HTTP/1.1 ") != 5 and not stopping:
        WRONG.append(f"ahead: {answer.count(b'HTTP/1.1 ')} answers of 5")


async def huge():
    text = random.choice(["x", "the man ", "é\\n", "[", "\\ud83d\\ude00"]) * random.randint(10_000, 3_000_000)
    status, answer = await request(('{"prompt": "' + text[:15_000_000] + '"}').encode())
    expect("huge", status, [400, 413], answer)


async def long():
    words = " ".join(random.choice(["the", "a", "man", "é", "\n", "日本"]) for _ in range(random.choice([10, 100, 300])))
    status, answer = await request({"prompt": f"{'the ' * random.choice([0, 20, 40])}{words}"[:950], "max_tokens": 3, "logprobs": 2})
    expect("long", status, [200, 400], answer)


async def values():
    one = random.choice(["0,", "[0],", "{},", '{"":0},', "[" * 100 + "]" * 100 + ",", '"",'])
    text = (one * (random.randint(10_000, 12_000_000) // len(one))).encode() + b"0"
    body = random.choice([
        b'{"prompt":"x","max_tokens":1,"user":[' + text + b"]}",
        b'{"prompt":[' + text + b'],"max_tokens":1}',
        b'{"messages":[{"role":"user","content":"x","a":[' + text + b']}],"max_tokens":1}',
        b'{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"a":[' + text + b']},"max_tokens":1}',
        b'{"messages":[{"role":"user","content":"x"}],"tools":[' + text + b'],"max_tokens":1}',
        b'{"prompt":"x","n":128,"stop":[' + text + b'],"stop_token_ids":[' + text + b'],"max_tokens":1}',
    ])
    status, answer = await request(body, random.choice(PATHS[:4]))
    expect("values", status, [200, 400, 404, 413], answer)


async def leaves():
    body = json.dumps({"prompt": "the " * random.choice([1, 2_000_000]), "max_tokens": 900, "ignore_eos": True, "stream": True}).encode()
    reader, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(head("/v1/completions", len(body)) + body)
    try:
        await asyncio.wait_for(reader.read(random.randint(1, 2000)), random.uniform(0.01, 1))
    except (TimeoutError, asyncio.TimeoutError):
        pass
    writer.close()


def nested(depth):
    schema = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


GRAMMARS = [
    {"regex": "(a{1,1000}){1,1000}"}, {"regex": "(x+x+)+y"}, {"regex": "(" + "|".join(f"ab{i}c*" for i in range(20_000)) + ")"},
    {"regex": ".{0,100000}"}, {"regex": "(a|aa)*" * 200 + "b"}, {"regex": "(" * 5000 + ")" * 5000}, {"regex": "[a-z]{500}" * 100},
    {"grammar": "start: " + " | ".join(f'"a{i}"' for i in range(20_000))}, {"grammar": "start: start start | \"a\""},
    {"grammar": "".join(f"r{i}: r{i + 1} r{i + 1}\n" for i in range(60)) + "r60: \"a\"\nstart: r0"},
    {"grammar": "start: /a/*" + " x" * 3}, {"choice": [f"the {i}" for i in range(100_000)]}, {"choice": ["", "a" * 100_000]},
    {"json": nested(100)}, {"json": nested(400)}, {"json": {"$ref": "#"}}, {"json": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}},
    {"json": {"anyOf": [{"type": "object", "properties": {f"k{j}": {"type": "string", "pattern": f"^a{{{i}}}$"} for j in range(20)}} for i in range(50)]}},
    {"json": {"type": "string", "pattern": "^(a{1,100}){1,100}$", "minLength": 5000}}, {"json": {"type": "array", "minItems": 100_000_000}},
    {"json": {"type": "object", "properties": {f"k{i}": {"type": "string", "pattern": "^[a-z]{1,20}$"} for i in range(5000)}}},
    {"json": {"allOf": [{"properties": {f"p{i}": {"type": ["string", "null"]}}} for i in range(300)]}}, {"json": {"type": "integer", "multipleOf": 1e-300}},
    {"json": {"type": "number", "minimum": -1e308, "maximum": 1e308}}, {"json": {"enum": [i for i in range(50_000)]}}, {"json": True}, {"json": False},
]


async def grammar():
    body = {"prompt": "x", "n": random.choice([1, 1, 8, 128]), "max_tokens": random.choice([1, 30]), "structured_outputs": random.choice(GRAMMARS)}
    status, answer = await request(body)
    expect(f"grammar {str(body)[:150]}", status, [200, 400], answer)


async def fields():
    change = random.choice([
        {"stop": ["y" * 1000 + str(i) for i in range(16)]}, {"stop": ["x" * 1_000_000] * 16}, {"stop_token_ids": [1] * 1_000_000},
        {"bad_words": ["the " * 60_000] * 60}, {"bad_words": ["the", "a"] * 32}, {"allowed_token_ids": [65] * 1_000_000}, {"allowed_token_ids": [65, 66]},
        {"logprobs": 5}, {"logprobs": 5, "echo": True}, {"prompt_logprobs": 5}, {"logit_bias": {str(i): 1 for i in range(300)}},
        {"logit_bias": {"0" * i + "1": 1 for i in range(3000)}}, {"logit_bias": {"1": 1e39}}, {"n": 128, "max_tokens": 3}, {"prompt": ["x"] * 128},
        {"prompt": ["x"] * 500_000}, {"prompt": [[1]] * 500_000}, {"prompt": [1] * 500_000}, {"min_tokens": 30, "max_tokens": 30, "stop": "e"},
        {"temperature": 0.01, "top_k": 1, "top_p": 0.01, "repetition_penalty": 99.0, "presence_penalty": 2, "frequency_penalty": -2}, {"max_tokens": 2**32 - 1},
        {"seed": -(2**63)}, {"seed": 2**64}, {"n": 2**40}, {"suffix": "x"}, {"stream": True, "stream_options": {"include_usage": True}, "n": 16},
    ])
    status, answer = await request({"prompt": "the", "max_tokens": 4, **change})
    expect(f"fields {str(change)[:80]}", status, [200, 400, 413], answer)


async def tools():
    of = lambda i, parameters: {"type": "function", "function": {"name": f"f{i}", "description": "d", "parameters": parameters}}
    one = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}}}
    change = random.choice([
        {"tools": [of(i, one) for i in range(60_000)]}, {"tools": [of(i, one) for i in range(4)], "tool_choice": "required", "n": 64, "max_tokens": 30},
        {"tools": [of(1, nested(120))], "tool_choice": "required"}, {"tools": [of(1, {"$ref": "#"})], "tool_choice": "required"}, {"tools": [of("x" * 900_000, one)]},
        {"tools": [{"type": "function"}] * 100_000}, {"tools": [of(1, {"properties": {"a" * 100_000: {}}})]}, {"tools": [of(1, one)] * 8, "tool_choice": {"type": "function", "function": {"name": "f1"}}},
        {"messages": [*CHAT["messages"], {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}] * 3000}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 100_000}]}, {"messages": CHAT["messages"] * 50_000},
        {"chat_template_kwargs": {"enable_thinking": [[]], "messages": 1, "tools": {}, "loop": "x", "self": 1}}, {"continue_final_message": True}, {"n": 32, "logprobs": True, "top_logprobs": 5},
    ])
    status, answer = await request({**CHAT, **change}, "/v1/chat/completions")
    expect(f"tools {str(change)[:80]}", status, [200, 400, 413], answer)


async def foreign():
    host, more = random.choice([("evil.example", ""), ("localhost", "Origin: https://evil.example\r\n"), ("localhost.evil.example", ""), ("localhost", "Origin: null\r\n"),
                                ("", ""), ("localhost:x", "Origin: http://localhost\r\n")])
    status, answer = await request(GOOD, more=more, host=host)
    expect(f"foreign {host!r} {more!r}", status, [403], answer)


async def bad():
    body = random.choice([b"{", b"[]", b"\xff\xfe", b'{"prompt": 1e999}', b"[" * 100_000, b'{"a":' * 50_000, os.urandom(500), b"null", b"", b'{"prompt": "\xff\xfe\xc3"}',
                          b'{"prompt": "\\ud800"}', b'{"prompt":"x","prompt":"y","max_tokens":1}', b'{"prompt": "x"}' + os.urandom(9)])
    status, answer = await request(body, random.choice(PATHS))
    expect(f"bad {body[:80]}", status, [200, 400, 404], answer)


async def protocol():
    sent = random.choice([
        os.urandom(300), b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5000 + b"\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"\r\n" * 1000, b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", b"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /v1/models/" + b"%2e%2e/" * 20 + b"%00%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"])
    reader, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(sent)
    try:
        answer = await asyncio.wait_for(reader.read(100), 1)
        if answer.startswith(b"HTTP/1.1 5"):
            WRONG.append(f"protocol: {sent[:60]} {answer[:60]}")
    except (TimeoutError, asyncio.TimeoutError):
        pass
    writer.close()


async def repeat(kind, until):
    while time.monotonic() < until and not stopping:
        try:
            await kind()
        except Exception as error:
            if kind not in (slow, stuck, reads_slowly, many, leaves, protocol) and not (stopping and isinstance(error, OSError)):
                WRONG.append(f"{kind.__name__}: {type(error).__name__}: {error}")
            await asyncio.sleep(0.01)
        COUNTS[kind.__name__] = COUNTS.get(kind.__name__, 0) + 1


def resident():
    with open(f"/proc/{PID}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024


async def watch(until):
    most = 0
    while time.monotonic() < until:
        await asyncio.sleep(min(1, max(0.1, until - time.monotonic())))
        most = max(most, resident())
        if int(time.monotonic()) % 10 == 0:
            times = sorted(TIMES[-200:]) or [0]
            print(f"{resident()} MiB, at most {most}, good in {times[len(times) // 2]:.2f} s, at most {max(TIMES, default=0):.1f}; {len(WRONG)} wrong, {REFUSED} refused; {COUNTS}", flush=True)
    print(f"at most {most} MiB")


async def compare_metrics():
    for _ in range(100):
        _, text = await exchange(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        values = {}
        for line in text.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = name.split("{")[0]
                values[name] = values.get(name, 0) + float(value)
        if not values["vllm:num_requests_running"] and not values["vllm:num_requests_waiting"]:
            break
        await asyncio.sleep(0.2)
    v = lambda name: values["vllm:" + name]
    pairs = {"running": (v("num_requests_running"), 0), "waiting": (v("num_requests_waiting"), 0), "cache": (v("kv_cache_usage_perc"), 0),
             "ended": (v("request_success_total"), v("request_prompt_tokens_count")), "latency": (v("e2e_request_latency_seconds_count"), v("request_success_total")),
             "prompts": (v("prompt_tokens_total"), v("request_prompt_tokens_sum")), "tokens": (v("generation_tokens_total"), v("request_generation_tokens_sum"))}
    wrong = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    print(f"metrics: {int(v('request_success_total'))} answers, {int(v('generation_tokens_total'))} tokens; wrong: {wrong}")


def has_ended():
    return not os.path.exists(f"/proc/{PID}") or "Z" in open(f"/proc/{PID}/stat").read().split(")")[1].split()[0]


async def end():
    global stopping
    stopping = True
    begin = time.monotonic()
    os.kill(PID, signal.SIGTERM)
    while time.monotonic() < begin + 60:
        if has_ended():
            print(f"SIGTERM ended it after {time.monotonic() - begin:.1f} s")
            return
        await asyncio.sleep(0.05)
    print("SIGTERM did not end it")


async def main():
    global EXPECTED
    EXPECTED = json.loads((await request(GOOD))[1])["choices"][0]["text"]
    until = time.monotonic() + SECONDS
    kinds = [(good, 3), (good_stream, 2), (metrics, 1), (slow, 20), (stuck, 100), (reads_slowly, 10), (many, 1), (ahead, 2), (huge, 2), (long, 3), (values, 2), (leaves, 8),
             (grammar, 3), (fields, 2), (tools, 2), (foreign, 1), (bad, 3), (protocol, 3)]
    work = asyncio.gather(*(repeat(kind, until) for kind, number in kinds for _ in range(number)))
    if NOW:
        await asyncio.sleep(SECONDS)
        await end()
        work.cancel()
        await asyncio.wait([work])
        print(f"{len(WRONG)} wrong: {WRONG[:8]}")
        return
    await asyncio.gather(watch(until), work)
    begin = time.monotonic()
    await good()
    print(f"a good request after it: {time.monotonic() - begin:.2f} s; {len(WRONG)} wrong: {WRONG[:8]}")
    await compare_metrics()
    await end()


asyncio.run(main())
