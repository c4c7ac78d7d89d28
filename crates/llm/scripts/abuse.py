"""Abuses a server for some time, and checks that other requests are answered and its memory stays bounded.

    python abuse.py HOST PORT SECONDS PID

Slow and huge bodies, bad JSON, clients that leave, wrong methods, connections that say nothing. PID is the server's,
whose resident memory is printed every ten seconds; in the end it gets SIGTERM, and has to end.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time

HOST, PORT, SECONDS, PID = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
COUNTS, WRONG = {}, []
GOOD = {"prompt": "the man", "max_tokens": 20, "temperature": 0, "seed": 1}


def head(path, length, more=""):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n".encode()


async def request(body, path="/v1/completions", wait=60.0):
    reader, writer = await asyncio.open_connection(HOST, PORT)
    try:
        writer.write(head(path, len(body), "Connection: close\r\n") + body)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), wait)
    finally:
        writer.close()
    status, rest = int(answer.split(b" ", 2)[1]), answer.split(b"\r\n\r\n", 1)[1]
    return status, rest


async def good():
    status, text = await request(json.dumps(GOOD).encode())
    if status != 200 or json.loads(text)["choices"][0]["text"] != EXPECTED:
        WRONG.append(f"{status} {text[:200]}")


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
    writer.write(random.choice([b"", b"POST /v1/comp", head("/v1/completions", 100)]))
    await asyncio.sleep(random.uniform(1, 5))
    writer.close()


async def huge():
    text = random.choice(["x", "the man ", "é\\n", "[", "\\ud83d\\ude00"]) * random.randint(10_000, 3_000_000)
    body = ('{"prompt": "' + text[:15_000_000] + '"}').encode()
    status, answer = await request(body)
    if status not in (400, 413):
        WRONG.append(f"huge: {status} {answer[:200]}")


async def leaves():
    body = json.dumps({"prompt": "the " * random.choice([1, 2_000_000]), "max_tokens": 900, "ignore_eos": True, "stream": True}).encode()
    reader, writer = await asyncio.open_connection(HOST, PORT)
    writer.write(head("/v1/completions", len(body)) + body)
    try:
        await asyncio.wait_for(reader.read(random.randint(1, 2000)), random.uniform(0.01, 1))
    except (TimeoutError, asyncio.TimeoutError):
        pass
    writer.close()


async def bad():
    body = random.choice([b"{", b"[]", b"\xff\xfe", b'{"prompt": 1e999}', b"[" * 100_000, b'{"a":' * 50_000, os.urandom(500), b"null",
                          b'{"prompt": "x", "structured_outputs": {"regex": "(a{1,1000}){1,1000}"}}',
                          b'{"prompt": "x", "structured_outputs": {"regex": "(x+x+)+y"}, "max_tokens": 50}',
                          b'{"prompt": "x", "n": 128, "max_tokens": 1}', b'{"prompt": "x", "logit_bias": {"1": 1e39}}',
                          json.dumps({"prompt": "x", "max_tokens": 3, "structured_outputs": {"choice": [f"the {i}" for i in range(100_000)]}}).encode()])
    status, _ = await request(body, random.choice(["/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/nothing"]))
    if status >= 500 and status != 503:
        WRONG.append(f"bad: {status} {body[:80]}")


async def repeat(kind, until):
    while time.monotonic() < until:
        try:
            await kind()
        except (ConnectionError, asyncio.IncompleteReadError):
            if kind is good:
                WRONG.append("the connection of a good request was closed")
        except Exception as error:
            if kind in (good, bad, huge):
                WRONG.append(f"{kind.__name__}: {type(error).__name__}: {error}")
        COUNTS[kind.__name__] = COUNTS.get(kind.__name__, 0) + 1


def resident():
    with open(f"/proc/{PID}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024


async def watch(until):
    most = 0
    while time.monotonic() < until:
        await asyncio.sleep(min(10, max(0.1, until - time.monotonic())))
        most = max(most, resident())
        print(f"{resident()} MiB, {COUNTS}", flush=True)
    print(f"at most {most} MiB")


async def main():
    global EXPECTED
    EXPECTED = json.loads((await request(json.dumps(GOOD).encode()))[1])["choices"][0]["text"]
    until = time.monotonic() + SECONDS
    kinds = [(good, 4), (slow, 20), (stuck, 100), (huge, 3), (leaves, 8), (bad, 4)]
    await asyncio.gather(watch(until), *(repeat(kind, until) for kind, number in kinds for _ in range(number)))
    begin = time.monotonic()
    await good()
    print(f"a good request after it: {time.monotonic() - begin:.2f} s; {len(WRONG)} wrong: {WRONG[:8]}")
    os.kill(PID, signal.SIGTERM)
    for _ in range(400):
        if not os.path.exists(f"/proc/{PID}") or "Z" in open(f"/proc/{PID}/stat").read().split(")")[1].split()[0]:
            print(f"SIGTERM ended it after {time.monotonic() - begin:.1f} s")
            return
        await asyncio.sleep(0.1)
    print("SIGTERM did not end it")


asyncio.run(main())
