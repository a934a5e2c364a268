import fc from "fast-check";
import type { Constraint } from "../../src/protocol/constraints/constraints.ts";
import type { DelegationFields } from "../../src/protocol/documents/certificate.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { bytes32, NOW, prove, testKey } from "./chains.ts";
import { bindings } from "./proof_arbitraries.ts";
import type { BundleOptions, Question } from "./reference_answers.ts";
import { AWKWARD, broken, statementQuestions } from "./reference_statements.ts";

const DELEGATING = ["meeting:attend", "identity:delegate"];
const BOX = { type: "geo_bbox", min_lat: -1.5, min_lon: 170, max_lat: 1, max_lon: -170.25 } as const;
const HERE = {
  latitude: 0.5,
  longitude: 175.125,
  altitude_m: 100,
  speed_mps: 3,
  amount: 12.5,
  currency: "CHF",
};
const CONTEXT = { ...HERE, resource_id: "repo", path: "/src/a.ts", invocations: 1 };

/** Boxes with every combination of altitudes. An altitude of 0 appears in each of its JSON spellings. */
const BOXES: string[] = [
  '"min_alt_m":0,"max_alt_m":0',
  '"min_alt_m":0.0,"max_alt_m":-0.0',
  '"min_alt_m":0,"max_alt_m":120',
  '"min_alt_m":-3.5,"max_alt_m":0',
  '"min_alt_m":99.5,"max_alt_m":100.0',
  '"min_alt_m":101,"max_alt_m":200',
  '"min_alt_m":0',
  '"max_alt_m":120',
  '"min_alt_m":-5',
];

/** Constraints of every type, all of which hold in {@link CONTEXT}. */
const HOLDING: Constraint[] = [
  { type: "geo_circle", lat: 0.5, lon: 175, radius_m: 20_000.5 },
  {
    type: "geo_polygon",
    points: [
      [0, 170],
      [0, 179.5],
      [2, 179.5],
      [2, 170],
    ],
  },
  BOX,
  { ...BOX, min_alt_m: 0, max_alt_m: 120.5 },
  { type: "time_window", start: "22:00", end: "21:59", tz: "Europe/Zurich" },
  { type: "max_speed_mps", max_mps: 3 },
  { type: "max_amount", max_amount: 12.5, currency: "CHF" },
  { type: "max_rate", count: 2, window_s: 60 },
  { type: "resource_path", resource_id: "repo", path_prefix: "/src" },
  { type: "resource_path", resource_id: "repo", path_prefix: "/src/" },
  { type: "resource_path", resource_id: "repo" },
];

/** Constraints that do not hold in {@link CONTEXT}, that can never hold, or that are never evaluated. */
const FAILING: Constraint[] = [
  { type: "geo_circle", lat: 0, lon: 0, radius_m: 1 },
  {
    type: "geo_polygon",
    points: [
      [0, -170],
      [0, 179.5],
      [2, 0],
    ],
  },
  {
    type: "geo_polygon",
    points: [
      [0, 1],
      [0, 2],
    ],
  },
  { ...BOX, max_lat: 0.25 },
  { ...BOX, max_lon: 172 },
  { ...BOX, min_alt_m: -20, max_alt_m: -10 },
  { type: "time_window", start: "00:00", end: "00:01", tz: "UTC" },
  { type: "time_window", start: "9:00", end: "10:00", tz: "UTC" },
  { type: "time_window", start: "09:00", end: "10:00", tz: "Nowhere/Else" },
  { type: "max_speed_mps", max_mps: 2.75 },
  { type: "max_amount", max_amount: 12.25, currency: "CHF" },
  { type: "max_amount", max_amount: 100, currency: "EUR" },
  { type: "max_rate", count: 1, window_s: 60 },
  { type: "max_rate", count: 0, window_s: 60 },
  { type: "resource_path", resource_id: "repo", path_prefix: "/sr" },
  { type: "resource_path", resource_id: "repo", path_prefix: "src" },
  { type: "resource_path", resource_id: "other" },
  { type: "acme:badge", params: { "\ue000": [1, -9007199254740991, null], "😀": { b: true, a: AWKWARD } } },
  { type: "acme:badge" },
];

/** Every run returns the same questions. */
export async function allQuestions(): Promise<Question[]> {
  return [
    ...(await constraintQuestions()),
    ...(await boxQuestions()),
    ...(await chainQuestions()),
    ...(await randomQuestions()),
    ...(await mutatedQuestions()),
    ...(await statementQuestions()),
  ];
}

function ask(name: string, bundle: ProofBundle, options: Partial<BundleOptions> = {}): Question {
  const all = { now: NOW, required_scope: "meeting:attend", ...options };
  return { kind: "bundle", name, document: JSON.stringify(bundle), options: all };
}

async function constraintQuestions(): Promise<Question[]> {
  const each = [...HOLDING, ...FAILING].map(async (constraint) => {
    const bundle = await prove([{ constraints: [constraint] }]);
    const name = JSON.stringify(constraint);
    return [ask(name, bundle, { context: CONTEXT }), ask(`${name} without context`, bundle)];
  });
  return (await Promise.all(each)).flat();
}

async function boxQuestions(): Promise<Question[]> {
  const corners = JSON.stringify(BOX).slice(0, -1);
  const each = BOXES.map(async (altitudes) => {
    const text = `${corners},${altitudes}}`;
    const bundle = await prove([{ constraints: [JSON.parse(text)] }]);
    const document = JSON.stringify(bundle).replace(
      /"constraints":\[[^\]]*\]/,
      () => `"constraints":[${text}]`,
    );
    return { ...ask(altitudes, bundle, { context: CONTEXT }), document };
  });
  return Promise.all(each);
}

async function chainQuestions(): Promise<Question[]> {
  const three = [{}, { scope: DELEGATING }, { scope: [...DELEGATING, "meeting:*"] }];
  const plain = await prove();
  const [leaf] = plain.delegations;
  if (leaf === undefined) throw new Error("a proof has a certificate");
  const chain = async (...changes: Partial<DelegationFields>[]) => prove(changes);
  const stream = { stream_id: bytes32(2), stream_seq: 3 };
  const streamed = await prove([{}], stream);
  const session = await prove([{}], { session_context: bytes32(1) });
  const both = await prove([{}], { session_context: bytes32(1), ...stream });
  const last = { stream_id: bytes32(2), last_seen_seq: 2 };
  return [
    ask("one certificate", plain),
    ask("three certificates", await prove(three)),
    ask("eight certificates", await prove(Array.from({ length: 8 }, () => ({ scope: DELEGATING })))),
    ask("nine certificates", await prove(Array.from({ length: 9 }, () => ({ scope: DELEGATING })))),
    ask(
      "awkward text",
      await chain({ cert_id: AWKWARD, scope: [`custom:${AWKWARD}`, "custom:a", "custom:\ue000"] }),
    ),
    ask("another scope", plain, { required_scope: "meeting:speak" }),
    ask("a wildcard", await chain({ scope: ["meeting:*", "data:*", "comms:*"] })),
    ask("revoked", plain, { revoked: [leaf.cert_id] }),
    ask("revoked at the root", await prove(three), { revoked: ["cert-2"] }),
    ask("expired", await chain({ expires_at: NOW - 1 })),
    ask("in its last second", await chain({ expires_at: NOW })),
    ask("not yet valid", await chain({ issued_at: NOW + 1 })),
    ask("another version", await chain({ version: 2 })),
    ask("an unknown scope", await chain({ scope: ["x-acme:read"] })),
    ask("no right to delegate", await chain({}, { scope: ["meeting:*"] })),
    ask("another issuer", await chain({ issuer_id: "someone" }, { scope: DELEGATING })),
    ask("another issuer's key", await chain({ issuer_pub_key: testKey(9).publicKey }, { scope: DELEGATING })),
    ask("another agent", { ...plain, agent_id: "someone" }),
    ask("another agent's key", { ...plain, agent_pub_key: testKey(9).publicKey }),
    ask("an Ed25519 half broken", broken(plain, "ed25519")),
    ask("an ML-DSA-65 half broken", broken(plain, "ml_dsa_65")),
    ask("a challenge answer broken", { ...plain, challenge_at: NOW - 1 }),
    ask("a stale challenge", await prove([{}], { challenge_at: NOW - 301 })),
    ask("a challenge from the future", await prove([{}], { challenge_at: NOW + 1 })),
    ask("a session", session, { session_context: bytes32(1) }),
    ask("another session", session, { session_context: bytes32(2) }),
    ask("a session that is not expected", session),
    ask("no session where one is expected", plain, { session_context: bytes32(1) }),
    ask("a stream", streamed, { stream: last }),
    ask("a stream that is not expected", streamed),
    ask("no stream where one is expected", plain, { stream: last }),
    ask("another stream", streamed, { stream: { ...last, stream_id: bytes32(4) } }),
    ask("a turn seen before", streamed, { stream: { ...last, last_seen_seq: 3 } }),
    ask("a turn left out", streamed, { stream: { ...last, last_seen_seq: 1 } }),
    ask("a session and a stream", both, { session_context: bytes32(1), stream: last }),
  ];
}

/** The questions are the same in every run, because `fast-check` has a fixed seed. */
async function randomQuestions(): Promise<Question[]> {
  const text = fc.string({ unit: "binary", minLength: 1, maxLength: 20 });
  const change = fc.record({
    cert_id: text,
    scope: fc
      .array(text, { maxLength: 4 })
      .map((names) => [...DELEGATING, ...names.map((name) => `custom:${name}`)]),
    constraints: fc.array(fc.constantFrom(...HOLDING), { maxLength: 3 }),
  });
  const made = fc.sample(fc.tuple(fc.array(change, { minLength: 1, maxLength: 3 }), bindings), {
    seed: 7,
    numRuns: 60,
  });
  const asked = made.map(async ([changes, bound], index) => {
    const bundle = await prove(changes, bound);
    const { session_context, stream_id, stream_seq = 1 } = bundle;
    const stream = stream_id === undefined ? undefined : { stream_id, last_seen_seq: stream_seq - 1 };
    return ask(`made up, ${index}`, bundle, { context: CONTEXT, session_context, stream });
  });
  return Promise.all(asked);
}

/** In each document, one member of an object is changed, removed or added. */
async function mutatedQuestions(): Promise<Question[]> {
  const constraints: Constraint[] = [{ ...BOX, min_alt_m: 1, max_alt_m: 200 }, ...HOLDING.slice(0, 1)];
  const bundle = await prove([{ constraints }, { scope: DELEGATING }], {
    session_context: bytes32(1),
    stream_id: bytes32(2),
    stream_seq: 1,
  });
  const options = {
    context: CONTEXT,
    session_context: bytes32(1),
    stream: { stream_id: bytes32(2), last_seen_seq: 0 },
  };
  return mutations(JSON.parse(JSON.stringify(bundle))).map(([name, changed]) =>
    ask(name, changed as ProofBundle, options),
  );
}

const VALUES: unknown[] = [null, 0, -1, 1.5, 2 ** 53, "", "x", "AAAA", true, [], {}, [null], "é"];

function mutations(whole: unknown): [string, unknown][] {
  const found: [string, unknown][] = [];
  const visit = (value: unknown, path: string, rebuild: (part: unknown) => unknown): void => {
    if (typeof value !== "object" || value === null) {
      for (const other of VALUES) found.push([`${path} = ${JSON.stringify(other)}`, rebuild(other)]);
      return;
    }
    for (const other of [null, "x", [], {}]) {
      found.push([`${path} = ${JSON.stringify(other)}`, rebuild(other)]);
    }
    if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) {
        visit(item, `${path}[${index}]`, (part) => rebuild(value.with(index, part)));
      }
      return;
    }
    found.push([`${path} with another member`, rebuild({ ...value, extra: 1 })]);
    for (const [name, member] of Object.entries(value)) {
      const { [name]: _, ...others } = value as Record<string, unknown>;
      found.push([`${path} without ${name}`, rebuild(others)]);
      visit(member, `${path}.${name}`, (part) => rebuild({ ...value, [name]: part }));
    }
  };
  visit(whole, "bundle", (part) => part);
  return found;
}
