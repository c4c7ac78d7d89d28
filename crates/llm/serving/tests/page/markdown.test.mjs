// The renderer of the page: node --test tests/page

import assert from "node:assert/strict";
import test from "node:test";
import "./document.mjs";

const { Markdown } = await import("../../src/server/page/markdown.js");

function rendered(...pieces) {
  const root = document.createElement("div");
  const markdown = new Markdown(root);
  pieces.forEach(piece => markdown.append(piece));
  return root.childNodes.map(section => section.inner).join("");
}

const code = (language, text) =>
  `<figure className="code"><figcaption><span>${language}</span><button className="copy-code">Copy</button></figcaption>` +
  `<pre><code>${text}</code></pre></figure>`;

const CASES = [
  ["", ""],
  ["a\nb\n\nc", "<p>a<br>b</p><p>c</p>"],
  ["# One #\n###### Six\n#none", "<h2>One</h2><h6>Six</h6><p>#none</p>"],
  ["*a* **b _c_** ~~d~~ `e*f`", "<p><em>a</em> <strong>b <em>c</em></strong> <del>d</del> <code>e*f</code></p>"],
  ["snake_case_word 2 * 3 * 4 **open *", "<p>snake_case_word 2 * 3 * 4 **open *</p>"],
  ["\\*a\\* `` a`b ``", "<p>*a* <code>a`b</code></p>"],
  ["- a\n  - b\n- [x] c\n\n1. d\n2. e", "<ul><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>☑ c</p></li></ul><ol start=\"1\"><li><p>d</p></li><li><p>e</p></li></ol>"],
  ["3) a\n   still a\n\n   - b", "<ol start=\"3\"><li><p>a<br>still a</p><ul><li><p>b</p></li></ul></li></ol>"],
  ["> a\n> > b\n\n---", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><hr>"],
  ["```js\na < b\n```\nc", `${code("js", "a &lt; b")}<p>c</p>`],
  ["~~~\n```\nunclosed", code("", "```\nunclosed")],
  ["|a|b|\n|-|:-:|\n|1 \\| 2|`x|y`|\n\nz", "<div className=\"table\"><table><thead><tr><th>a</th><th className=\"center\">b</th></tr></thead><tbody><tr><td>1 | 2</td><td className=\"center\"><code>x|y</code></td></tr></tbody></table></div><p>z</p>"],
  ["[a *b*](https://c.d/(e)) <https://f.g> https://h.i/j.", "<p><a href=\"https://c.d/(e)\">a <em>b</em></a> <a href=\"https://f.g\">https://f.g</a> <a href=\"https://h.i/j\">https://h.i/j</a>.</p>"],
  ["***a*** and **b *c*** and *d **e***", "<p><strong><em>a</em></strong> and <strong>b <em>c</em></strong> and <em>d <strong>e</strong></em></p>"],
  ["a\\\nb ![c](https://d.e) f! [g](https://h.i)", "<p>a<br>b <a href=\"https://d.e\">c</a> f! <a href=\"https://h.i\">g</a></p>"],
  // Formulas are shown as they are written, prices are no formulas.
  ["\\(a_1*b*c\\) $x*y*z$ $$p\n*q*$$ $5 and *b* $6, $ 7$8", "<p><span className=\"formula\">\\(a_1*b*c\\)</span> <span className=\"formula\">$x*y*z$</span> <span className=\"formula\">$$p\n*q*$$</span> $5 and <em>b</em> $6, $ 7$8</p>"],
  ["\\(a *b* \\[ c $$ d", "<p>(a <em>b</em> [ c $$ d</p>"],
  ["&lt;b&gt; &#60;i&#x3e; &amp;lt; &bogus; &#0; &#xd800; AT&T `&lt;`", "<p>&lt;b&gt; &lt;i&gt; &amp;lt; &amp;bogus; &amp;#0; &amp;#xd800; AT&amp;T <code>&amp;lt;</code></p>"],
  // Nothing but http and https becomes a link, and no tag becomes an element.
  ["[a](javascript:x) [b](data:text/html,c) ![d](file:///e) [f](//g.h)", "<p>[a](javascript:x) [b](data:text/html,c) ![d](file:///e) [f](//g.h)</p>"],
  ["<script>x</script><b onclick=y>", "<p>&lt;script&gt;x&lt;/script&gt;&lt;b onclick=y&gt;</p>"],
  ["``` <img src=x onerror=y>\nz", code("&lt;img src=x onerror=y&gt;", "z")],
];

test("texts become the nodes that they mean", () => {
  for (const [text, html] of CASES) assert.equal(rendered(text), html, text);
});

test("a text that arrives in pieces is rendered as at once", () => {
  const whole = CASES.map(([text]) => text).filter(text => !text.includes("unclosed") && !text.includes("onerror")).join("\n\n");
  for (const size of [1, 2, 3, 7, 50]) {
    const pieces = whole.match(new RegExp(`[^]{1,${size}}`, "g"));
    assert.equal(rendered(...pieces), rendered(whole), `pieces of ${size}`);
  }
});

test("a long program is whole, however it arrives", () => {
  const lines = Array.from({ length: 1000 }, (_, i) => (i % 7 ? `  line ${i}` : "")).join("\n");
  const text = html => html.replace(/^.*<pre>/, "").replace(/<.*?>/g, "");
  const shown = text(rendered(`\`\`\`\n${lines}\n\`\`\``));
  assert.equal(shown, lines);
  assert.equal(text(rendered(...`\`\`\`\n${lines}\n\`\`\``.match(/[^]{1,37}/g))), lines);
});

test("no text takes long or nests deeply", () => {
  const texts = ["> ".repeat(5000), "*_".repeat(9000), "[".repeat(19000), "`a``".repeat(4000), "[a](https://b".repeat(1500), "|a".repeat(9000) + "\n" + "|-".repeat(9000),
    Array.from({ length: 500 }, (_, i) => `${"  ".repeat(i)}- x`).join("\n"), "a\n".repeat(20000), "# ".repeat(9000), `- ${" ".repeat(50000)}x`, "<".repeat(19000), "\\\\(".repeat(6000), "$a".repeat(9000), "$$".repeat(9000), "&#".repeat(9000), "***a".repeat(4500)];
  for (const text of texts) {
    const begin = performance.now();
    const html = rendered(text);
    const took = performance.now() - begin;
    assert.ok(took < 2000, `${text.slice(0, 20)}: ${took} ms`);
    assert.ok((html.match(/<(ul|blockquote|em|strong)/g) ?? []).length < 1200, text.slice(0, 20));
  }
});
