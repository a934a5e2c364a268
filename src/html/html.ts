import module from "htm";

/** A part of a page. There is no other way to make one than the functions here. */
export class Html {
  readonly #markup: string;

  private constructor(markup: string) {
    this.#markup = markup;
  }

  /** What was put together by this file, and needs no escaping any more. */
  static of(key: typeof OWN, markup: string): Html {
    if (key !== OWN) throw new Error("Markup is made by html`…` only");
    return new Html(markup);
  }

  /** The part as it is sent. */
  toString(): string {
    return this.#markup;
  }
}

/** What can be put into a template: text and numbers are escaped, lists are joined, the rest is nothing. */
export type Piece = string | number | boolean | null | undefined | Html | readonly Piece[];

const OWN = Symbol("own markup");
/** Attributes that a browser follows at once, or sends something to: own paths only. */
const OWN_ADDRESS =
  /^(src|srcset|action|formaction|poster|data|background|manifest|hx-(get|post|put|patch|delete|push-url|replace-url)|xlink:href)$/i;
/** Attributes that lead somewhere once a person follows them. */
const LINK = /^(href|cite)$/i;
/** What runs or draws from an attribute. */
const REFUSED = /^(on.*|style|srcdoc|(data-)?hx-(on.*|vals|vars|headers|config))$/i;
/** Elements whose content a browser does not read as text and elements. */
const UNREAD = new Set(["script", "style", "noscript", "iframe", "template", "xmp", "plaintext", "noembed"]);
const VOID = new Set(["area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"]);
const ELEMENT = /^[a-zA-Z][a-zA-Z0-9-]*$/;
const ATTRIBUTE = /^[a-zA-Z][a-zA-Z0-9:.-]*$/;

type Attributes = Record<string, unknown>;
type Template = (strings: TemplateStringsArray, ...pieces: unknown[]) => Piece;
/** The package's types are those of its CommonJS form. */
const htm = module as unknown as { bind(make: typeof element): Template };
const template = htm.bind(element);

/**
 * HTML from a template. Whatever is put in is text or an attribute's value, never markup; every element is
 * closed (`<br />`). Text that begins or ends with a line break loses it, and the spaces around it.
 *
 * An address that would run something, or is none, is left out with its attribute: in `href` there are own
 * paths, `https`, `http` and `mailto`; where a browser sends or loads something, own paths only.
 */
export function html(strings: TemplateStringsArray, ...pieces: Piece[]): Html {
  return Html.of(OWN, render(template(strings, ...pieces)));
}

/** A whole document. */
export function renderDocument(document: Html): string {
  return `<!doctype html>\n${document}\n`;
}

/** A style sheet of this repository in a document whose policy names its hash. It is not escaped. */
export function inlineStyle(css: string): Html {
  if (/<[/!]/.test(css)) throw new Error("A style sheet cannot end its own element");
  return Html.of(OWN, `<style>${css}</style>`);
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

/** Whether an address leads to a path of this origin. */
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
  if (typeof type !== "string" || !ELEMENT.test(type)) throw new Error("An element has a fixed name");
  const content = children.map(render).join("");
  if (content !== "" && UNREAD.has(type.toLowerCase())) throw new Error(`<${type}> has no content here`);
  const given = Object.entries(attributes ?? {}).map(([name, value]) => attribute(name, value));
  const open = `<${type}${given.join("")}>`;
  return Html.of(OWN, VOID.has(type) ? open : `${open}${content}</${type}>`);
}

/** An attribute with the space before it; nothing for one that is not set. */
function attribute(name: string, value: unknown): string {
  if (REFUSED.test(name) || !ATTRIBUTE.test(name)) throw new Error(`${name} is not for pages`);
  if (typeof value === "object" && value !== null) throw new Error(`${name}: an attribute's value is text`);
  if (value === true) return ` ${name}`;
  if (value === undefined || value === null || value === false) return "";
  const text = String(value);
  return isKept(name, text) ? ` ${name}="${escapeHtml(text)}"` : "";
}

function isKept(name: string, value: string): boolean {
  if (OWN_ADDRESS.test(name)) return isOwnPath(value);
  return !LINK.test(name) || isOwnPath(value) || isOutside(value);
}

/** Whether an address leads elsewhere by a scheme that runs nothing. */
function isOutside(address: string): boolean {
  return /^(https?:\/\/[^/]|mailto:)/i.test(address) && !hasControl(address);
}

function hasControl(address: string): boolean {
  // A browser drops some of these, and reads what is left.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  return /[\u0000-\u0020\u007f]/.test(address);
}
