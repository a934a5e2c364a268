/**
 * Why a document, a value or a request to issue is malformed. Closed: nothing in the protocol throws another
 * code.
 *
 * - `too_large`: more than 131072 bytes
 * - `invalid_utf8`: not well-formed UTF-8, or text with a lone surrogate
 * - `invalid_json`: a syntax error, a byte-order mark or trailing content
 * - `too_deep`: nesting over 16
 * - `duplicate_key`, `unknown_field`, `missing_field`, `wrong_type`: the shape is not the object's
 * - `invalid_integer`: fraction, exponent, leading zero, or outside ±(2^53−1) or the field's own range
 * - `invalid_number`: not finite, or a whole number outside ±(2^53−1)
 * - `invalid_base64`: not canonical standard base64
 * - `wrong_length`: bytes of another length than the format fixes
 * - `limit_exceeded`: a count or a length over its limit; `empty_chain`: no certificate at all
 * - `unsupported_value`: a value JSON cannot carry
 * - `invalid_key`: key material that no key can be made from
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

/**
 * Says that something is malformed by the wire format, and where. Never carries key material or signatures in
 * its message.
 */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
  readonly code: ProtocolErrorCode;
  readonly detail: string;
  /** Names and positions that lead to the fault, joined by `.`; empty when it is not inside anything. */
  readonly path: string;

  constructor(code: ProtocolErrorCode, detail: string, path = "") {
    super(path === "" ? `${code}: ${detail}` : `${code}: ${path}: ${detail}`);
    this.code = code;
    this.detail = detail;
    this.path = path;
  }

  /** The same error seen from one level further out. */
  inside(name: string): ProtocolError {
    return new ProtocolError(this.code, this.detail, this.path === "" ? name : `${name}.${this.path}`);
  }
}
