import { describe, expect, test } from "vitest";
import { HELMS, helm } from "../support/helm.ts";
import { template } from "./render.ts";
import { mergeValues, PRODUCTION, type Values } from "./values.ts";

const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
for (const { missing } of programs) if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const GOOD = [
  "0.0.0.0/0",
  "10.0.0.0/8",
  "10.16.0.0/12",
  "10.1.2.254/31",
  "10.1.2.255/32",
  "::/0",
  "::1/128",
  "fd00::/8",
  "FD00:20:0:0::/63",
  "fd00:1:2:3:4:5:6:7/128",
  "2001:db8:8000::/33",
];

const allowed = (webhookAllowedCidrs: string[]): Values =>
  mergeValues(PRODUCTION, { api: { webhookAllowedCidrs } });
const proxies = (trustedProxies: string[]): Values => mergeValues(PRODUCTION, { api: { trustedProxies } });
const callers = (cidr: string, except: string[] = []): Values =>
  mergeValues(PRODUCTION, { network: { peers: { callers: [{ ipBlock: { cidr, except } }] } } });

const MORE_BITS = "which names one address by more bits than the network has.";
const NONE = "which is neither an IPv4 nor an IPv6 network.";

/** Networks that a process or the API server would refuse, and the error message for each. */
const REFUSED: [string, Values, string][] = [
  [
    "an address of a network",
    allowed(["10.0.0.0/8", "10.1.2.3/20"]),
    `api.webhookAllowedCidrs has 10.1.2.3/20, ${MORE_BITS} Write 10.1.0.0/20 for the network, or 10.1.2.3/32 for the address.`,
  ],
  [
    "a network with one bit too many",
    allowed(["10.1.2.255/31"]),
    `10.1.2.255/31, ${MORE_BITS} Write 10.1.2.254/31`,
  ],
  [
    "an IPv6 address of a network",
    allowed(["fd00:0:0:f::1/62"]),
    `fd00:0:0:f::1/62, ${MORE_BITS} Write fd00:0:0:c:0:0:0:0/62 for the network, or fd00:0:0:f::1/128`,
  ],
  ["a peer with an address of a network", callers("10.1.2.3/24"), "network.peers.callers has 10.1.2.3/24"],
  [
    "a destination with an address of a network",
    mergeValues(PRODUCTION, {
      network: { peers: { database: { to: [{ ipBlock: { cidr: "fd00::1/64" } }] } } },
    }),
    "network.peers.database has fd00::1/64",
  ],
  ["an exception of more bits", callers("10.0.0.0/8", ["10.1.1.1/16"]), "callers has 10.1.1.1/16"],
  [
    "an exception outside",
    callers("10.0.0.0/8", ["11.1.0.0/16"]),
    "callers excepts 11.1.0.0/16, which is no part",
  ],
  [
    "an exception of the whole network",
    callers("10.0.0.0/8", ["10.0.0.0/8"]),
    "which is no part of 10.0.0.0/8.",
  ],
  ["an exception of another family", callers("::/0", ["10.0.0.0/8"]), "which is no part of ::/0."],
  ["a byte above 255", allowed(["10.256.0.0/16"]), `10.256.0.0/16, ${NONE}`],
  ["more than 32 bits", allowed(["10.0.0.0/33"]), `10.0.0.0/33, ${NONE}`],
  ["more than 128 bits", allowed(["::/129"]), `::/129, ${NONE}`],
  ["too many groups", allowed(["1:2:3:4:5:6:7:8:9/128"]), NONE],
  ["too few groups", allowed(["1:2:3/128"]), NONE],
  ["two gaps", allowed(["1::2::3/128"]), NONE],
  ["a gap of three colons", allowed(["1:::3/128"]), NONE],
  ["a group of five digits", allowed(["10000::/16"]), NONE],
  [
    "a proxy that is no address",
    proxies(["10.0.0.1", "999.0.0.1"]),
    `api.trustedProxies has 999.0.0.1, ${NONE}`,
  ],
  ["a proxy in a network", proxies(["10.0.0.1/24"]), `api.trustedProxies has 10.0.0.1/24, ${MORE_BITS}`],
];

describe.skipIf(programs.some(({ missing }) => missing !== undefined)).each(programs)(
  "the chart with helm $version",
  ({ path = "" }) => {
    test("accepts networks, and addresses of proxies", async () => {
      const values = mergeValues(allowed(GOOD), proxies([...GOOD, "10.1.2.3", "fd00::7"]));
      const peers = GOOD.map((cidr) => ({ ipBlock: { cidr } }));
      const except = { ipBlock: { cidr: "10.0.0.0/8", except: ["10.1.0.0/16", "10.2.3.4/32"] } };
      const more = { network: { peers: { callers: [...peers, except], smtp: { to: peers } } } };
      expect(await template(path, mergeValues(values, more))).toMatchObject({ isGood: true, err: "" });
    });

    test.each(REFUSED)("refuses %s", async (_, values, sentence) => {
      const { isGood, err } = await template(path, values);
      expect(err).toContain(sentence);
      expect(isGood).toBe(false);
    });
  },
);
