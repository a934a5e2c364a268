import { ApiError } from "../../../errors.ts";
import type { Fields } from "../../core/forms/fields.ts";
import type { Texts } from "../../texts/texts.ts";
import { readingsOf, writtenNumber } from "./typed_number.ts";

/** Reads fields, and remembers what is wrong with them. */
export type FieldReader = {
  /** A text that must be there. */
  text(name: string): string;
  optional(name: string): string;
  /**
   * A number, with a point or a comma before its fraction. What can be read in two ways, neither above
   * `most`, is at fault.
   */
  number(name: string, most?: number): number;
  whole(name: string): number;
  /** Notes what is wrong with a field. */
  fault(name: string, message: string): void;
  /** Throws `invalid_request` when something is wrong, as the API names its fields. */
  check(): void;
};

/** A reader of what a form carried. */
export function readerOf({ request }: Texts, fields: Fields): FieldReader {
  const faults = new Map<string, string>();
  const fault = (name: string, message: string) => {
    if (!faults.has(name)) faults.set(name, message);
  };
  const optional = (name: string) => fields.get(name).trim();
  const text = (name: string) => {
    if (optional(name) === "") fault(name, request.missing);
    return optional(name);
  };
  const number = (name: string, most?: number) => {
    const [one = Number.NaN, other] = readingsOf(text(name), most);
    if (Number.isNaN(one)) fault(name, request.notANumber);
    if (other !== undefined) fault(name, request.twoReadings(writtenNumber(one), writtenNumber(other)));
    if (Math.abs(one) > Number.MAX_SAFE_INTEGER) fault(name, request.tooLarge);
    return one;
  };
  return {
    text,
    optional,
    number,
    whole(name) {
      if (!/^\d+$/.test(text(name))) fault(name, request.notWhole);
      if (Number(text(name)) > Number.MAX_SAFE_INTEGER) fault(name, request.tooLarge);
      return Number(text(name));
    },
    fault,
    check() {
      if (faults.size === 0) return;
      const said = [...faults].map(([name, message]) => `body.${name}: ${message}`);
      throw new ApiError("invalid_request", said.join("; "));
    },
  };
}
