import { hash } from "node:crypto";
import { type DelegationCert, delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
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
    block(
      wrap(Buffer.from(challengeSignBytes(bundle)).toString("hex")),
      describeSignature(bundle.challenge_sig),
    ),
    "",
    "The bundle contains both. A verification receipt would record the SHA-256 of its canonical form:",
    "",
    block(Buffer.from(bundleHash(bundle)).toString("hex")),
  ].join("\n");
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
