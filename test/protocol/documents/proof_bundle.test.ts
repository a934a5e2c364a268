import { hash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";
import { decodeDelegationCert } from "../../../src/protocol/documents/certificate.ts";
import {
  bundleHash,
  decodeProofBundle,
  type ProofBundle,
} from "../../../src/protocol/documents/proof_bundle.ts";
import { encodeBase64 } from "../../../src/protocol/encoding/base64.ts";
import { independentCanonicalJson } from "../../support/canonical_oracle.ts";
import { bytes32, encode, prove } from "../../support/chains.ts";

type Json = { [key: string]: unknown };

const refuses = (code: string) => expect.objectContaining({ code });
let bundle: ProofBundle;

beforeAll(async () => {
  bundle = await prove([{}, {}], { session_context: bytes32(3), stream_id: bytes32(4), stream_seq: 1 });
});

describe("decoding a proof bundle", () => {
  test("returns the bundle that was encoded", () => {
    expect(decodeProofBundle(encode(bundle))).toEqual(bundle);
  });

  test("accepts any order of members and any white space", () => {
    const reversed = Object.fromEntries(Object.entries(bundle).reverse());
    expect(decodeProofBundle(Buffer.from(JSON.stringify(reversed, null, "\t")))).toEqual(bundle);
  });

  test.each(["agent_id", "agent_pub_key", "delegations", "challenge", "challenge_at", "challenge_sig"])(
    "rejects a bundle in which %s is absent or null",
    (name) => {
      const { [name]: _, ...others } = bundle as unknown as Json;
      expect(() => decodeProofBundle(encode(others))).toThrow(refuses("missing_field"));
      expect(() => decodeProofBundle(encode({ ...others, [name]: null }))).toThrow(refuses("missing_field"));
    },
  );

  test.each([
    "cert_id",
    "version",
    "issuer_id",
    "issuer_pub_key",
    "subject_id",
    "subject_pub_key",
    "scope",
    "constraints",
    "issued_at",
    "expires_at",
    "signature",
  ])("rejects a certificate in which %s is absent or null", (name) => {
    const { [name]: _, ...others } = bundle.delegations[0] as unknown as Json;
    expect(() => decodeProofBundle(encode({ ...bundle, delegations: [others] }))).toThrow(
      refuses("missing_field"),
    );
    expect(() =>
      decodeProofBundle(encode({ ...bundle, delegations: [{ ...others, [name]: null }] })),
    ).toThrow(refuses("missing_field"));
  });

  test.each(["session_context", "stream_id", "stream_seq"])("rejects null for the optional %s", (name) => {
    expect(() => decodeProofBundle(encode({ ...bundle, [name]: null }))).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^(wrong_type|missing_field)$/) }),
    );
  });

  test.each([
    ["stream_id", "stream_seq"],
    ["stream_seq", "stream_id"],
  ])("rejects %s without %s", (_, absent) => {
    const { [absent]: __, ...others } = bundle as unknown as Json;
    expect(() => decodeProofBundle(encode(others))).toThrow(refuses("missing_field"));
  });

  test.each([
    ["the bundle", { extra: 1 }],
    [
      "the agent key",
      { agent_pub_key: { ed25519: bytes32(1), ml_dsa_65: encodeBase64(Buffer.alloc(1952)), extra: 1 } },
    ],
    [
      "the signature",
      {
        challenge_sig: {
          ed25519: encodeBase64(Buffer.alloc(64)),
          ml_dsa_65: encodeBase64(Buffer.alloc(3309)),
          x: 0,
        },
      },
    ],
    ["the bundle, named as an inherited member", { toString: 1 }],
    ["the bundle, named __proto__", JSON.parse('{"__proto__":1}')],
  ])("rejects an unknown member in %s", (_, change) => {
    const document = Buffer.from(
      JSON.stringify(bundle).slice(0, -1).concat(",", JSON.stringify(change).slice(1)),
    );
    const merged = Object.keys(change).some((key) => Object.hasOwn(bundle, key))
      ? encode({ ...bundle, ...change })
      : document;
    expect(() => decodeProofBundle(merged)).toThrow(refuses("unknown_field"));
  });

  test("rejects an unknown member in a certificate and reports its path", () => {
    const delegations = [bundle.delegations[0], { ...bundle.delegations[1], note: "hi" }];
    expect(() => decodeProofBundle(encode({ ...bundle, delegations }))).toThrow(
      expect.objectContaining({
        code: "unknown_field",
        path: "delegations.1",
        detail: "a member that does not belong here",
      }),
    );
  });

  test.each([
    ["a list", []],
    ["a string", "bundle"],
    ["a number", 1],
    ["null", null],
  ])("rejects %s instead of a bundle", (_, value) => {
    expect(() => decodeProofBundle(encode(value))).toThrow(refuses("wrong_type"));
  });

  test.each([
    ["agent_id", 1, "wrong_type"],
    ["agent_id", "", "missing_field"],
    ["agent_id", "a".repeat(513), "limit_exceeded"],
    ["delegations", {}, "wrong_type"],
    ["delegations", [], "empty_chain"],
    ["delegations", [null], "wrong_type"],
    ["challenge", bytes32(1).slice(0, -1), "invalid_base64"],
    ["challenge", "", "wrong_length"],
    ["challenge", encodeBase64(Buffer.alloc(31)), "wrong_length"],
    ["challenge", encodeBase64(Buffer.alloc(33)), "wrong_length"],
    ["session_context", encodeBase64(Buffer.alloc(16)), "wrong_length"],
    ["stream_id", encodeBase64(Buffer.alloc(64)), "wrong_length"],
    ["challenge_at", "1800000000", "wrong_type"],
    ["challenge_at", -1, "invalid_integer"],
    ["challenge_at", 1.5, "invalid_integer"],
    ["stream_seq", true, "wrong_type"],
    ["agent_pub_key", { ed25519: bytes32(1) }, "missing_field"],
    ["challenge_sig", { ed25519: bytes32(1), ml_dsa_65: bytes32(1) }, "wrong_length"],
  ])("rejects the member %s with the value %j: %s", (name, value, code) => {
    expect(() => decodeProofBundle(encode({ ...bundle, [name]: value }))).toThrow(refuses(code));
  });

  test.each(["issued_at", "expires_at", "version"])(
    "accepts values of %s within ±(2^53−1), but not beyond",
    (name) => {
      const document = (text: string) =>
        Buffer.from(JSON.stringify(bundle).replace(new RegExp(`"${name}":\\d+`), `"${name}":${text}`));
      for (const text of ["9007199254740991", "-9007199254740991"]) {
        expect(() => decodeProofBundle(document(text))).not.toThrow();
      }
      for (const text of ["9007199254740992", "-9007199254740992", "1e21", "18446744073709551616"]) {
        expect(() => decodeProofBundle(document(text))).toThrow(
          expect.objectContaining({ code: expect.stringMatching(/^invalid_(integer|number)$/) }),
        );
      }
    },
  );

  test.each(["2e9", "20000000000e-1", "1800000000.0", "-0"])(
    "rejects the time %s although it is a whole number",
    (text) => {
      const document = JSON.stringify(bundle).replace(/"challenge_at":\d+/, `"challenge_at":${text}`);
      expect(() => decodeProofBundle(Buffer.from(document))).toThrow(refuses("invalid_integer"));
    },
  );

  test.each([
    ["scope", 128, 129, (count: number) => Array.from({ length: count }, (_, index) => `custom:${index}`)],
    ["constraints", 32, 33, (count: number) => Array.from({ length: count }, () => ({ type: "x" }))],
    ["scope", 256, 257, (length: number) => ["a".repeat(length)]],
    ["scope", 128, 129, (count: number) => ["é".repeat(count)]],
    ["cert_id", 512, 513, (length: number) => "a".repeat(length)],
    ["cert_id", 170, 171, (count: number) => "€".repeat(count)],
    ["issuer_id", 512, 513, (length: number) => "a".repeat(length)],
    ["subject_id", 512, 513, (length: number) => "a".repeat(length)],
  ])("accepts %s up to a size of %d, but not %d", (name, last, over, make) => {
    const document = (size: number) =>
      encode({ ...bundle, delegations: [{ ...bundle.delegations[0], [name]: make(size) }] });
    expect(() => decodeProofBundle(document(last))).not.toThrow();
    expect(() => decodeProofBundle(document(over))).toThrow(refuses("limit_exceeded"));
  });

  test("accepts 131072 bytes, but not 131073", () => {
    const padded = (length: number) => Buffer.from(JSON.stringify(bundle).padEnd(length));
    expect(() => decodeProofBundle(padded(131_072))).not.toThrow();
    expect(() => decodeProofBundle(padded(131_073))).toThrow(refuses("too_large"));
  });

  test("accepts a chain of nine certificates, which only verification rejects", async () => {
    const deep = await prove(Array.from({ length: 9 }, () => ({})));
    expect(decodeProofBundle(encode(deep)).delegations).toHaveLength(9);
  });

  test("gives the same bundle hash whatever the order of members and white space", () => {
    const respelled = decodeProofBundle(Buffer.from(JSON.stringify(bundle, null, 1)));
    expect(Buffer.from(bundleHash(respelled)).equals(Buffer.from(bundleHash(bundle)))).toBe(true);
  });

  test("gives a bundle hash that includes absent bindings as empty values", async () => {
    const hashOf = (each: ProofBundle) => Buffer.from(bundleHash(each)).toString("hex");
    const unbound = { session_context: "", stream_id: "", stream_seq: 0 };
    const plain = await prove();
    expect(hashOf(plain)).toBe(hash("sha256", independentCanonicalJson({ ...plain, ...unbound })));
    const session = await prove([{}], { session_context: bytes32(1) });
    const whole = { ...unbound, ...session };
    expect(hashOf(session)).toBe(hash("sha256", independentCanonicalJson(whole)));
    const stream = await prove([{}], { stream_id: bytes32(2), stream_seq: 3 });
    expect(hashOf(stream)).toBe(hash("sha256", independentCanonicalJson({ ...unbound, ...stream })));
  });
});

describe("decoding constraints", () => {
  const decode = (text: string): Constraint | undefined => {
    const [leaf] = bundle.delegations;
    const document = JSON.stringify(leaf).replace('"constraints":[]', `"constraints":[${text}]`);
    return decodeDelegationCert(Buffer.from(document)).constraints[0];
  };

  test.each(['"min_alt_m":0,"max_alt_m":0', '"max_alt_m":-0.0,"min_alt_m":0e5'])(
    "treats a box with the altitudes %s like a box without altitudes",
    (altitudes) => {
      const box = '{"type":"geo_bbox","min_lat":0,"min_lon":0,"max_lat":1,"max_lon":1';
      expect(decode(`${box},${altitudes}}`)).toEqual(JSON.parse(`${box}}`));
    },
  );

  test.each([
    '{"type":"geo_circle","lat":37.5,"lon":-122,"radius_m":500.25}',
    '{"type":"geo_polygon","points":[[0,0],[0.5,1],[1,0]]}',
    '{"type":"geo_bbox","min_lat":0,"min_lon":0,"max_lat":1.5,"max_lon":1,"min_alt_m":0,"max_alt_m":100}',
    '{"type":"geo_bbox","min_lat":0,"min_lon":0,"max_lat":1.5,"max_lon":1}',
    '{"type":"time_window","start":"09:00","end":"17:00","tz":"UTC"}',
    '{"type":"max_speed_mps","max_mps":1e-7}',
    '{"type":"max_amount","max_amount":0.1,"currency":"EUR"}',
    '{"type":"max_rate","count":5,"window_s":60}',
    '{"type":"resource_path","resource_id":"a","path_prefix":"/x"}',
    '{"type":"resource_path","resource_id":"a"}',
    '{"type":"anything"}',
    '{"type":"anything","params":null}',
    '{"type":"anything","params":{"a":[1,true,null,"x",{"b":-9007199254740991}]}}',
  ])("accepts %s", (text) => {
    expect(decode(text)).toEqual(JSON.parse(text));
  });

  test.each([
    ['{"type":"geo_circle","lat":1,"lon":2}', "missing_field"],
    ['{"type":"geo_circle","lat":1,"lon":2,"radius_m":null}', "missing_field"],
    ['{"type":"geo_circle","lat":"1","lon":2,"radius_m":3}', "wrong_type"],
    ['{"type":"geo_circle","lat":1,"lon":2,"radius_m":3,"max_mps":4}', "unknown_field"],
    ['{"type":"geo_circle","lat":1,"lon":2,"radius_m":3,"params":null}', "unknown_field"],
    ['{"type":"geo_polygon","points":[[0,0,0]]}', "wrong_length"],
    ['{"type":"geo_polygon","points":[[0]]}', "wrong_length"],
    ['{"type":"geo_polygon","points":{}}', "wrong_type"],
    ['{"type":"geo_bbox","min_lat":0,"min_lon":0,"max_lat":1,"max_lon":1,"min_alt_m":null}', "wrong_type"],
    ['{"type":"geo_bbox","min_lat":0,"min_lon":0,"max_lat":1,"max_lon":1,"max_alt_m":9}', "missing_field"],
    ['{"type":"geo_bbox","min_lat":0,"min_lon":0,"max_lat":1,"max_lon":1,"min_alt_m":0}', "missing_field"],
    ['{"type":"max_rate","count":5.0,"window_s":60}', "invalid_integer"],
    ['{"type":"max_rate","count":5e0,"window_s":60}', "invalid_integer"],
    ['{"type":"max_rate","count":5,"window_s":1e1}', "invalid_integer"],
    ['{"type":"max_amount","max_amount":1,"currency":null}', "missing_field"],
    ['{"type":"max_amount","max_amount":1e400,"currency":"EUR"}', "invalid_number"],
    ['{"type":"time_window","start":9,"end":"17:00","tz":"UTC"}', "wrong_type"],
    ['{"type":"anything","lat":1}', "unknown_field"],
    ['{"type":"anything","params":1.5}', "invalid_integer"],
    ['{"type":"anything","params":[{"a":1.0}]}', "invalid_integer"],
    ['{"type":"constructor","lat":1}', "unknown_field"],
    ['{"type":"","params":1}', "missing_field"],
    ['{"type":null}', "missing_field"],
    ['{"type":7}', "wrong_type"],
    ["{}", "missing_field"],
    ["[]", "wrong_type"],
  ])("rejects %s: %s", (text, code) => {
    expect(() => decode(text)).toThrow(refuses(code));
  });
});
