/**
 * Reasons why a document, a value or a request to issue is malformed. The protocol implementation throws no
 * other codes.
 *
 * - `too_large`: more than 131072 bytes
 * - `invalid_utf8`: not well-formed UTF-8, or text with a lone surrogate
 * - `invalid_json`: a syntax error, a byte-order mark or trailing content
 * - `too_deep`: more than 16 levels of nesting
 * - `duplicate_key`, `unknown_field`, `missing_field`, `wrong_type`: the fields do not match the object's
 *   schema
 * - `invalid_integer`: a fraction, an exponent, a leading zero, or a number outside ±(2^53−1) or the field's
 *   range
 * - `invalid_number`: not finite, or a whole number outside ±(2^53−1)
 * - `invalid_base64`: not canonical standard base64
 * - `wrong_length`: not the number of bytes that the format requires
 * - `limit_exceeded`: more items or a longer string than the format allows
 * - `empty_chain`: a bundle without certificates
 * - `unsupported_value`: a value that JSON cannot represent
 * - `invalid_key`: bytes that are not a valid key
 * - `invalid_scope`, `invalid_constraint`, `unsatisfiable_constraints`, `invalid_validity`,
 *   `invalid_version`, `identifier_mismatch`: a certificate that must not be issued (wire format §6, §7)
 */
export const PROTOCOL_ERROR_CODES = [
  "too_large",
  "invalid_utf8",
  "invalid_json",
  "too_deep",
  "duplicate_key",
  "unknown_field",
  "missing_field",
  "wrong_type",
  "invalid_integer",
  "invalid_number",
  "invalid_base64",
  "wrong_length",
  "limit_exceeded",
  "empty_chain",
  "unsupported_value",
  "invalid_key",
  "invalid_scope",
  "invalid_constraint",
  "unsatisfiable_constraints",
  "invalid_validity",
  "invalid_version",
  "identifier_mismatch",
] as const;

/** One of {@link PROTOCOL_ERROR_CODES}. */
export type ProtocolErrorCode = (typeof PROTOCOL_ERROR_CODES)[number];

/** Reports which part of a value violates the wire format. The message never contains keys or signatures. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
  readonly code: ProtocolErrorCode;
  readonly detail: string;
  /** Path to the fault: member names and array positions, joined by `.`. May be empty. */
  readonly path: string;

  constructor(code: ProtocolErrorCode, detail: string, path = "") {
    super(path === "" ? `${code}: ${detail}` : `${code}: ${path}: ${detail}`);
    this.code = code;
    this.detail = detail;
    this.path = path;
  }

  /** Returns the same error with `name` in front of its path. */
  inside(name: string): ProtocolError {
    return new ProtocolError(this.code, this.detail, this.path === "" ? name : `${name}.${this.path}`);
  }
}
