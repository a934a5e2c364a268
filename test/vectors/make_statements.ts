import { independentCanonicalJson } from "../support/canonical_oracle.ts";
import { type Actor, actor, entity } from "./actors.ts";
import { NOW } from "./verify_cases.ts";

const ROOT = actor("human_root", 1);
const NEXT = actor("new_root", 6);
const AWKWARD = '\u2028\u2029"\\/<&>é\ue000😀';
const bytes = (byte: number) => Buffer.alloc(32, byte).toString("base64");

/**
 * A kind of signed statement: the name of its member in a vector, its fields, its signer, and the name of the
 * signature.
 */
type Statement = {
  kind: string;
  member: string;
  /** Prefix of the vector's expected values. */
  prefix: string;
  fields: Record<string, unknown>;
  /** The fields whose signed form differs from the form in which they are sent. */
  signed?: Record<string, unknown>;
  /** The published error reason if half of a signature is broken. */
  brokenReason?: string;
  signers?: Record<string, Actor>;
};

const STATEMENTS: Statement[] = [
  {
    kind: "revocation",
    member: "revocation_list",
    prefix: "revocation",
    fields: { issuer_id: ROOT.id, updated_at: NOW, revoked_certs: ["b", "a", AWKWARD] },
  },
  {
    kind: "revocation_push",
    member: "revocation_push",
    prefix: "revocation_push",
    fields: { issuer_id: ROOT.id, seq_no: 2 ** 53 - 1, entries: [], pushed_at: 0 },
  },
  {
    kind: "witness_entry",
    member: "witness_entry",
    prefix: "witness_entry",
    fields: { prev_hash: bytes(3), entry_data: "", timestamp: NOW, witness_id: ROOT.id },
  },
  {
    kind: "key_rotation",
    member: "key_rotation",
    prefix: "key_rotation",
    fields: {
      version: 1,
      old_id: ROOT.id,
      old_pub_key: ROOT.publicKey,
      new_id: NEXT.id,
      new_pub_key: NEXT.publicKey,
      rotated_at: NOW,
      reason: "compromise_suspected",
    },
    signers: { signature_old: ROOT, signature_new: NEXT },
    brokenReason: "new signature invalid: ML-DSA-65 signature invalid",
  },
  {
    kind: "verification_receipt",
    member: "verification_receipt",
    prefix: "verification_receipt",
    fields: {
      version: 1,
      bundle_hash: bytes(4),
      decision: "scope_denied",
      verified_at: NOW,
      verifier_id: AWKWARD,
      verifier_pub: ROOT.publicKey,
      prev_hash: bytes(0),
      error_reason: "scope_denied: no",
      granted_scope: ["meeting:speak", "custom:😀", "custom:\ue000"],
    },
    signed: { granted_scope: ["custom:\ue000", "custom:😀", "meeting:speak"] },
  },
];

/**
 * For each kind of statement, two vectors by name. One vector verifies. In the other, the last post-quantum
 * half has a changed bit.
 */
export const STATEMENT_VECTORS = STATEMENTS.flatMap((statement) =>
  [true, false].map((verifies): [string, () => object] => {
    const name = `own_${statement.kind}_${verifies ? "awkward" : "bad_signature"}`;
    return [name, () => statementVector(name, statement, verifies)];
  }),
);

function statementVector(
  name: string,
  { kind, member, prefix, fields, signed, brokenReason, signers }: Statement,
  verifies: boolean,
): object {
  const signedBytes = Buffer.from(independentCanonicalJson({ ...fields, ...signed }), "utf8");
  const actors = signers ?? { signature: ROOT };
  const signatures = Object.entries(actors).map(([field, signer], index, { length }) => {
    const signature = signer.sign(signedBytes);
    return [field, verifies || index < length - 1 ? signature : broken(signature)] as const;
  });
  return {
    name,
    description: verifies
      ? `A ${kind} at the edges of what is allowed.`
      : `A ${kind} with one half of a signature broken.`,
    protocol_version: 1,
    kind,
    entities: Object.values(actors).map(entity),
    [member]: { ...fields, ...Object.fromEntries(signatures) },
    expected: {
      [`${prefix}_sign_bytes_hex`]: signedBytes.toString("hex"),
      ...Object.fromEntries(
        signatures.flatMap(([field, signature]) =>
          Object.entries(signature).map(([half, text]) => [`${prefix}_${field}_${half}_hex`, hexOf(text)]),
        ),
      ),
      [`${prefix}_verify_ok`]: verifies,
      ...(verifies || brokenReason === undefined ? {} : { [`${prefix}_error_reason`]: brokenReason }),
    },
  };
}

function broken({ ed25519, ml_dsa_65 }: { ed25519: string; ml_dsa_65: string }): {
  ed25519: string;
  ml_dsa_65: string;
} {
  return { ed25519, ml_dsa_65: `${ml_dsa_65.startsWith("A") ? "B" : "A"}${ml_dsa_65.slice(1)}` };
}

function hexOf(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}

const SCOPES: [string, string, string[], string[]][] = [
  [
    "own_scope_sensitive_by_name",
    "A wildcard and a sensitive scope of its group beside it.",
    ["data:*", "data:delete", "data:read"],
    ["data:delete", "data:read", "data:share"],
  ],
  [
    "own_scope_nested_wildcards",
    "A wildcard of a group and of a part of it.",
    ["comms:email:*", "comms:*"],
    [
      "comms:calendar:read",
      "comms:calendar:write",
      "comms:email:read",
      "comms:email:send",
      "comms:message:read",
      "comms:message:send",
    ],
  ],
  [
    "own_scope_custom_order",
    "Scopes that sort otherwise by UTF-16 unit than by code point, and a custom one that looks like a wildcard.",
    ["custom:😀", "custom:\ue000", "custom:*", "custom:a"],
    ["custom:*", "custom:a", "custom:\ue000", "custom:😀"],
  ],
];

/** Vectors of expanded scopes, by name. */
export const SCOPE_VECTORS = SCOPES.map(
  ([name, description, scope_input, expanded_scopes]): [string, () => object] => [
    name,
    () => ({
      name,
      description,
      protocol_version: 1,
      kind: "scope",
      scope_input,
      expected: { expanded_scopes },
    }),
  ],
);
