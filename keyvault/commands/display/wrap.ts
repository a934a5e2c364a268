/** Terminals are taken to be at least so wide. */
const NARROWEST = 80;

/** Columns of the terminal that `stream` is, or 80 when it is not a terminal. */
export function columnsOf(stream: NodeJS.WriteStream = process.stdout): number {
  return Math.max(stream.columns ?? NARROWEST, NARROWEST);
}

/**
 * Names and their texts, one under the other; a text that does not fit in `columns` goes on beneath itself,
 * between words. A word that is longer than a line of its own, as a code to be copied is, gets the next line
 * to itself, two columns in.
 */
export function foldLines(
  lines: readonly (readonly [name: string, text: string])[],
  nameWidth: number,
  columns: number,
): string {
  const indent = nameWidth + 1;
  return lines
    .map(([name, text]) => {
      const [head = "", ...rest] = foldWords(text, columns - indent);
      const under = (line: string): string =>
        line.length > columns - indent ? `  ${line}` : " ".repeat(indent) + line;
      if (name.length > nameWidth || head.length > columns - indent) {
        return [name, under(head), ...rest.map(under)].join("\n");
      }
      return [`${name.padEnd(nameWidth)} ${head}`.trimEnd(), ...rest.map(under)].join("\n");
    })
    .map((entry) => `${entry}\n`)
    .join("");
}

function foldWords(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) {
      lines.push(word);
    } else {
      lines[lines.length - 1] = `${last} ${word}`;
    }
  }
  return lines;
}
