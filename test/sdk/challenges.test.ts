import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createGuard } from "../../src/sdk/guard.ts";
import { answering, type StubService, startStub } from "./stub_service.ts";

const CHALLENGE = { challenge: "AQIDBA==", expires_at: "2026-01-01T00:00:00.000Z" };

let stub: StubService;

beforeEach(async () => {
  stub = await startStub(answering(200, { ...CHALLENGE, ttl_seconds: 300 }));
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(async () => {
  vi.useRealTimers();
  await stub.stop();
});

function challenger(challengesPerSecond?: number) {
  return createGuard({
    baseUrl: stub.url,
    apiKey: "dpz_key",
    ...(challengesPerSecond === undefined ? {} : { challengesPerSecond }),
  }).challenge;
}

/** Asks once for each address. Returns whether the service was asked. */
async function asked(challenge: ReturnType<typeof challenger>, addresses: string[]): Promise<boolean[]> {
  const found: boolean[] = [];
  for (const address of addresses) found.push((await challenge(address)) !== undefined);
  return found;
}

describe("the guard's challenges", () => {
  test("come from the service, with the guard's key, and contain nothing that names a verifier", async () => {
    expect(await challenger()("192.0.2.1")).toEqual(CHALLENGE);
    expect(stub.requests).toMatchObject([
      {
        method: "POST",
        target: "/v1/service/challenge",
        headers: { "x-service-api-key": "dpz_key" },
        body: "",
      },
    ]);
  });

  test("stay available to other networks while one network asks too often", async () => {
    const challenge = challenger(8);
    expect(await asked(challenge, Array(5).fill("192.0.2.1"))).toEqual([true, true, false, false, false]);
    const sameNetwork = ["2001:db8::1", "2001:db8:0:0:ffff::2", "2001:db8::"];
    expect(await asked(challenge, sameNetwork)).toEqual([true, true, false]);
    expect(await asked(challenge, ["::ffff:192.0.2.1", "::ffff:192.0.2.2", "2001:db8:0:1::1"])).toEqual([
      false,
      true,
      true,
    ]);
    expect(stub.requests).toHaveLength(6);
  });

  test("end at the limit of a second, and are available again in the next second", async () => {
    const challenge = challenger(4);
    const addresses = Array.from({ length: 6 }, (_, index) => `192.0.2.${index}`);
    expect(await asked(challenge, addresses)).toEqual([true, true, true, true, false, false]);
    vi.advanceTimersByTime(999);
    expect(await asked(challenge, ["198.51.100.1"])).toEqual([false]);
    vi.advanceTimersByTime(1);
    expect(await asked(challenge, ["198.51.100.1"])).toEqual([true]);
    expect(stub.requests).toHaveLength(5);
  });

  test("do not exist if the limit is 0, and cost no call then", async () => {
    expect(await challenger(0)("192.0.2.1")).toBeUndefined();
    expect(stub.requests).toEqual([]);
  });

  test.each([
    ["an error", answering(429, { error: { code: "rate_limited" } })],
    ["no JSON", answering(200, "challenge")],
    ["null", answering(200, "null")],
    ["a challenge of another type", answering(200, { ...CHALLENGE, challenge: 7 })],
  ])("stay absent if the service answers with %s", async (_, behaviour) => {
    stub.respond(behaviour);
    expect(await challenger()("192.0.2.1")).toBeUndefined();
  });

  test.each([-1, 0.5, 10_001, Number.NaN])("cannot have a limit of %s", (challengesPerSecond) => {
    expect(() => challenger(challengesPerSecond)).toThrow(/^challengesPerSecond: /);
  });
});
