import { expect, test } from "vitest";
import { createArrivals } from "../../../src/http/exchange/arrivals.ts";

test("a body that breaks off leaves its place to the client's next one", async () => {
  const arrivals = createArrivals({ perClient: 1 });
  await expect(arrivals.wait("a", () => Promise.reject(new Error("broke off")))).rejects.toThrow("broke off");
  expect(await arrivals.wait("a", async () => "read")).toBe("read");
});
