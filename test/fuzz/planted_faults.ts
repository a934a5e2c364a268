/** A fault to plant in a copy of the sources: a source text that occurs exactly once, and its replacement. */
export type PlantedFault = {
  name: string;
  file: string;
  from: string;
  to: string;
};

const fault = (file: string, name: string, from: string, to: string): PlantedFault => ({
  file,
  name,
  from,
  to,
});

/** Typical faults of parsers, decoders and verifiers. The corpus alone must detect each of them. */
export const PLANTED_FAULTS: readonly PlantedFault[] = [
  fault(
    "encoding/json_reader.ts",
    "a duplicate key is accepted",
    "if (Object.hasOwn(object, key)) throw",
    'if (key === "" && Object.hasOwn(object, key)) throw',
  ),
  fault(
    "encoding/json_reader.ts",
    "content after the document is ignored",
    "if (this.#at < this.#text.length || this",
    "if (this.#at < 0 || this",
  ),
  fault(
    "encoding/json.ts",
    "bytes that are not UTF-8 are replaced",
    "if (!isUtf8(document)) throw",
    "if (document.length < 0 && !isUtf8(document)) throw",
  ),
  fault(
    "encoding/json_reader.ts",
    "one more level of nesting is accepted",
    "if (this.#depth > this.#maxDepth)",
    "if (this.#depth > this.#maxDepth + 1)",
  ),
  fault("encoding/json_reader.ts", "closed levels still count", "this.#depth -= 1;", ""),
  fault(
    "encoding/json_reader.ts",
    "a lone surrogate is accepted",
    "if (!content.isWellFormed()) throw",
    'if (content === "x" && !content.isWellFormed()) throw',
  ),
  fault(
    "encoding/json_reader.ts",
    "a number with an exponent is an integer",
    'if (whole === lexeme && whole !== "-0") {',
    'if (Number.isSafeInteger(value) && whole !== "-0") {',
  ),
  fault("encoding/json_reader.ts", "minus zero is an integer", ' && whole !== "-0") {', ") {"),
  fault(
    "encoding/json_reader.ts",
    "an integer beyond 2^53 is rounded",
    "return Number.isSafeInteger(value) ? value",
    "return Number.isFinite(value) ? value",
  ),
  fault(
    "encoding/json_reader.ts",
    "infinity is a number",
    "if (!Number.isFinite(value) || (isWhole",
    "if ((isWhole",
  ),
  fault(
    "encoding/json_reader.ts",
    "control characters in strings are accepted",
    "if (this.#hasControlCharacters && hasControlCharacter(content)) throw",
    'if (content === "x" && this.#hasControlCharacters && hasControlCharacter(content)) throw',
  ),
  fault("encoding/json_reader.ts", "leading zeros are accepted", "(-?(?:0|[1-9][0-9]*))", "(-?[0-9]+)"),
  fault(
    "encoding/json_reader.ts",
    "an invalid escape is kept as text",
    "return undefined;\n  }\n}\n\nfunction addMember",
    "return literal;\n  }\n}\n\nfunction addMember",
  ),
  fault(
    "encoding/json_reader.ts",
    "the prototype can be set",
    'if (key === "__proto__") {',
    'if (key === "__prot__") {',
  ),
  fault(
    "encoding/fields.ts",
    "unknown members are ignored",
    "if (Object.keys(members).length > known)",
    "if (Object.keys(members).length < known)",
  ),
  fault(
    "encoding/fields.ts",
    "null counts as absent",
    "if (isRequired && (member === undefined || member === null))",
    "if (isRequired && member === undefined)",
  ),
  fault(
    "encoding/fields.ts",
    "an inherited member counts",
    "const member = Object.hasOwn(members, name) ? members[name] : undefined;",
    "const member = members[name] ?? undefined;",
  ),
  fault(
    "encoding/fields.ts",
    "a list has no limit",
    "if (value.length > limit)",
    "if (value.length > limit * 100)",
  ),
  fault(
    "encoding/fields.ts",
    "a fraction is cut off",
    'throw new ProtocolError("invalid_integer", "not written as a plain integer");\n    }\n    if (typeof value',
    "return Math.trunc(value.value);\n    }\n    if (typeof value",
  ),
  fault("encoding/fields.ts", "a time before 1970 is accepted", "= integer(0);", "= integer();"),
  fault(
    "encoding/fields.ts",
    "an empty name is accepted",
    "if (decoded.length === 0)",
    "if (decoded.length < 0)",
  ),
  fault(
    "encoding/base64.ts",
    "unused bits are ignored",
    'LAST_OF_ONE_BYTE.includes(text.at(-3) ?? "") ? full - 2 : undefined',
    "full - 2",
  ),
  fault(
    "encoding/base64.ts",
    "unused bits of two bytes are ignored",
    'LAST_OF_TWO_BYTES.includes(text.at(-2) ?? "") ? full - 1 : undefined',
    "full - 1",
  ),
  fault(
    "encoding/base64.ts",
    "white space is ignored",
    "if (!isPlain || written !== encodedLength(text)) {",
    "if (!isPlain || (written !== encodedLength(text) && !/\\s/.test(text))) {",
  ),
  fault(
    "encoding/base64.ts",
    "the length is not checked",
    "if (length !== undefined && written !== length) {",
    "if (length !== undefined && written > length) {",
  ),
  fault(
    "encoding/canonical.ts",
    "line separators are not escaped",
    'return json.includes("\\u2028") || json.includes("\\u2029") ? escapeLineSeparators(json) : json;',
    "return json;",
  ),
  fault(
    "encoding/canonical.ts",
    "keys are sorted by UTF-16 units",
    "if (!KEYS_BEYOND_UTF16_ORDER.test(left) || !KEYS_BEYOND_UTF16_ORDER.test(right))",
    "if (left !== right)",
  ),
  fault(
    "documents/challenge.ts",
    "a single stream field is accepted",
    "if ((stream_id === undefined) !== (stream_seq === undefined)) {",
    "if (stream_id === undefined && stream_seq !== undefined && stream_seq < 0) {",
  ),
  fault(
    "documents/proof_bundle.ts",
    "a bundle without certificates is accepted",
    "if (bundle.delegations.length === 0)",
    "if (bundle.delegations.length < 0)",
  ),
  fault(
    "constraints/decoding.ts",
    "a point can have any number of coordinates",
    "|| others.length > 0) {",
    ") {",
  ),
  fault(
    "constraints/decoding.ts",
    "params can have fractions",
    'if (value instanceof Decimal) throw new ProtocolError("invalid_integer", "not written as a plain integer");',
    "if (value instanceof Decimal) return value.value;",
  ),
  fault(
    "verification/challenge_rules.ts",
    "a challenge from the future is fresh",
    "return age >= 0 && age <=",
    "return age <=",
  ),
  fault(
    "verification/challenge_rules.ts",
    "a challenge is fresh for one second too long",
    "age <= CHALLENGE_WINDOW_SECONDS\n",
    "age <= CHALLENGE_WINDOW_SECONDS + 1\n",
  ),
  fault(
    "verification/certificate_rules.ts",
    "any later version is accepted",
    "version === PROTOCOL_VERSION",
    "version >= PROTOCOL_VERSION",
  ),
  fault(
    "verification/certificate_rules.ts",
    "expiry is not checked",
    "now <= expires_at ?",
    "now <= expires_at + 1e9 ?",
  ),
  fault(
    "verification/certificate_rules.ts",
    "the first second of validity is not checked",
    "now >= issued_at ?",
    "now >= issued_at - 1e9 ?",
  ),
  fault(
    "verification/certificate_rules.ts",
    "any issuer id is accepted as a link",
    "if (certificate.issuer_id !== parent.subject_id) {",
    'if (certificate.issuer_id === "") {',
  ),
  fault(
    "verification/certificate_rules.ts",
    "any scope permits delegation",
    "parent.scope.includes(DELEGATE_SCOPE)",
    "parent.scope.length > 0",
  ),
  fault(
    "verification/rule_order.ts",
    "an agent can choose its id",
    "if (agent_id !== leaf.subject_id) {",
    'if (agent_id === "") {',
  ),
  fault(
    "keys/hybrid.ts",
    "one good signature half is enough",
    "return HALVES.find((_, index) => verified[index] !== true);",
    "return verified.includes(true) ? undefined : HALVES[0];",
  ),
  fault(
    "../../test/conformance/extensions/session_token.ts",
    "the MAC is not checked",
    'if (!hasMac(token, secret)) return "session_token MAC invalid";',
    "",
  ),
  fault(
    "documents/scopes.ts",
    "any prefix with a colon is a scope",
    "(scope.startsWith(CUSTOM_PREFIX) && scope.length > CUSTOM_PREFIX.length)",
    'scope.includes(":")',
  ),
  fault(
    "constraints/constraints.ts",
    "an amount can be negative",
    'max_amount >= 0 && currency !== ""',
    'currency !== ""',
  ),
  fault(
    "constraints/resource_path.ts",
    "dots in a path leave the prefix",
    'segment === "" || segment === "." || segment === ".."',
    'segment === ""',
  ),
  fault("constraints/time_window.ts", "24:00 is a valid time", "^(?:[01]\\d|2[0-3])", "^(?:[01]\\d|2[0-4])"),
];
