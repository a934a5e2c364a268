import { createSocket, type Socket } from "node:dgram";
import { Dispatcher, fetch } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import {
  callbackUrlForm,
  createAddressPolicy,
  createResolve,
  isForeignPort,
} from "../../src/webhooks/callback_address.ts";

const forbidden = [
  ["loopback", ["127.0.0.1", "127.255.255.255", "::1"]],
  ["this network", ["0.0.0.0", "0.1.2.3", "::"]],
  [
    "private",
    ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1"],
  ],
  ["shared (carrier-grade NAT)", ["100.64.0.0", "100.127.255.255", "100.100.100.200"]],
  ["link-local", ["169.254.0.1", "fe80::1", "febf::1"]],
  ["cloud metadata", ["169.254.169.254", "fd00:ec2::254", "192.0.0.192", "168.63.129.16"]],
  ["multicast", ["224.0.0.1", "239.255.255.255", "ff02::1"]],
  ["broadcast and reserved", ["255.255.255.255", "240.0.0.1", "192.0.0.1", "198.18.0.1", "198.19.255.255"]],
  ["documentation", ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"]],
  ["mapped IPv4", ["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1"]],
  ["NAT64", ["64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1"]],
  ["6to4 and Teredo", ["2002:7f00:1::", "2002:808:808::1", "2001::1", "192.88.99.1"]],
  ["outside global unicast IPv6", ["fec0::1", "100::1", "5f00::1", "4000::1", "1::1"]],
  ["not an address", ["", "localhost", "1.2.3", "256.1.1.1", "8.8.8.8 ", "::g"]],
] as const;

describe("the address policy without an allow-list", () => {
  const policy = createAddressPolicy({ development: false, allowedCidrs: [] });

  test.each(forbidden)("forbids %s", (_, addresses) => {
    for (const address of addresses) expect([address, policy.allows(address)]).toEqual([address, false]);
  });

  test.each([
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450::1",
  ])("allows the public %s", (address) => expect(policy.allows(address)).toBe(true));

  test("forbids the same addresses in development", () => {
    const development = createAddressPolicy({ development: true, allowedCidrs: [] });
    for (const [, addresses] of forbidden) {
      for (const address of addresses) {
        expect([address, development.allows(address)]).toEqual([address, false]);
      }
    }
  });
});

describe("the address policy with an allow-list", () => {
  const allowedCidrs = ["10.1.0.0/16", "fd00:1::/32", "127.0.0.0/8", "169.254.0.0/16"];

  test("allows exactly the named private ranges", () => {
    const policy = createAddressPolicy({ development: false, allowedCidrs });
    expect(["10.1.0.0", "10.1.255.255", "fd00:1::1"].map(policy.allows)).toEqual([true, true, true]);
    expect(["10.0.255.255", "10.2.0.0", "fd00:2::1", "192.168.0.1"].map(policy.allows)).toEqual(
      Array(4).fill(false),
    );
  });

  test("never allows loopback or link-local addresses outside development", () => {
    const policy = createAddressPolicy({ development: false, allowedCidrs });
    expect(["127.0.0.1", "169.254.169.254"].map(policy.allows)).toEqual([false, false]);
  });

  test("allows named loopback addresses in development", () => {
    const policy = createAddressPolicy({ development: true, allowedCidrs });
    expect(["127.0.0.1", "10.1.2.3"].map(policy.allows)).toEqual([true, true]);
    expect(["::1", "::ffff:127.0.0.1", "10.2.0.0"].map(policy.allows)).toEqual([false, false, false]);
  });

  test("refuses a malformed range", () => {
    expect(() => createAddressPolicy({ development: false, allowedCidrs: ["10.0.0.0/33"] })).toThrow();
  });
});

const production = createAddressPolicy({ development: false, allowedCidrs: ["127.0.0.0/8", "10.1.0.0/16"] });
const development = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });
const closed = createAddressPolicy({ development: true, allowedCidrs: [] });

describe("the check of a callback URL", () => {
  test.each([
    "https://hooks.example.com/in?x=1",
    "https://example.com:443/",
    "https://example.com:8443/",
    "https://example.com:21000/",
    "https://münchen.example/",
  ])("accepts %s", (url) => expect(callbackUrlForm(url, production)).toHaveProperty("url"));

  const refusals = {
    "the scheme must be https": [
      "http://hooks.example.com/",
      "ftp://hooks.example.com/",
      "file:///etc/passwd",
      "javascript:alert(1)",
    ],
    "it must not contain a user name or password": [
      "https://user@example.com/",
      "https://:pass@example.com/",
    ],
    "the host must be between https:// and the next slash": [
      "https:///x",
      "https:/x",
      "https:x",
      "https:\\\\x/",
      "https://a\\b.example/",
      "https://a.example\\@b.example/",
    ],
    "it must not contain a backslash": ["https://a.example/x\\y", "https://a.example/?x=\\"],
    "the port belongs to another protocol": [
      "https://example.com:22/",
      "https://example.com:0/",
      "https://example.com:025/",
      "https://example.com:6000/",
      "https://example.com:10080/",
    ],
    "not a URL of at most 2048 characters": ["", "hooks.example.com", "https://", "https://exa mple.com"],
    "the host must be a name that is not this machine's own": [
      "https://127.0.0.1/",
      "https://2130706433/",
      "https://0x7f.1/",
      "https://0177.0.0.1/",
      "https://[::1]/",
      "https://[::ffff:7f00:1]/",
      "https://169.254.169.254/latest/meta-data",
      "https://localhost/",
      "https://LOCALHOST./",
      "https://a.b.localhost/",
    ],
  };

  test.each(Object.entries(refusals).flatMap(([refused, urls]) => urls.map((url) => [url, refused])))(
    "refuses %s: %s",
    (url, refused) => expect(callbackUrlForm(url!, production)).toEqual({ refused }),
  );

  test("accepts at most 2048 characters", () => {
    const url = `https://example.com/${"a".repeat(2028)}`;
    expect(callbackUrlForm(url, production)).toHaveProperty("url");
    expect(callbackUrlForm(`${url}a`, production)).toHaveProperty("refused");
  });

  test("accepts plain http and addresses of this machine in development if the allow-list contains the addresses", () => {
    for (const url of ["http://127.0.0.1:8080/hook", "http://localhost:8080/", "http://example.com/"]) {
      expect(callbackUrlForm(url, development)).toHaveProperty("url");
    }
    expect(callbackUrlForm("http://127.0.0.1:8080/hook", closed)).toHaveProperty("refused");
    expect(callbackUrlForm("http://localhost:8080/hook", closed)).toHaveProperty("refused");
  });

  test("accepts a literal address of a private network that the allow-list contains", () => {
    expect(callbackUrlForm("https://10.1.2.3/", production)).toHaveProperty("url");
    expect(callbackUrlForm("https://10.2.2.3/", production)).toHaveProperty("refused");
  });
});

/** Higher than every port in the list. */
const LAST = 12_000;

/** A dispatcher that sends no request. */
class Closed extends Dispatcher {
  override dispatch(): boolean {
    throw new Error("would have been sent");
  }
}

const whyNot = (port: number): Promise<string> =>
  fetch(`http://receiver.example:${port}/`, { dispatcher: new Closed() }).then(
    () => "sent",
    ({ cause }: Error) => (cause as Error).message,
  );

test("isForeignPort agrees with undici, which also implements the Fetch standard, for every port", async () => {
  const refused: number[] = [];
  const foreign: number[] = [];
  for (let port = 1; port <= LAST; port += 1) {
    if ((await whyNot(port)) === "bad port") refused.push(port);
    if (isForeignPort(new URL(`https://receiver.example:${port}/`))) foreign.push(port);
  }
  expect(refused.length).toBeGreaterThan(70);
  expect(foreign).toEqual(refused);
});

describe("the resolver", () => {
  let server: Socket | undefined;
  afterEach(() => server?.close());

  const A = 1;
  const AAAA = 28;
  const OK = 0x8180;
  const NO_NAME = 0x8183;

  /** `answer` returns the bytes of the record for a type, `undefined` for "no such name", or "silent". */
  async function nameServer(answer: (type: number) => number[] | undefined | "silent"): Promise<string> {
    const socket = createSocket("udp4");
    server = socket;
    socket.on("message", (query, peer) => {
      const question = query.subarray(12, query.indexOf(0, 12) + 5);
      const type = question.readUInt16BE(question.length - 4);
      const data = answer(type);
      if (data === "silent") return;
      const head = Buffer.alloc(12);
      query.copy(head, 0, 0, 2);
      head.writeUInt16BE(data === undefined ? NO_NAME : OK, 2);
      head.writeUInt16BE(1, 4);
      head.writeUInt16BE(data === undefined ? 0 : 1, 6);
      const record =
        data === undefined ? [] : [0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length, ...data];
      socket.send(Buffer.concat([head, question, Buffer.from(record)]), peer.port, peer.address);
    });
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    return `127.0.0.1:${socket.address().port}`;
  }

  const patient = new AbortController().signal;
  const loopback6 = [...Array(15).fill(0), 1];

  test("returns both IPv4 and IPv6 addresses", async () => {
    const resolve = createResolve([await nameServer((type) => (type === A ? [192, 0, 2, 1] : loopback6))]);
    expect(await resolve("hooks.example.test", patient)).toEqual(["192.0.2.1", "::1"]);
  });

  test.each([
    ["A", A, [192, 0, 2, 1], "192.0.2.1"],
    ["AAAA", AAAA, loopback6, "::1"],
  ] as const)(
    "returns the addresses of a name server that answers only %s queries",
    async (_, only, data, address) => {
      const asked: number[] = [];
      const server = await nameServer((type) => {
        asked.push(type);
        return type === only ? [...data] : "silent";
      });
      expect(await createResolve([server])("hooks.example.test", patient)).toEqual([address]);
      expect(asked.sort(), "without repeating the other query").toEqual([A, AAAA]);
    },
  );

  test.each([
    ["IPv4", A, [192, 0, 2, 1], "192.0.2.1"],
    ["IPv6", AAAA, loopback6, "::1"],
  ] as const)("accepts a name with only %s addresses", async (_, only, data, address) => {
    const resolve = createResolve([await nameServer((type) => (type === only ? [...data] : undefined))]);
    expect(await resolve("hooks.example.test", patient)).toEqual([address]);
  });

  test("rejects a name that does not exist", async () => {
    const resolve = createResolve([await nameServer(() => undefined)]);
    await expect(resolve("hooks.example.test", patient)).rejects.toMatchObject({ code: "ENOTFOUND" });
  });

  test("rejects when its caller's time is over", async () => {
    const resolve = createResolve([await nameServer(() => "silent")]);
    const late = resolve("hooks.example.test", AbortSignal.timeout(50));
    await expect(late).rejects.toMatchObject({ code: "ECANCELLED" });
  });
});
