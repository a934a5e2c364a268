import { getHeapStatistics } from "node:v8";
import { delegationSignBytes } from "../../src/protocol/documents/certificate.ts";
import type { CertificateMemory } from "../../src/protocol/documents/certificate_memory.ts";
import {
  bundleHash,
  decodeProofBundle,
  type ProofBundle,
} from "../../src/protocol/documents/proof_bundle.ts";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ALGORITHMS } from "../../src/protocol/keys/algorithms.ts";
import { type Backend, importSeeds, signHybrid } from "../../src/protocol/keys/hybrid.ts";
import { createCertificateMemory, verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import { encode, NOW, prove, ROOT } from "../support/chains.ts";
import type { Aim, Ratio } from "./results/figures.ts";
import { report } from "./results/tables.ts";

/** Work whose cost is measured. Its runs do not overlap. */
type Case = {
  name: string;
  times: number;
  run: () => unknown;
};

/** Cost of one run: `processor` (all threads) and `clock` in microseconds, `allocated` in bytes of heap. */
type Cost = {
  processor: number;
  clock: number;
  allocated: number;
};

const ROUNDS = 15;
const WARMUP = 500;

const document = encode(await chainOf(1));
const text = Buffer.from(document).toString();
const bundle = decodeProofBundle(document);
const chains = { 1: bundle, 3: await chainOf(3), 8: await chainOf(8) };
const memory = createCertificateMemory();
const message = Buffer.alloc(64, 1);
const mlDsa = ROOT.privateKey.ml_dsa_65;
const verifier = ALGORITHMS.ml_dsa_65.native?.verifyingKey(mlDsa.publicKey);
const signature = await mlDsa.sign(message);

const cases: Case[] = [
  { name: "verify depth 1, cold", times: 100, run: () => verify(chains[1]) },
  { name: "verify depth 1, warm", times: 100, run: () => verify(chains[1], memory) },
  { name: "verify depth 3, cold", times: 40, run: () => verify(chains[3]) },
  { name: "verify depth 3, warm", times: 100, run: () => verify(chains[3], memory) },
  { name: "verify depth 8, cold", times: 20, run: () => verify(chains[8]) },
  { name: "verify depth 8, warm", times: 100, run: () => verify(chains[8], memory) },
  { name: "verify depth 1, cold, @noble", times: 5, run: () => verify(chains[1], undefined, "reference") },
  { name: "verify one ML-DSA-65", times: 100, run: () => verifier?.verify(message, signature) },
  { name: "sign", times: 50, run: () => signHybrid(ROOT.privateKey, message) },
  {
    name: "import two seeds",
    times: 50,
    run: () => importSeeds({ ed25519: message.subarray(32), ml_dsa_65: message.subarray(32) }),
  },
  { name: "decode depth 1", times: 1000, run: () => decodeProofBundle(document) },
  { name: "JSON.parse depth 1", times: 1000, run: () => JSON.parse(text) },
  { name: "canonicalize depth 1", times: 1000, run: () => canonicalBytes(bundle) },
  { name: "hash of a bundle, depth 1, cold", times: 1000, run: () => bundleHash(bundle) },
  { name: "hash of a bundle, depth 1, warm", times: 1000, run: () => bundleHash(bundle, memory.recent) },
  {
    name: "signed bytes of a certificate",
    times: 1000,
    run: () => bundle.delegations.map(delegationSignBytes),
  },
];

const costs = new Map(cases.map(({ name }): [string, Cost[]] => [name, []]));
for (const { times, run } of cases) {
  for (let count = 0; count < Math.min(times, WARMUP); count += 1) await run();
}
for (let round = 0; round < ROUNDS; round += 1) {
  for (const each of cases) costs.get(each.name)?.push(await measure(each));
}

report({
  figures: [...costs].flatMap(([name, rounds]) => [
    { name, unit: "µs of the processor", values: rounds.map(({ processor }) => processor) },
    { name: `${name}: clock`, unit: "µs", values: rounds.map(({ clock }) => clock) },
    { name: `${name}: allocated`, unit: "KiB", values: rounds.map(({ allocated }) => allocated / 1024) },
  ]),
  ratios: [
    ratio("decode depth 1", "JSON.parse depth 1", { atMost: 3 }),
    ratio("verify depth 1, cold, @noble", "verify depth 1, cold", { atLeast: 8 }),
    ratio("verify depth 1, cold", "verify one ML-DSA-65", { atMost: 4.7 }),
    ratio("verify depth 1, warm", "verify one ML-DSA-65", { atMost: 2.5 }),
  ],
});

async function chainOf(depth: number): Promise<ProofBundle> {
  const scope = ["meeting:attend", "identity:delegate"];
  return prove(Array.from({ length: depth }, () => ({ scope })));
}

async function verify(
  proof: ProofBundle,
  certificateMemory?: CertificateMemory,
  backend: Backend = "native",
): Promise<void> {
  const options = { now: NOW, required_scope: "meeting:attend", certificateMemory, backend };
  const { valid } = await verifyBundle(proof, options);
  if (!valid) throw new Error("a valid proof was refused");
}

async function measure({ times, run }: Case): Promise<Cost> {
  const allocatedBefore = getHeapStatistics().total_allocated_bytes;
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  for (let count = 0; count < times; count += 1) await run();
  const clock = Number(process.hrtime.bigint() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const allocated = getHeapStatistics().total_allocated_bytes - allocatedBefore;
  return { processor: (user + system) / times, clock: clock / times, allocated: allocated / times };
}

/** Compares processor times. Elapsed times would vary, because a signature's halves run concurrently. */
function ratio(over: string, under: string, aim: Aim): Ratio {
  return { name: `${over} / ${under}`, over, under, aim };
}
