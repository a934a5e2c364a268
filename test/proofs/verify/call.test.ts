import { describe, expect, test } from "vitest";
import { ApiError } from "../../../src/errors.ts";
import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import type { ApiKeyCaller } from "../../../src/route.ts";
import { prove } from "../../support/chains.ts";

describe("reading a verify call", () => {
  const call = (body: string | Buffer, header?: string) => () => {
    const { options, readProof } = readVerifyCall({} as ApiKeyCaller, Buffer.from(body), header);
    return { options, proof: readProof() };
  };

  function refusal(attempt: () => unknown): string {
    try {
      attempt();
    } catch (error) {
      if (error instanceof ApiError) return `${error.code} ${error.message.split(":")[0]}`;
      throw error;
    }
    return "accepted";
  }

  test.each([
    ["[]", "invalid_request body"],
    ["", "invalid_request body"],
    ["{", "invalid_request body"],
    ['{"required_scope":"data:read"}', "invalid_request proof_bundle"],
    ['{"required_scope":7,"proof_bundle":{}}', "invalid_request required_scope"],
    ['{"proof_bundle":{}}', "invalid_request required_scope"],
    ['{"required_scope":"data:read","required_scope":"data:read","proof_bundle":{}}', "invalid_request body"],
    ['{"required_scope":"data:read","proof_bundle":{}}', "invalid_proof proof_bundle"],
    ['{"required_scope":"data:read","proof_bundle":7}', "invalid_proof proof_bundle"],
    ['{"required_scope":"data:read","proof_bundle":"***"}', "invalid_proof proof_bundle"],
    [
      '{"required_scope":"data:read","proof_bundle":{},"context":{"amount":"7"}}',
      "invalid_request context.amount",
    ],
    [
      '{"required_scope":"data:read","proof_bundle":{},"context":9007199254740993}',
      "invalid_request context",
    ],
    ['{"required_scope":9007199254740993,"proof_bundle":{}}', "invalid_request required_scope"],
    ['{"required_scope":"data:read","proof_bundle":9007199254740993}', "invalid_proof proof_bundle"],
    ['{"required_scope":"data:read","proof_ref":9007199254740993}', "invalid_proof proof_ref"],
    ['{"required_scope":"data:read","proof_bundle":1e400}', "invalid_proof proof_bundle"],
  ])("with the body %s throws %s", (body, expected) => {
    expect(refusal(call(body))).toBe(expected);
  });

  test.each(["9007199254740993", "9007199254740992", "9007199254740992.0", "1e16"])(
    "throws invalid_request for the amount %s, which may be rounded",
    (amount) => {
      const body = `{"required_scope":"data:read","proof_bundle":{},"context":{"amount":${amount}}}`;
      expect(refusal(call(body))).toBe("invalid_request context.amount");
    },
  );

  test("ignores large numbers in members that verify does not know, also within the context", async () => {
    const bundle = await prove();
    const text = JSON.stringify(bundle);
    const large = '{"at":[1764417600123456789,1e300]}';
    const body = `{"required_scope":"data:read","proof_bundle":${text},"sent":${large},"context":{"sent":${large}}}`;
    expect(call(body)()).toEqual({
      options: { required_scope: "data:read", context: {} },
      proof: { bundle },
    });
  });

  test.each(["challenge_at", "issued_at", "expires_at"])(
    "throws invalid_proof for a large number in the proof's %s, whatever the size of the body",
    async (member) => {
      const text = JSON.stringify(await prove());
      const proof = text.replace(new RegExp(`"${member}":\\d+`), `"${member}":9007199254740993`);
      expect(proof).not.toBe(text);
      for (const padding of ["", "x".repeat(140_000)]) {
        const body = `{"required_scope":"data:read","proof_bundle":${proof},"padding":"${padding}"}`;
        expect(refusal(call(body))).toBe("invalid_proof proof_bundle");
      }
    },
  );

  test("accepts the bundle as an object, as base64 or base64url, or in the header", async () => {
    const bundle = await prove();
    const text = JSON.stringify(bundle);
    const body = (proof: unknown) => JSON.stringify({ required_scope: "data:read", proof_bundle: proof });
    const readings = [
      call(body(bundle))(),
      call(body(Buffer.from(text).toString("base64")))(),
      call(body(Buffer.from(text).toString("base64url")))(),
      call('{"required_scope":"data:read"}', Buffer.from(text).toString("base64url"))(),
      call('{"required_scope":"data:read"}', text)(),
    ];
    for (const reading of readings) expect(reading.proof).toEqual({ bundle });
  });

  test("throws invalid_proof for an id with U+0000, also in encoded proofs that the check of the body cannot see", async () => {
    const bundle = await prove();
    const [certificate] = bundle.delegations;
    const forged = [
      { ...bundle, agent_id: "a\0b" },
      ...["cert_id", "issuer_id", "subject_id"].map((member) => ({
        ...bundle,
        delegations: [{ ...certificate, [member]: "a\0b" }],
      })),
    ];
    for (const text of forged.map((each) => JSON.stringify(each))) {
      const base64 = Buffer.from(text).toString("base64");
      const body = JSON.stringify({ required_scope: "data:read", proof_bundle: base64 });
      expect(refusal(call(body))).toBe("invalid_proof proof_bundle");
      for (const header of [text, base64, Buffer.from(text).toString("base64url")]) {
        expect(refusal(call('{"required_scope":"data:read"}', header))).toBe("invalid_proof proof_bundle");
      }
    }
  });

  test("accepts a bundle of 131072 bytes, and throws invalid_proof for one byte more, in every form", async () => {
    const bundle = await prove();
    const [certificate] = bundle.delegations;
    const sized = (bytes: number) => {
      const padded = {
        ...bundle,
        delegations: [{ ...certificate, constraints: [{ type: "x", params: [""] }] }],
      };
      const missing = bytes - JSON.stringify(padded).length;
      padded.delegations[0]?.constraints[0]?.params.splice(0, 1, "p".repeat(missing));
      return JSON.stringify(padded);
    };
    const forms = (text: string) => [
      call(`{"required_scope":"data:read","proof_bundle":${text}}`),
      call(
        JSON.stringify({ required_scope: "data:read", proof_bundle: Buffer.from(text).toString("base64") }),
      ),
    ];
    for (const attempt of forms(sized(131_072))) expect(refusal(attempt)).toBe("accepted");
    for (const attempt of forms(sized(131_073))) expect(refusal(attempt)).toBe("invalid_proof proof_bundle");
  });

  test("measures a bundle in bytes, not characters, with fractions as the caller wrote them", async () => {
    const bundle = await prove();
    const sized = (constraint: object, filler: string, bytes: number) => {
      const text = (length: number) => {
        const padding = { type: "x", params: filler.repeat(length >> 1) + "p".repeat(length & 1) };
        const [certificate] = bundle.delegations;
        return JSON.stringify({
          ...bundle,
          delegations: [{ ...certificate, constraints: [constraint, padding] }],
        });
      };
      return text(bytes - Buffer.byteLength(text(0)));
    };
    const read = (text: string) => refusal(call(`{"required_scope":"data:read","proof_bundle":${text}}`));
    const fraction = { type: "max_speed_mps", max_mps: 1.5 };
    for (const filler of ["é", "pp"]) {
      expect(read(sized(fraction, filler, 131_072))).toBe("accepted");
      expect(read(sized(fraction, filler, 131_073))).toBe("invalid_proof proof_bundle");
    }
  });
});
