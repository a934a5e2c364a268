import { type AddressInfo, createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type NetworkOptions, networkChecks } from "../../src/doctor/network.ts";
import { type DnsServer, startDnsServer } from "../support/surroundings/dns_server.ts";
import { rowsOf } from "./support.ts";

let dns: DnsServer;
let port: number;
const server = createServer((socket) => socket.destroy());

beforeAll(async () => {
  dns = await startDnsServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
  dns.addresses.set("both.test", ["127.0.0.1", "::1"]);
  dns.addresses.set("four.test", ["127.0.0.1"]);
  dns.addresses.set("private.test", ["10.1.2.3"]);
});
afterAll(async () => {
  await dns.stop();
  server.close();
});

const LOCAL = { DEVELOPMENT: "true", WEBHOOK_ALLOWED_CIDRS: "127.0.0.0/8,::1/128" };

function look(environment: Record<string, string>, options: Partial<NetworkOptions> = {}) {
  const all = { egress: undefined, proxies: [], servers: [dns.address], ...options };
  return rowsOf(networkChecks(all), environment, { roles: ["worker"] });
}

describe("the check of the name servers", () => {
  test("passes if both families are answered, also for a name without IPv6 or without any address", async () => {
    const DATABASE_URL = "postgres://none.test/x";
    const { "name servers": row } = await look({ DATABASE_URL }, { egress: { host: "four.test", port } });
    expect(row?.status).toBe("ok");
    expect(row?.detail).toMatch(/^A and AAAA queries for 2 names are answered within \d+ ms$/);
    expect(dns.asked.map(({ name }) => name)).toEqual(expect.arrayContaining(["none.test", "four.test"]));
  });

  test.each(["AAAA", "A"])("names a family, %s, that is never answered", async (family) => {
    dns.silent.add(family);
    try {
      const { "name servers": row } = await look({}, { egress: { host: "both.test", port } });
      expect(row).toMatchObject({
        status: "failed",
        detail: `the name server never answers ${family} queries for both.test`,
      });
    } finally {
      dns.silent.clear();
    }
  });

  test("names a name server that answers nothing", async () => {
    dns.fault = "nothing";
    try {
      const { "name servers": row } = await look({}, { egress: { host: "both.test", port } });
      expect(row).toMatchObject({ status: "failed", detail: "no name server answers for both.test" });
    } finally {
      dns.fault = undefined;
    }
  });

  test("names a name server that fails", async () => {
    dns.fault = 2;
    try {
      const { "name servers": row } = await look({}, { egress: { host: "both.test", port } });
      expect(row?.status).toBe("failed");
    } finally {
      dns.fault = undefined;
    }
  });

  test("needs a setting that contains a name", async () => {
    const { "name servers": row } = await look({ DATABASE_URL: "postgres://127.0.0.1/x" });
    expect(row?.status).toBe("skipped");
  });
});

describe("the check of the egress", () => {
  const egressOf = async (
    host: string,
    to: number,
    options: Partial<NetworkOptions> = {},
    environment = LOCAL,
  ) => (await look(environment, { egress: { host, port: to }, ...options }))["callback egress"];

  test("passes if one family can be reached, and names the address that cannot", async () => {
    const row = await egressOf("both.test", port);
    expect(row).toMatchObject({
      status: "ok",
      detail: expect.stringContaining("at 127.0.0.1, but not at ::1"),
    });
  });

  test("fails if no address can be reached, and says that proxies are not used", async () => {
    const row = await egressOf("four.test", 1, { proxies: ["HTTPS_PROXY"] });
    expect(row?.status).toBe("failed");
    expect(row?.detail).toBe(
      "four.test:1: the connection is refused: nothing listens there; callbacks never use HTTPS_PROXY",
    );
  });

  test("fails for a private address that is not allowed", async () => {
    const row = await egressOf("private.test", port);
    expect(row).toMatchObject({ status: "failed", detail: expect.stringContaining("10.1.2.3") });
  });

  test("fails for a name that does not exist", async () => {
    const row = await egressOf("none.test", port);
    expect(row).toMatchObject({ status: "failed", detail: `none.test:${port}: the name has no address` });
  });

  test("needs a host", async () => {
    const { "callback egress": row } = await look(LOCAL);
    expect(row).toMatchObject({ status: "skipped", action: expect.stringContaining("--egress") });
  });
});
