/**
 * A number that was written with a fraction, with an exponent or as `-0`. Only fields that are floats by
 * definition accept it, never integer fields.
 */
export class Decimal {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/**
 * A value in a strictly parsed document. A plain `number` was written as a plain integer inside ±(2^53−1).
 */
export type JsonValue = null | boolean | string | number | Decimal | JsonValue[] | JsonObject;

/** An object in a strictly parsed document. It has own members only. */
export type JsonObject = {
  [key: string]: JsonValue;
};

/** A value between two byte offsets of a document. The same bytes were parsed before. */
export type PlacedValue = {
  start: number;
  end: number;
  value: JsonObject;
  /** Levels of nested objects and arrays in the value, itself included. */
  depth: number;
};

/** A memory of long values that occur repeatedly. The values it returns must never be changed. */
export type JsonMemo = {
  /** Returns the remembered values that occur in a document, in order. */
  find(document: Buffer): readonly PlacedValue[];
  /** Notes a long object that was just parsed, and the bytes of the document that it was parsed from. */
  note(value: JsonObject, part: Buffer): void;
};
