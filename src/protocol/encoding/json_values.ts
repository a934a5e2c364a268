/** A number written with a fraction, with an exponent or as `-0`. Only float fields accept it. */
export class Decimal {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/**
 * A value from a strictly parsed document. A `number` was written as a plain integer inside ±(2^53−1). A
 * `bigint` marks a whole number outside that range, which may be rounded. It may be ignored, but not used.
 */
export type JsonValue = null | boolean | string | number | bigint | Decimal | JsonValue[] | JsonObject;

/** An object from a strictly parsed document. Every member is an own property. */
export type JsonObject = {
  [key: string]: JsonValue;
};

/** An already parsed value and the two byte offsets between which a document contains the same bytes. */
export type PlacedValue = {
  start: number;
  end: number;
  value: JsonObject;
  /** Levels of nested objects and arrays, counting the value itself. */
  depth: number;
};

/** Cache of long values that occur repeatedly. Callers must never change the values that it returns. */
export type JsonMemo = {
  /** Returns the cached values that occur in a document, in order. */
  find(document: Buffer): readonly PlacedValue[];
  /** Tells the cache about a long object that was just parsed from the bytes `part`. */
  note(value: JsonObject, part: Buffer): void;
};
