/** The longest line that is read: an object in a cluster has 1.5 MiB at most. */
const MAX_LINE_LENGTH = 16 * 1024 * 1024;

/**
 * The lines of a stream, decoded. What follows the last line break is half a line and is left out. Throws
 * `SyntaxError`.
 */
export async function* jsonLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MAX_LINE_LENGTH) throw new SyntaxError("a line is too long");
    for (const line of lines) {
      if (line.trim() !== "") yield JSON.parse(line);
    }
  }
}
