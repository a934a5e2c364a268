import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createCallers } from "../../../src/sdk/proxy/http/callers.ts";

const keyOf = (name: string) => `dpza_${name.padStart(30, "0")}`;
const GOOD = keyOf("good");
let asked: string[] = [];
let baseUrl: string;

/** A service that knows one key. A real one would limit so many wrong keys itself. */
const service = createServer((request, response) => {
  const key = String(request.headers["x-service-api-key"]);
  asked.push(key);
  const self = { role: "agent", agent_id: "a", connection_id: "c", verifier_id: "v", workspace_id: "w" };
  setTimeout(() => {
    response.writeHead(key === GOOD ? 200 : 401, { "content-type": "application/json" });
    response.end(JSON.stringify(key === GOOD ? self : { error: "unauthorized" }));
  }, 5);
});

beforeAll(async () => {
  await once(service.listen(0, "127.0.0.1"), "listening");
  baseUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
});
afterAll(() => {
  service.closeAllConnections();
  service.close();
});
beforeEach(() => {
  asked = [];
});

describe("the callers of a proxy", () => {
  test("ask the service about 60 wrong keys a minute, at the same time too", async () => {
    const find = createCallers({ baseUrl });
    const found = await Promise.all(Array.from({ length: 200 }, (_, index) => find(keyOf(`w${index}`))));
    expect(asked).toHaveLength(60);
    expect(found.filter((each) => each === "unknown")).toHaveLength(60);
    expect(await find(keyOf("later"))).toBe("unavailable");
  });

  test("ask once a minute about a wrong key that an agent repeats, so that others can still enter", async () => {
    const find = createCallers({ baseUrl });
    for (let count = 0; count < 100; count++) expect(await find(keyOf("ended"))).toBe("unknown");
    expect(asked).toHaveLength(1);
    expect(await find(GOOD)).toMatchObject({ id: expect.any(String) });
  });

  test("do not count right keys", async () => {
    const find = createCallers({ baseUrl });
    const found = await Promise.all(Array.from({ length: 100 }, () => find(GOOD)));
    expect(found.every((each) => typeof each === "object")).toBe(true);
    expect(await find(keyOf("wrong"))).toBe("unknown");
  });
});
