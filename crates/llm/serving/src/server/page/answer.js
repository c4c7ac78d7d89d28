// What the chunks of a stream make of a message.

// Adds a chunk of the stream to a message.
export function take(message, chunk, times) {
  if (chunk.usage) message.tokens = chunk.usage.completion_tokens;
  const choice = chunk.choices[0];
  if (!choice) return;
  const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta;
  if (content || reasoning || calls) {
    // As good as exact: the usage at the end corrects it.
    message.tokens = (message.tokens ?? 0) + 1;
    times.first ??= performance.now();
    times.last = performance.now();
  }
  if (content) message.content += content;
  if (reasoning) message.reasoning = (message.reasoning ?? "") + reasoning;
  for (const call of calls ?? []) {
    const known = ((message.calls ??= [])[call.index ?? 0] ??= { id: call.id, name: "", arguments: "" });
    known.name += call.function?.name ?? "";
    known.arguments += call.function?.arguments ?? "";
  }
  if (choice.finish_reason) message.reason = choice.finish_reason;
}

const ENDS = { length: "cut by the limit of tokens, which Settings change", abort: "ended by the server" };

export function summary({ tokens, reason }, { begin, first, last }) {
  const parts = [];
  if (tokens) parts.push(tokens === 1 ? "1 token" : `${tokens} tokens`);
  if (tokens > 1 && last > first) parts.push(`${((1000 * (tokens - 1)) / (last - first)).toFixed(1)} tok/s`);
  if (first) parts.push(`first after ${((first - begin) / 1000).toFixed(2)} s`);
  if (ENDS[reason]) parts.push(ENDS[reason]);
  return parts.join(" · ");
}
