import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import type { ProtocolErrorCode } from "../../src/protocol/encoding/errors.ts";
import { prove } from "./make_verify.ts";

type Edit = (text: string) => string | Uint8Array;

const member =
  (name: string, value: string): Edit =>
  (text) =>
    text.replace(new RegExp(`"${name}":("[^"]*"|\\d+)`), `"${name}":${value}`);
const added =
  (piece: string): Edit =>
  (text) =>
    text.replace("{", `{${piece},`);
const constraint =
  (piece: string): Edit =>
  (text) =>
    text.replace('"constraints":[]', `"constraints":[${piece}]`);
const scopes =
  (list: string[]): Edit =>
  (text) =>
    text.replace('"scope":["meeting:attend"]', `"scope":${JSON.stringify(list)}`);
const bytes = Buffer.alloc(32, 1).toString("base64");

const EDITS: [string, ProtocolErrorCode, string, Edit][] = [
  ["own_byte_order_mark", "invalid_json", "a byte-order mark in front", (text) => `\ufeff${text}`],
  [
    "own_trailing_comma",
    "invalid_json",
    "a comma before the last bracket",
    (text) => `${text.slice(0, -1)},}`,
  ],
  ["own_cut", "invalid_json", "the last byte is missing", (text) => text.slice(0, -1)],
  [
    "own_nesting_17",
    "too_deep",
    "17 levels of nesting",
    constraint(`{"type":"acme:x","params":${"[".repeat(12)}${"]".repeat(12)}}`),
  ],
  [
    "own_duplicate_key_escaped",
    "duplicate_key",
    "agent_id given again, spelled with an escape",
    added('"agent\\u005fid":"x"'),
  ],
  [
    "own_lone_surrogate",
    "invalid_utf8",
    "a lone surrogate behind an escape",
    member("agent_id", '"\\ud800"'),
  ],
  [
    "own_overlong_utf8",
    "invalid_utf8",
    "an overlong encoding of /",
    (text) =>
      Buffer.concat([Buffer.from(`{"x":"`), Buffer.from([0xc0, 0xaf]), Buffer.from(`",${text.slice(1)}`)]),
  ],
  [
    "own_leading_zero",
    "invalid_json",
    "challenge_at with a leading zero",
    member("challenge_at", "01800000000"),
  ],
  [
    "own_fraction_of_zero",
    "invalid_integer",
    "challenge_at with a fraction of zero",
    member("challenge_at", "1800000000.0"),
  ],
  ["own_negative_zero", "invalid_integer", "version of minus zero", member("version", "-0")],
  ["own_integer_as_text", "wrong_type", "challenge_at as text", member("challenge_at", '"1800000000"')],
  ["own_null_field", "missing_field", "challenge_at of null", member("challenge_at", "null")],
  ["own_null_optional", "wrong_type", "session_context of null", added('"session_context":null')],
  [
    "own_missing_constraints",
    "missing_field",
    "a certificate without constraints",
    (text) => text.replace('"constraints":[],', ""),
  ],
  [
    "own_null_constraints",
    "missing_field",
    "constraints of null",
    (text) => text.replace('"constraints":[]', '"constraints":null'),
  ],
  ["own_stream_id_alone", "missing_field", "stream_id without stream_seq", added(`"stream_id":"${bytes}"`)],
  ["own_stream_seq_alone", "missing_field", "stream_seq without stream_id", added('"stream_seq":1')],
  [
    "own_challenge_of_31_bytes",
    "wrong_length",
    "a challenge of 31 bytes",
    member("challenge", `"${Buffer.alloc(31).toString("base64")}"`),
  ],
  [
    "own_session_context_of_33_bytes",
    "wrong_length",
    "a session_context of 33 bytes",
    added(`"session_context":"${Buffer.alloc(33).toString("base64")}"`),
  ],
  [
    "own_base64_without_padding",
    "invalid_base64",
    "a challenge without its padding",
    (text) => text.replace(/("challenge":"[^"=]*)="/, '$1"'),
  ],
  ["own_base64url", "invalid_base64", "the URL alphabet", member("challenge", `"${"-".repeat(43)}="`)],
  [
    "own_129_scopes",
    "limit_exceeded",
    "129 scopes",
    scopes(Array.from({ length: 129 }, (_, index) => `custom:${index}`)),
  ],
  ["own_scope_of_257_bytes", "limit_exceeded", "a scope of 257 bytes", scopes([`custom:${"a".repeat(250)}`])],
  [
    "own_33_constraints",
    "limit_exceeded",
    "33 constraints",
    constraint(Array.from({ length: 33 }, () => '{"type":"acme:x"}').join(",")),
  ],
  [
    "own_identifier_of_513_bytes",
    "limit_exceeded",
    "a cert_id of 513 bytes",
    member("cert_id", `"${"a".repeat(513)}"`),
  ],
  [
    "own_constraint_without_field",
    "missing_field",
    "a circle without a radius",
    constraint('{"type":"geo_circle","lat":1,"lon":2}'),
  ],
  [
    "own_constraint_foreign_field",
    "unknown_field",
    "a circle with params",
    constraint('{"type":"geo_circle","lat":1,"lon":2,"radius_m":3,"params":{}}'),
  ],
  [
    "own_fraction_in_params",
    "invalid_integer",
    "a fraction in an extension's params",
    constraint('{"type":"acme:x","params":{"a":0.5}}'),
  ],
  [
    "own_unknown_field_in_key",
    "unknown_field",
    "an unknown field in a public key",
    (text) => text.replace('"agent_pub_key":{', '"agent_pub_key":{"rsa":"",'),
  ],
];

/**
 * Returns malformed documents in addition to the published ones. Each is a good bundle with one edit, and has
 * the error code with which it must be rejected.
 */
export function negativeCases() {
  const text = JSON.stringify(prove({}) satisfies ProofBundle);
  const cases = EDITS.map(([name, code, description, edit]) => {
    const document = Buffer.from(edit(text) as string);
    if (document.equals(Buffer.from(text))) throw new Error(`${name} changes nothing`);
    return {
      name,
      target: "bundle",
      doc_b64: document.toString("base64"),
      strictness: "decode",
      code,
      description,
    };
  });
  return {
    description: "Documents that a strict decoder refuses, each one edit away from a good one.",
    cases,
  };
}
