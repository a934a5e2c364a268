/** Text that is safe in HTML, as text or as an attribute's value. */
export type Html = { readonly html: string };

type Piece = string | number | Html | readonly Piece[] | undefined;

/**
 * HTML from a template: what is put in is escaped, unless it is HTML itself; lists are joined, `undefined` is
 * nothing.
 */
export function html(strings: TemplateStringsArray, ...pieces: Piece[]): Html {
  const parts = strings.map((text, place) => `${place === 0 ? "" : render(pieces[place - 1])}${text}`);
  return { html: parts.join("") };
}

function render(piece: Piece): string {
  if (piece === undefined) return "";
  if (typeof piece === "string" || typeof piece === "number") return escapeHtml(String(piece));
  if ("html" in piece) return piece.html;
  return piece.map(render).join("");
}

/** Text with the characters that mean something in HTML replaced. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Text in which `code` is between backticks, and an empty line parts paragraphs. */
export function prose(text: string): Html {
  const paragraphs = text.split("\n\n").map((paragraph) => {
    const pieces = paragraph
      .split("`")
      .map((piece, place) => (place % 2 === 1 ? html`<code>${piece}</code>` : piece));
    return html`<p>${pieces}</p>`;
  });
  return html`${paragraphs}`;
}
