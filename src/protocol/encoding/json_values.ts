/**
 * A number written with a fraction, an exponent or as `-0`: fit for fields that are floats by definition,
 * never for integers.
 */
export class Decimal {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/**
 * What a strictly parsed document consists of. A plain `number` was written as a plain integer inside
 * ±(2^53−1).
 */
export type JsonValue = null | boolean | string | number | Decimal | JsonValue[] | JsonObject;

/** An object of a strictly parsed document, with own members only. */
export type JsonObject = {
  [key: string]: JsonValue;
};

/** A value that stands in a document between two offsets, and was read from the same bytes before. */
export type PlacedValue = {
  start: number;
  end: number;
  value: JsonObject;
  /** How many objects and arrays it opens at a time, itself included. */
  depth: number;
};

/** Long values that come again and again. What it gives must not be changed by anybody. */
export type JsonMemo = {
  /** Those that stand in a document, in their order. */
  find(document: Buffer): readonly PlacedValue[];
  /** Takes note of a long object that was read, and of its part of the document. */
  note(value: JsonObject, part: Buffer): void;
};
