import { X509Certificate } from "node:crypto";
import { beforeAll, expect, test, vi } from "vitest";
import { type ErrorCode, VaultError } from "../../keyvault/errors.ts";
import { createMetrics, showState } from "../../keyvault/metrics.ts";
import { createAuthority, issueCertificate } from "../../keyvault/tls/authority.ts";

const START = new Date("2026-01-01T00:00:00Z");
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
    { notBefore: START, notAfter: SOON },
  );
  material = {
    cert: Buffer.from(own.certificate),
    authorities: made.map(({ certificate }) => new X509Certificate(certificate)),
  };
});

/** The value of each series of a metric, by its only label. */
async function shown(name: string, check: () => Promise<void>): Promise<Record<string, string>> {
  const metrics = createMetrics();
  showState(metrics, { readiness: { check }, material: () => material });
  const lines = (await metrics.registry.metrics()).matchAll(
    new RegExp(`^${name}\\{\\w+="(\\w+)"\\} (.*)$`, "gm"),
  );
  return Object.fromEntries([...lines].map(([, label = "", value = ""]) => [label, value]));
}

const reasons = (check: () => Promise<void>) => shown("keyvault_not_ready", check);
const failing = (error: Error) => () => Promise.reject(error);
const NONE = { sealed: "0", token_unavailable: "0", audit_unavailable: "0", unavailable: "0", internal: "0" };

test("a vault that can sign shows no reason why not", async () => {
  expect(await reasons(async () => {})).toEqual(NONE);
});

test.each<ErrorCode>(["sealed", "token_unavailable", "audit_unavailable", "unavailable"])(
  "a vault that is %s shows that reason alone",
  async (code) => {
    expect(await reasons(failing(new VaultError(code)))).toEqual({ ...NONE, [code]: "1" });
  },
);

test("a fault of another kind is internal", async () => {
  expect(await reasons(failing(new Error("unforeseen")))).toEqual({ ...NONE, internal: "1" });
  expect(await reasons(failing(new VaultError("key_damaged")))).toEqual({ ...NONE, internal: "1" });
});

test("a part that does not answer keeps no look waiting", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const looked = reasons(() => new Promise<void>(() => {}));
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await looked).toEqual({ ...NONE, unavailable: "1" });
  } finally {
    vi.useRealTimers();
  }
});

test("the ends of the server's certificate and of the first authority that ends are shown", async () => {
  const end = String(SOON.getTime() / 1000);
  expect(await shown("keyvault_certificate_expiry_timestamp_seconds", async () => {})).toEqual({
    server: end,
    authority: end,
  });
});
