import { X509Certificate } from "node:crypto";
import { beforeAll, expect, test, vi } from "vitest";
import { type ErrorCode, VaultError } from "../../keyvault/errors.ts";
import { createMetrics, showState } from "../../keyvault/metrics.ts";
import { createReadiness, createStatusReading, type StatusParts } from "../../keyvault/status.ts";
import { createAuthority, issueCertificate } from "../../keyvault/tls/authority.ts";

/** Returns the readiness of fake parts. The parts count their calls and fail if the test says so. */
function readiness() {
  const asked = { token: 0, journal: 0, fails: "", now: 0 };
  const proof = (name: "token" | "journal") => async () => {
    asked[name] += 1;
    if (asked.fails === name) throw new Error(`the ${name} is away`);
  };
  const opened = { token: { health: proof("token") }, journal: { probe: proof("journal") } };
  const parts = opened as unknown as ReturnType<Parameters<typeof createReadiness>[0]>;
  return {
    asked,
    check: createReadiness(
      () => parts,
      () => asked.now,
    ).check,
  };
}

test("readiness checks the parts at most once per second for all callers", async () => {
  const { asked, check } = readiness();
  await Promise.all([check(), check(), check()]);
  asked.now = 1_000;
  await check();
  expect(asked).toMatchObject({ token: 1, journal: 1 });
  asked.now = 1_001;
  await check();
  expect(asked).toMatchObject({ token: 2, journal: 2 });
});

test("readiness fails without the token or without the audit, and recovers when they are back", async () => {
  const { asked, check } = readiness();
  for (const name of ["token", "journal"]) {
    asked.fails = name;
    asked.now += 1_001;
    await expect(check()).rejects.toThrow(`the ${name} is away`);
    await expect(check(), "asked again immediately").rejects.toThrow(`the ${name} is away`);
  }
  asked.fails = "";
  asked.now += 1_001;
  await check();
});

test("readiness fails for a sealed vault", async () => {
  await expect(
    createReadiness(
      () => undefined,
      () => 0,
    ).check(),
  ).rejects.toMatchObject({ code: "sealed" });
});

test("the status reports that the token is unavailable", async () => {
  const info = { manufacturer: "m", model: "m", serial: "s", keks: ["kek-1"] };
  const health = { answers: true };
  const open = {
    token: {
      info: () => info,
      health: () => (health.answers ? Promise.resolve() : Promise.reject(new Error("away"))),
    },
    journal: { head: () => ({ seq: 3, mac: Buffer.alloc(32, 0xab) }) },
    rewrapping: { progress: async () => ({ kek: "kek-1" }) },
    retirement: { progress: () => ({ kek: "kek-0" }) },
    service: { keyId: "service" },
  } as unknown as StatusParts;
  const database = Object.assign(() => ({ count: async () => [{ count: 1 }] }), {
    raw: async () => ({ rows: [{ tenants: 1 }] }),
  });
  const read = createStatusReading({
    database: database as never,
    token: { pinFlags: () => ["count_low"] },
    sealing: { state: () => undefined },
    opened: () => open,
  });
  const expected = {
    sealed: null,
    pin_flags: ["count_low"],
    keys: { tenants: 1 },
    kek: { kek: "kek-1" },
    retiring: { kek: "kek-0" },
    service_key: "service",
    audit: { records: 3, head: "ab".repeat(32) },
  };
  expect(await read()).toMatchObject({ ...expected, token: { ...info, answers: true } });
  health.answers = false;
  expect(await read()).toMatchObject({ ...expected, token: { ...info, answers: false } });
});

const START = new Date("2026-01-01T00:00:00Z");
const EARLY = new Date("2026-06-01T00:00:00Z");
const [SOON, LATE] = [new Date("2027-01-01T00:00:00Z"), new Date("2030-01-01T00:00:00Z")];
let material: { cert: Buffer; authorities: X509Certificate[] };

beforeAll(async () => {
  const made = await Promise.all(
    [LATE, SOON].map((notAfter) => createAuthority({ notBefore: START, notAfter })),
  );
  const [authority] = made;
  if (authority === undefined) throw new Error("no authority");
  const own = await issueCertificate(
    authority,
    { kind: "server", names: ["localhost"] },
    { notBefore: START, notAfter: EARLY },
  );
  material = {
    cert: Buffer.from(own.certificate),
    authorities: made.map(({ certificate }) => new X509Certificate(certificate)),
  };
});

type ShownToken = Parameters<typeof showState>[1]["token"];

const OPEN: ShownToken = { sealed: () => undefined, pinFlags: () => undefined };

/** Returns the values of a metric, keyed by its only label. */
async function shown(
  name: string,
  check: () => Promise<void>,
  token: ShownToken = OPEN,
): Promise<Record<string, string>> {
  const metrics = createMetrics();
  showState(metrics, { readiness: { check }, token, material: () => material });
  const lines = (await metrics.registry.metrics()).matchAll(
    new RegExp(`^${name}\\{\\w+="(\\w+)"\\} (.*)$`, "gm"),
  );
  return Object.fromEntries([...lines].map(([, label = "", value = ""]) => [label, value]));
}

const reasons = (check: () => Promise<void>) => shown("keyvault_not_ready", check);
const NONE = { sealed: "0", token_unavailable: "0", audit_unavailable: "0", unavailable: "0", internal: "0" };

test.each<[string, Error | undefined, object]>([
  ["exports no reason if the vault can sign", undefined, NONE],
  ...(["sealed", "token_unavailable", "audit_unavailable", "unavailable"] as const).map(
    (code: ErrorCode): [string, Error, object] => [
      `exports only ${code} if that is the reason`,
      new VaultError(code),
      { ...NONE, [code]: "1" },
    ],
  ),
  ["exports internal for an unexpected fault", new Error("unforeseen"), { ...NONE, internal: "1" }],
  [
    "exports internal for a fault with another code",
    new VaultError("key_damaged"),
    { ...NONE, internal: "1" },
  ],
])("the not-ready metric %s", async (_, error, shownReasons) => {
  const check = () => (error === undefined ? Promise.resolve() : Promise.reject(error));
  expect(await reasons(check)).toEqual(shownReasons);
});

const NO_PIN_STATE = {
  ...{ refused: "0", unanswered: "0" },
  ...{ count_low: "0", final_try: "0", locked: "0", to_be_changed: "0" },
};

test.each<[string, ShownToken, object]>([
  ["exports no state before the token reports one", OPEN, {}],
  ["exports a refused PIN", { ...OPEN, sealed: () => "pin_refused" }, { refused: "1" }],
  ["exports logins without an answer", { ...OPEN, sealed: () => "pin_unanswered" }, { unanswered: "1" }],
  [
    "exports each flag of the token",
    { sealed: () => "pin_final_try", pinFlags: () => ["count_low", "final_try"] },
    { count_low: "1", final_try: "1" },
  ],
])("the metric of the PIN %s", async (_, token, states) => {
  expect(await shown("keyvault_pin_state", async () => {}, token)).toEqual({ ...NO_PIN_STATE, ...states });
});

test("metrics do not wait for a part that does not answer", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const looked = reasons(() => new Promise<void>(() => {}));
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await looked).toEqual({ ...NONE, unavailable: "1" });
  } finally {
    vi.useRealTimers();
  }
});

test("metrics export the expiry of the server's certificate and of the authority that expires first", async () => {
  expect(await shown("keyvault_certificate_expiry_timestamp_seconds", async () => {})).toEqual({
    server: String(EARLY.getTime() / 1000),
    authority: String(SOON.getTime() / 1000),
  });
});
