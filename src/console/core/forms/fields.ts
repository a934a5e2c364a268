import { ApiError } from "../../../errors.ts";

/** What a form carried. */
export type Fields = {
  /** A field's value; empty when it is not there. */
  get(name: string): string;
  /** Every value of a field: of the boxes that were ticked, for instance. */
  all(name: string): string[];
  /** All pairs in the order they were sent. */
  pairs(): [string, string][];
};

const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(;\s*charset="?utf-8"?\s*)?$/i;

/** Fields of pairs. */
export function fieldsOf(pairs: Iterable<[string, string]>): Fields {
  const held = new URLSearchParams([...pairs]);
  return {
    get: (name) => held.get(name) ?? "",
    all: (name) => held.getAll(name),
    pairs: () => [...held],
  };
}

/** The fields of a form's body. Throws `invalid_request` for a body that no form of a page sends. */
export function readFields(contentType: string | undefined, body: Buffer): Fields {
  if (!FORM_TYPE.test(contentType ?? "")) {
    throw new ApiError("invalid_request", "content-type: must be application/x-www-form-urlencoded");
  }
  const text = body.toString("utf8");
  if (text.includes("%00") || text.includes("\0")) {
    throw new ApiError("invalid_request", "body: must not contain U+0000");
  }
  return fieldsOf(new URLSearchParams(text));
}

/** Messages of an `invalid_request` by the field that each names, with the name it has in the body. */
export function faultsByField(message: string): Map<string, string> {
  const faults = [...message.matchAll(/(?:^|; )body\.([\w.[\]]+): (.+?)(?=; body\.|$)/g)];
  return new Map(faults.map(([, field = "", fault = ""]) => [field, fault]));
}
