"""A server of the page whose model answers as the message says: for trying the page in a browser.

    python3 mock.py 8200 [KEY]      then http://localhost:8200
"""

import json
import pathlib
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVER = pathlib.Path(__file__).parent.parent.parent / "src" / "server"
POLICY = re.sub(r"\\\n\s*", "", re.search(r'POLICY: &str = "(.*?)";', (SERVER / "page.rs").read_text(), re.S)[1])
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
KEY = sys.argv[2] if len(sys.argv) > 2 else None

MARKDOWN = """# A heading

Some *emphasis*, **strong _and both_**, ~~gone~~, `code`, a [link](https://example.org/a_(b)) and https://example.org/x.

1. one
   - inner
   - [x] done
2. two

   ```python
   def f(x):
       return x < 1 and "<b>"
   ```

> quoted
> > twice

| left | right |
|:-----|------:|
| a \\| b | `1|2` |
| ümlaut | **2** |

---

Last line with snake_case_words and 2 * 3 * 4.
"""

HOSTILE = """<script>window.hacked = 1</script> <img src=x onerror="window.hacked = 2">

[a](javascript:window.hacked=3) [b](data:text/html,<script>1</script>) [c]( JaVaScRiPt:alert(1)) ![i](https://tracker.example/p.png)
<https://example.org"onmouseover="window.hacked=4>  <a href="javascript:window.hacked=5">x</a>

\u202eevil\u202c عربي שלום mixed English text

""" + "> " * 3000 + "deep\n\n" + "".join("  " * i + "- x\n" for i in range(200)) + "\n" + "*_" * 5000 + "\n\n" \
    + "[" * 20000 + "\n\n" + "`" * 9999 + "\n\n" + "|a" * 3000 + "|\n" + "|-" * 3000 + "|\n" + "|b" * 3000 + "|\n\n```js\nunclosed <script>window.hacked = 6</script>\n"

ANSWERS = {
    "markdown": lambda: re.findall(r"\S*\s*", MARKDOWN),
    "hostile": lambda: [HOSTILE[i:i + 197] for i in range(0, len(HOSTILE), 197)],
    "lines": lambda: ["".join(f"line {i} with *some* words\n\n" for i in range(j, j + 100)) for j in range(0, 100_000, 100)],
    "program": lambda: ["```c\n"] + ["".join(f"int x{i} = {i};\n" for i in range(j, j + 100)) for j in range(0, 100_000, 100)],
    "table": lambda: ["|a|b|c|\n|-|-|-|\n"] + ["".join(f"|{i}|*x*|y|\n" for i in range(j, j + 100)) for j in range(0, 20_000, 100)],
    "list": lambda: ["".join(f"{i + 1}. item {i}\n" for i in range(j, j + 100)) for j in range(0, 20_000, 100)],
    "endless": lambda: (f"word{i} " for i in range(10**6)),
    "one line": lambda: ["word " * 1000] * 500,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/v1/models":
            if KEY and self.headers.get("authorization") != f"Bearer {KEY}":
                return self.refuse(401, "The API key is missing or wrong: send `Authorization: Bearer KEY`.")
            model = {"id": "mock-7b", "max_model_len": 4096, "chat_defaults": {"temperature": 0.7, "top_p": 0.9, "max_tokens": 1024}}
            return self.reply(200, "application/json", json.dumps({"data": [model]}).encode())
        name = "index.html" if self.path == "/" else self.path.removeprefix("/page/")
        path = SERVER / "page" / name
        if "/" in name or not path.is_file():
            return self.refuse(404, "no such file")
        self.reply(200, KINDS[path.suffix] + "; charset=utf-8", path.read_bytes())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked = body["messages"][-1]["content"]
        if KEY and self.headers.get("authorization") != f"Bearer {KEY}":
            return self.refuse(401, "The API key is missing or wrong: send `Authorization: Bearer KEY`.")
        if asked.startswith("too long"):
            return self.refuse(400, "The prompt has 5000 tokens and the answer needs room for at least one, but the context is 4096 tokens: shorten the prompt.")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.stream(asked, body)
        except (BrokenPipeError, ConnectionResetError):
            print("client left", flush=True)

    def stream(self, asked, body):
        pieces = ANSWERS.get(asked, lambda: [f"You said: {asked} ({len(body['messages'])} messages, seed {body.get('seed')})"])()
        pause = 0.1 if asked == "slow" else 0.002 if asked == "markdown" else 0
        if asked == "slow":
            pieces = [f"word{i} " for i in range(100)]
        if asked == "think":
            for i in range(20):
                self.chunk({"reasoning_content": f"thought {i}\n"})
        if asked == "tool":
            self.chunk({"tool_calls": [{"index": 0, "id": "call-1", "function": {"name": "weather", "arguments": '{"city":'}}]})
            self.chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "<b>Paris</b>"}'}}]})
            pieces = []
        number = 0
        for number, piece in enumerate(pieces):
            if asked == "drop" and number == 0:
                self.chunk({"content": "half of it"})
                return
            self.chunk({"content": piece})
            time.sleep(pause)
        self.chunk({}, "length" if asked == "cut" else "stop")
        self.data({"choices": [], "usage": {"completion_tokens": number + 1}})
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, delta, reason=None):
        self.data({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def data(self, value):
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def refuse(self, status, message):
        self.reply(status, "application/json", json.dumps({"error": {"message": message}}).encode())

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-security-policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
