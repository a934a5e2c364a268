import { isAscii } from "node:buffer";
import { ProtocolError } from "./errors.ts";
import { Decimal, type JsonMemo, type JsonObject, type JsonValue } from "./json_values.ts";

const SHORT_TEXT = 64;
const SHORTEST_REFERENCE = 13;
const LONGEST_NAME = 1024;
/** Minimum size in bytes of an object worth remembering. In a proof, only certificates are this large. */
const LONG_VALUE = 8192;
const CONTROL_CHARACTERS = Array.from({ length: 0x20 }, (_, code) => String.fromCharCode(code));
const NUMBER = /(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const OUTSIDE = "outside ±(2^53−1)";
const NOWHERE = Number.POSITIVE_INFINITY;

/** Position of an already parsed value. `at` is its offset in the text that the reader reads. */
export type KnownPlace = { at: number; value: JsonObject; depth: number };

/** Character that stands for an already parsed value in the text. No JSON value starts with it. */
export const PLACEHOLDER = Buffer.from("?");

/** The maximum nesting, the handling of whole numbers outside ±(2^53−1), and the cache of long objects. */
export type ReaderSettings = {
  maxDepth: number;
  largeNumbers: "refuse" | "mark";
  memo: JsonMemo | undefined;
};

/** Reads one document of well-formed UTF-8. */
export class JsonReader {
  readonly #bytes: Buffer;
  readonly #isAscii: boolean;
  readonly #text: string;
  readonly #maxDepth: number;
  readonly #largeNumbers: ReaderSettings["largeNumbers"];
  readonly #hasControlCharacters: boolean;
  readonly #memo: JsonMemo | undefined;
  readonly #known: readonly KnownPlace[];
  #taken = 0;
  #at = 0;
  #depth = 0;
  #nextEscape = -1;

  constructor(
    bytes: Buffer,
    { maxDepth, largeNumbers, memo }: ReaderSettings,
    known: readonly KnownPlace[] = [],
  ) {
    this.#bytes = bytes;
    this.#isAscii = isAscii(bytes);
    this.#text = bytes.toString(this.#isAscii ? "latin1" : "utf8");
    this.#maxDepth = maxDepth;
    this.#largeNumbers = largeNumbers;
    this.#memo = memo;
    this.#known = known;
    this.#hasControlCharacters = hasControlCharacter(this.#text);
  }

  readDocument(): JsonValue {
    this.#skipSpace();
    const value = this.#readValue();
    this.#skipSpace();
    if (this.#at < this.#text.length || this.#taken < this.#known.length) throw this.#unexpected();
    return value;
  }

  #readValue(): JsonValue {
    switch (this.#text[this.#at]) {
      case '"':
        return this.#readString();
      case "{":
        return this.#readObject();
      case "[":
        return this.#readArray();
      case "t":
        return this.#readWord("true", true);
      case "f":
        return this.#readWord("false", false);
      case "n":
        return this.#readWord("null", null);
      case "?":
        return this.#takeKnown();
      default:
        return this.#readNumber();
    }
  }

  #takeKnown(): JsonObject {
    const place = this.#known[this.#taken];
    if (place?.at !== this.#at) throw this.#unexpected();
    if (this.#depth + place.depth > this.#maxDepth) throw this.#tooDeep();
    this.#taken += 1;
    this.#at += PLACEHOLDER.length;
    return place.value;
  }

  #readObject(): JsonObject {
    const object: JsonObject = {};
    const [start, taken] = [this.#at, this.#taken];
    this.#open();
    if (this.#closes("}")) return object;
    do {
      this.#skipSpace();
      if (this.#text[this.#at] !== '"') throw this.#unexpected();
      const key = this.#readString();
      if (Object.hasOwn(object, key)) throw new ProtocolError("duplicate_key", `at offset ${this.#at}`);
      this.#skipSpace();
      if (!this.#accepts(":")) throw this.#unexpected();
      this.#skipSpace();
      addMember(object, key, this.#readValue());
      this.#skipSpace();
    } while (this.#accepts(","));
    if (!this.#closes("}")) throw this.#unexpected();
    // Caches only objects without a known value, because a known value is a placeholder in these bytes.
    const isWhole = this.#taken === taken;
    if (this.#isAscii && isWhole && this.#at - start >= LONG_VALUE) {
      this.#memo?.note(object, this.#bytes.subarray(start, this.#at));
    }
    return object;
  }

  #readArray(): JsonValue[] {
    const items: JsonValue[] = [];
    this.#open();
    if (this.#closes("]")) return items;
    do {
      this.#skipSpace();
      items.push(this.#readValue());
      this.#skipSpace();
    } while (this.#accepts(","));
    if (!this.#closes("]")) throw this.#unexpected();
    return items;
  }

  #readString(): string {
    const start = this.#at + 1;
    const end = this.#text.indexOf('"', start);
    if (end === -1) throw this.#unexpected();
    if (this.#nextEscape < start) {
      const found = this.#text.indexOf("\\", start);
      this.#nextEscape = found === -1 ? NOWHERE : found;
    }
    if (this.#nextEscape < end) return this.#readEscapedString();
    const content = this.#part(start, end);
    if (this.#hasControlCharacters && hasControlCharacter(content)) throw this.#unexpected();
    this.#at = end + 1;
    return content;
  }

  /** Copies short strings, which may be stored for long, because a slice retains the whole document. */
  #part(start: number, end: number): string {
    const part = this.#text.slice(start, end);
    if (part.length < SHORTEST_REFERENCE || part.length > LONGEST_NAME) return part;
    return this.#isAscii
      ? this.#bytes.toString("latin1", start, end)
      : Buffer.from(part, "utf8").toString("utf8");
  }

  #readEscapedString(): string {
    let end = this.#nextEscape;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === "\\" ? 2 : 1;
    const content = decodeLiteral(this.#text.slice(this.#at, end + 1));
    if (content === undefined) throw this.#unexpected();
    if (!content.isWellFormed()) throw new ProtocolError("invalid_utf8", "a lone surrogate");
    this.#at = end + 1;
    return content;
  }

  #readNumber(): number | bigint | Decimal {
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.#text);
    if (match === null) throw this.#unexpected();
    const [lexeme, whole] = match;
    this.#at = NUMBER.lastIndex;
    const value = Number(lexeme);
    const isWhole = Number.isInteger(value);
    if (whole === lexeme && whole !== "-0") {
      return Number.isSafeInteger(value) ? value : this.#large(value, "invalid_integer", OUTSIDE);
    }
    if (!Number.isFinite(value) || (isWhole && !Number.isSafeInteger(value))) {
      return this.#large(value, "invalid_number", `not finite, or a whole number ${OUTSIDE}`);
    }
    return new Decimal(value);
  }

  #large(value: number, code: "invalid_integer" | "invalid_number", fault: string): bigint {
    if (this.#largeNumbers !== "mark") throw new ProtocolError(code, fault);
    return BigInt(Number.isFinite(value) ? value : Math.sign(value) * Number.MAX_VALUE);
  }

  #readWord<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) throw this.#unexpected();
    this.#at += word.length;
    return value;
  }

  #open(): void {
    this.#at += 1;
    this.#depth += 1;
    if (this.#depth > this.#maxDepth) throw this.#tooDeep();
    this.#skipSpace();
  }

  #tooDeep(): ProtocolError {
    return new ProtocolError("too_deep", `more than ${this.#maxDepth} objects and arrays are open`);
  }

  #closes(bracket: string): boolean {
    if (!this.#accepts(bracket)) return false;
    this.#depth -= 1;
    return true;
  }

  #accepts(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #skipSpace(): void {
    while (isSpace(this.#text.charCodeAt(this.#at))) this.#at += 1;
  }

  #unexpected(): ProtocolError {
    return new ProtocolError("invalid_json", `unexpected content at offset ${this.#at}`);
  }
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}

/** Searches a long text for each of the 32 characters, which is several times faster than a loop or regex. */
function hasControlCharacter(content: string): boolean {
  if (content.length > SHORT_TEXT) return CONTROL_CHARACTERS.some((character) => content.includes(character));
  for (let index = 0; index < content.length; index += 1) {
    if (content.charCodeAt(index) < 0x20) return true;
  }
  return false;
}

function decodeLiteral(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string;
  } catch {
    return undefined;
  }
}

function addMember(object: JsonObject, key: string, value: JsonValue): void {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
  } else {
    object[key] = value;
  }
}
