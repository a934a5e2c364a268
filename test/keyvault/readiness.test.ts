import { expect, test } from "vitest";
import { createReadiness, createStatusReading, type StatusParts } from "../../keyvault/status.ts";

/** Parts that count how often they are asked, and fail when they are told to. */
function parts() {
  const asked = { token: 0, journal: 0, fails: "" };
  const proof = (name: "token" | "journal") => async () => {
    asked[name] += 1;
    if (asked.fails === name) throw new Error(`the ${name} is away`);
  };
  const opened = { token: { health: proof("token") }, journal: { probe: proof("journal") } };
  return { asked, opened: opened as unknown as ReturnType<Parameters<typeof createReadiness>[0]> };
}

test("readiness is proven once a second, however often and by whomever it is asked", async () => {
  const { asked, opened } = parts();
  let now = 0;
  const { check } = createReadiness(
    () => opened,
    () => now,
  );
  await Promise.all([check(), check(), check()]);
  now = 1_000;
  await check();
  expect(asked).toMatchObject({ token: 1, journal: 1 });
  now = 1_001;
  await check();
  expect(asked).toMatchObject({ token: 2, journal: 2 });
});

test("a vault is not ready without its token, nor without its audit, and is again when they are back", async () => {
  const { asked, opened } = parts();
  let now = 0;
  const { check } = createReadiness(
    () => opened,
    () => now,
  );
  for (const name of ["token", "journal"]) {
    asked.fails = name;
    now += 1_001;
    await expect(check()).rejects.toThrow(`the ${name} is away`);
    await expect(check(), "asked again at once").rejects.toThrow(`the ${name} is away`);
  }
  asked.fails = "";
  now += 1_001;
  await check();
});

test("a sealed vault is not ready", async () => {
  const { check } = createReadiness(
    () => undefined,
    () => 0,
  );
  await expect(check()).rejects.toMatchObject({ code: "sealed" });
});

test("the status is shown while the token is away, and says that", async () => {
  const info = { manufacturer: "m", model: "m", serial: "s", keks: ["kek-1"] };
  const health = { answers: true };
  const open = {
    token: {
      info: () => info,
      health: () => (health.answers ? Promise.resolve() : Promise.reject(new Error("away"))),
    },
    journal: { head: () => ({ seq: 3, mac: Buffer.alloc(32, 0xab) }) },
    rewrapping: { progress: async () => null },
    retirement: { progress: () => null },
    service: { keyId: "service" },
  } as unknown as StatusParts;
  const database = Object.assign(() => ({ count: async () => [{ count: 1 }] }), {
    raw: async () => ({ rows: [{ tenants: 1 }] }),
  });
  const read = createStatusReading({
    database: database as never,
    sealing: { state: () => undefined },
    opened: () => open,
  });
  const expected = {
    sealed: null,
    keys: { tenants: 1 },
    service_key: "service",
    audit: { records: 3, head: "ab".repeat(32) },
  };
  expect(await read()).toMatchObject({ ...expected, token: { ...info, answers: true } });
  health.answers = false;
  expect(await read()).toMatchObject({ ...expected, token: { ...info, answers: false } });
});
