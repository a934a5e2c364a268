import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  await api.client().post("/v1/auth/email/send-code", { email: "ada@example.com" });
});
afterAll(() => api.stop());

type Read = { status: number; text: string };

/** Reads the mailbox with the host name `host`, as a browser with that name in its address bar does. */
function readAs(host: string, target = "/dev/mailbox"): Promise<Read> {
  return new Promise((resolve, reject) => {
    request({ port: api.port, host: "127.0.0.1", path: target, headers: { host } }, async (response) => {
      const text = (await response.toArray()).join("");
      resolve({ status: response.statusCode ?? 0, text });
    })
      .on("error", reject)
      .end();
  });
}

describe("a website that rebinds its name to this machine", () => {
  test.each([
    "attacker.example",
    "attacker.example:8080",
    "localhost.attacker.example",
    "127.0.0.1.attacker.example",
    "attacker.localhost",
    "10.0.0.7",
    "0.0.0.0",
    "[::2]",
  ])("cannot read sign-in codes when the host is %s", async (host) => {
    const { status, text } = await readAs(host);
    expect(status).toBe(404);
    expect(text).toContain("The mailbox is available only at localhost, 127.0.0.1 and [::1]");
    expect(text).not.toMatch(/\d{6}/);
  });

  test("cannot read sign-in codes with a request target that names this machine", async () => {
    expect((await readAs("attacker.example", "http://localhost/dev/mailbox")).status).toBe(404);
  });

  test.each(["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080"])(
    "does not prevent the developer from reading the mailbox at %s",
    async (host) => {
      const { status, text } = await readAs(host);
      expect(status).toBe(200);
      expect(text).toMatch(/Your sign-in code is \d{6}/);
    },
  );
});
