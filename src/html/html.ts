import module from "htm";

/** A fragment of HTML. Only the functions in this file can create one. */
export class Html {
  readonly #markup: string;

  private constructor(markup: string) {
    this.#markup = markup;
  }

  /** Only for markup that this file composed and that needs no further escaping. */
  static of(key: typeof OWN, markup: string): Html {
    if (key !== OWN) throw new Error("Create markup only with html`…`");
    return new Html(markup);
  }

  toString(): string {
    return this.#markup;
  }
}

/**
 * A value in a template. Strings and numbers are escaped, `Html` is inserted unchanged, and lists are joined.
 * Booleans, null and undefined become an empty string.
 */
export type Piece = string | number | boolean | null | undefined | Html | readonly Piece[];

const OWN = Symbol("own markup");
/** URLs that the browser loads immediately or sends data to. Only paths of this origin are allowed. */
const OWN_ADDRESS =
  /^(src|srcset|action|formaction|poster|data|background|manifest|hx-(get|post|put|patch|delete|push-url|replace-url)|xlink:href)$/i;
/** URLs that the browser opens only on a click. */
const LINK = /^(href|cite)$/i;
/** Forbidden attributes: they run scripts, or contain styles or documents. */
const REFUSED = /^(on.*|style|srcdoc|(data-)?hx-(on.*|vals|vars|headers|config))$/i;
/** Elements whose content a browser does not parse as normal HTML. */
const UNREAD = new Set(["script", "style", "noscript", "iframe", "template", "xmp", "plaintext", "noembed"]);
const VOID = new Set(["area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"]);
const ELEMENT = /^[a-zA-Z][a-zA-Z0-9-]*$/;
const ATTRIBUTE = /^[a-zA-Z][a-zA-Z0-9:.-]*$/;

type Attributes = Record<string, unknown>;
type Template = (strings: TemplateStringsArray, ...pieces: unknown[]) => Piece;
/** The `htm` package's types describe only its CommonJS form. */
const htm = module as unknown as { bind(make: typeof element): Template };
const template = htm.bind(element);

/**
 * Creates HTML from a template. A value is always inserted as text or as an attribute value, never as markup.
 * Every element must be closed (`<br />`). Line breaks at the start or end of text are removed, with the
 * spaces around them.
 *
 * An attribute with an unsafe or invalid URL is omitted. `href` may be a path of this origin, `https`, `http`
 * or `mailto`. URLs that the browser loads or sends data to may only be paths of this origin.
 */
export function html(strings: TemplateStringsArray, ...pieces: Piece[]): Html {
  return Html.of(OWN, render(template(strings, ...pieces)));
}

/** Returns a whole document with its doctype. */
export function renderDocument(document: Html): string {
  return `<!doctype html>\n${document}\n`;
}

/**
 * Returns a `<style>` element with a style sheet of this repository, unescaped. The document's content
 * security policy must contain the style sheet's hash.
 */
export function inlineStyle(css: string): Html {
  if (/<[/!]/.test(css)) throw new Error("A style sheet must not contain </ or <!");
  return Html.of(OWN, `<style>${css}</style>`);
}

/** Converts plain text to paragraphs, at empty lines. Text in backticks becomes a `<code>` element. */
export function prose(text: string): Html {
  const paragraphs = text.split("\n\n").map((paragraph) => {
    const pieces = paragraph
      .split("`")
      .map((piece, place) => (place % 2 === 1 ? html`<code>${piece}</code>` : piece));
    return html`<p>${pieces}</p>`;
  });
  return html`${paragraphs}`;
}

/** Returns whether a URL is a path of this origin. */
export function isOwnPath(address: string): boolean {
  return /^(#|\?|\/(?![/\\])|\.\.?\/|[\w-]+(\.[\w-]+)*([/?#]|$))/.test(address) && !hasControl(address);
}

function render(piece: Piece): string {
  if (typeof piece === "string" || typeof piece === "number") return escapeHtml(String(piece));
  if (piece instanceof Html) return piece.toString();
  return Array.isArray(piece) ? piece.map(render).join("") : "";
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

function element(type: unknown, attributes: Attributes | null, ...children: Piece[]): Html {
  if (typeof type !== "string" || !ELEMENT.test(type)) {
    throw new Error("The name of an element must be part of the template");
  }
  const content = children.map(render).join("");
  if (content !== "" && UNREAD.has(type.toLowerCase())) {
    throw new Error(`<${type}> must be empty in a template`);
  }
  const given = Object.entries(attributes ?? {}).map(([name, value]) => attribute(name, value));
  const open = `<${type}${given.join("")}>`;
  return Html.of(OWN, VOID.has(type) ? open : `${open}${content}</${type}>`);
}

/** The result starts with a space, or is empty if the attribute is not set. */
function attribute(name: string, value: unknown): string {
  if (REFUSED.test(name) || !ATTRIBUTE.test(name)) {
    throw new Error(`the attribute ${name} is not allowed in pages`);
  }
  if (typeof value === "object" && value !== null) {
    throw new Error(`${name}: the value of an attribute must be text`);
  }
  if (value === true) return ` ${name}`;
  if (value === undefined || value === null || value === false) return "";
  const text = String(value);
  return isKept(name, text) ? ` ${name}="${escapeHtml(text)}"` : "";
}

function isKept(name: string, value: string): boolean {
  if (OWN_ADDRESS.test(name)) return isOwnPath(value);
  return !LINK.test(name) || isOwnPath(value) || isOutside(value);
}

function isOutside(address: string): boolean {
  return /^(https?:\/\/[^/]|mailto:)/i.test(address) && !hasControl(address);
}

function hasControl(address: string): boolean {
  // Finds characters that a URL must not contain. A browser removes some of them and uses the rest.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  return /[\u0000-\u0020\u007f]/.test(address);
}
