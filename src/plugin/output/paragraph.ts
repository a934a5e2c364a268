const WIDEST = 100;

/** A text in lines of at most `width` columns, and of at most 100; words that are longer stay whole. */
export function wrapped(text: string, width: number): string {
  return linesOf(text, Math.min(width, WIDEST)).join("\n");
}

/** Labels in a column, and beside each its text, in lines of at most `width` columns. */
export function labelled(
  lines: readonly (readonly [label: string, text: string])[],
  width: number,
  indent = "",
): string {
  const room = Math.max(0, ...lines.map(([label]) => label.length)) + GAP.length;
  const left = indent.length + room;
  return lines
    .map(([label, text]) => {
      const own = linesOf(text, Math.max(width, NARROWEST) - left);
      return `${indent}${label.padEnd(room)}${own.join(`\n${" ".repeat(left)}`)}`.trimEnd();
    })
    .join("\n");
}

const GAP = "   ";
/** A terminal narrower than this breaks lines itself. */
const NARROWEST = 60;

function linesOf(text: string, room: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > room) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}
