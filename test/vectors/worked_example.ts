import { hash } from "node:crypto";
import { type DelegationCert, delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { requestHash, sessionContext } from "../../src/protocol/documents/context_binding.ts";
import { bundleHash } from "../../src/protocol/documents/proof_bundle.ts";
import { type Actor, actor } from "./actors.ts";
import { prove } from "./make_verify.ts";

const LINE = 96;

/** Returns the worked example of docs/wire_format.md as Markdown, computed from the test seeds. */
export function workedExample(): string {
  const [human, agent] = [actor("human", 1), actor("agent", 2)];
  const bundle = prove({});
  const [certificate] = bundle.delegations as [DelegationCert];
  const signed = Buffer.from(delegationSignBytes(certificate));
  return [
    "Two keys, from public seeds (**test seeds, never use them**):",
    "",
    block(describeKey(human), describeKey(agent)),
    "",
    `The human grants \`meeting:attend\` to the agent. The signed bytes of the certificate are these ${signed.length} characters of ASCII,`,
    "with the post-quantum keys shortened here:",
    "",
    block(wrap(abbreviate(signed.toString(), human, agent)), `SHA-256 ${sha256(signed)}`),
    "",
    "Both halves of the human's key sign these bytes. Signed deterministically, the signature is:",
    "",
    block(describeSignature(certificate.signature)),
    "",
    `The verifier's challenge consists of 32 bytes 07. The agent answers at ${bundle.challenge_at}. It signs 40 bytes, the challenge and`,
    "the time:",
    "",
    block(wrap(hexOf(challengeSignBytes(bundle))), describeSignature(bundle.challenge_sig)),
    "",
    "The bundle contains both. A verification receipt would record the SHA-256 of its canonical form:",
    "",
    block(hexOf(bundleHash(bundle))),
    "",
    ...boundExample(agent),
  ].join("\n");
}

const PAYLOAD = '{"amount":12.5,"currency":"EUR"}';

/** Shows how the same agent answers the same challenge with a proof that is bound to one operation. */
function boundExample({ id }: Actor): string[] {
  const digest = hash("sha256", PAYLOAD, "buffer");
  const operation = {
    required_scope: "meeting:attend",
    operation: "book",
    resource_id: "room-7",
    requested_path: "/rooms/7/bookings",
    payload_digest: digest,
  };
  const request = requestHash(operation);
  const session = {
    verifier_id: "rooms",
    workspace_id: "0190a1b2-0000-7000-8000-000000000001",
    agent_id: id,
    session_id: "",
    invocation_id: "booking-1",
    request_hash: request,
  };
  const context = sessionContext(session);
  const bundle = prove({ binding: { session_context: Buffer.from(context).toString("base64") } });
  return [
    `**A bound proof.** The agent books a room. The payload is these ${PAYLOAD.length} bytes, and the fields of the operation follow:`,
    "",
    block(
      PAYLOAD,
      `payload_digest ${hexOf(digest)}`,
      fieldsOf({ ...operation, payload_digest: "the 32 bytes above" }),
    ),
    "",
    "The request hash covers the tag, then the length and the bytes of each field, one line for each:",
    "",
    block(linesOf("ratify/operation-context/v1", operation), `request_hash ${hexOf(request)}`),
    "",
    "The session context names the verifier, its account, the agent, the session and the invocation. There is no session here:",
    "",
    block(
      fieldsOf({ ...session, request_hash: "the 32 bytes above" }),
      linesOf("ratify/session-context/v1", session),
      `session_context ${hexOf(context)}`,
    ),
    "",
    "The agent answers the same challenge at the same time. It signs 72 bytes, the challenge, the time and the session context:",
    "",
    block(wrap(hexOf(challengeSignBytes(bundle))), describeSignature(bundle.challenge_sig)),
    "",
    "The bundle contains the same certificate, and `session_context` in base64:",
    "",
    block(`session_context ${bundle.session_context}`, `bundle_hash ${hexOf(bundleHash(bundle))}`),
  ];
}

/** Returns the hashed bytes in hex: the tag, then a line for each field with its length and its bytes. */
function linesOf(tag: string, fields: Record<string, string | Uint8Array>): string {
  const parts = Object.values(fields).map((value) => {
    const bytes = Buffer.from(value);
    return `${bytes.length.toString(16).padStart(16, "0")} ${hexOf(bytes)}`.trimEnd();
  });
  return [hexOf(Buffer.from(tag)), ...parts].join("\n");
}

function fieldsOf(fields: Record<string, string | Uint8Array>): string {
  const lines = Object.entries(fields).map(([name, value]) => `${name.padEnd(15)} ${value || "(empty)"}`);
  return lines.join("\n");
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

function describeKey({ role, seeds, publicKey, id }: Actor): string {
  const lines = [
    ["Ed25519 seed", `${Buffer.from(seeds.ed25519).toString("hex").slice(0, 2)} × 32`],
    ["ML-DSA-65 seed", `${Buffer.from(seeds.ml_dsa_65).toString("hex").slice(0, 2)} × 32`],
    ["Ed25519 public key", Buffer.from(publicKey.ed25519, "base64").toString("hex")],
    ["ML-DSA-65 public key", `SHA-256 ${sha256(Buffer.from(publicKey.ml_dsa_65, "base64"))}`],
    ["id", id],
  ];
  return lines.map(([name = "", value = ""]) => `${role.padEnd(6)} ${name.padEnd(21)} ${value}`).join("\n");
}

function describeSignature(signature: { ed25519: string; ml_dsa_65: string }): string {
  const classical = Buffer.from(signature.ed25519, "base64").toString("hex");
  const postQuantum = Buffer.from(signature.ml_dsa_65, "base64");
  return [
    `Ed25519    ${classical.slice(0, 64)}`,
    `           ${classical.slice(64)}`,
    `ML-DSA-65  SHA-256 ${sha256(postQuantum)}`,
  ].join("\n");
}

function abbreviate(text: string, ...actors: Actor[]): string {
  return actors.reduce(
    (short, { publicKey }) => short.replaceAll(publicKey.ml_dsa_65, `${publicKey.ml_dsa_65.slice(0, 8)}…`),
    text,
  );
}

function wrap(text: string): string {
  return text.match(new RegExp(`.{1,${LINE}}`, "g"))?.join("\n") ?? "";
}

function block(...parts: string[]): string {
  return ["```text", parts.join("\n\n"), "```"].join("\n");
}

function sha256(bytes: Uint8Array): string {
  return hash("sha256", bytes, "hex");
}
