import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import { createCertificateMemory, verifyBundle } from "../../../src/protocol/verification/verify_bundle.ts";
import { encode, NOW, prove } from "../../support/chains.ts";

const CALLER = {
  accountId: "account",
  principalAccountId: "account",
  isCustomer: false,
  connectionId: "connection",
  keyPrefix: "prefix",
  verifierId: "verifier",
  registryAnswers: false,
  role: "full" as const,
  agentId: null,
  explanationValues: "full" as const,
};
const BODY = Buffer.from(
  `{"required_scope":"meeting:attend","proof_bundle":${Buffer.from(encode(await prove())).toString()}}`,
);
const memory = createCertificateMemory(20_000);
const OPTIONS = { now: NOW, certificateMemory: memory };

export default async function proofs(): Promise<void> {
  await Promise.all(Array.from({ length: 16 }, () => proof()));
}

async function proof(): Promise<void> {
  const call = readVerifyCall(CALLER, Buffer.from(BODY), undefined, memory.recent);
  const read = call.readProof();
  if (!("bundle" in read)) throw new Error("not a bundle");
  const { valid } = await verifyBundle(read.bundle, OPTIONS);
  if (!valid) throw new Error("not valid");
}
