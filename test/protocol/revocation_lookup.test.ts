import { describe, expect, test } from "vitest";
import type { DelegationCert, DelegationFields } from "../../src/protocol/documents/certificate.ts";
import { type VerifyOptions, verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";
import { code, options } from "../support/answers.ts";
import { AGENT, NOW, prove, ROOT, tamper } from "../support/chains.ts";

describe("the revocation lookup", () => {
  test("asks for the certificates from leaf to root, and stops at the first revoked certificate", async () => {
    const asked: string[] = [];
    const revocation =
      (revoked: string) =>
      ({ cert_id }: DelegationCert) => {
        asked.push(cert_id);
        return cert_id === revoked;
      };
    const bundle = await prove([{}, {}, {}]);
    expect(await code(bundle, { revocation: revocation("none") })).toBe("valid");
    expect(asked.splice(0)).toEqual(["cert-0", "cert-1", "cert-2"]);
    const result = await verifyBundle(bundle, options({ revocation: revocation("cert-1") }));
    expect(result).toMatchObject({
      identity_status: "revoked",
      human_id: ROOT.id,
      agent_id: AGENT.id,
      consulted: ["cert-0", "cert-1"],
    });
    expect(asked).toEqual(["cert-0", "cert-1"]);
  });

  test("makes verification refuse the proof if the lookup fails", async () => {
    const result = await verifyBundle(
      await prove(),
      options({
        revocation: () => {
          throw new Error("down");
        },
      }),
    );
    expect(result).toMatchObject({
      valid: false,
      identity_status: "invalid",
      violation: { code: "revocation_error" },
    });
  });

  test("determines the answer if a certificate is revoked and also has a bad signature", async () => {
    const bundle = await prove();
    const [leaf] = bundle.delegations as [DelegationCert];
    leaf.signature = { ...leaf.signature, ed25519: tamper(leaf.signature.ed25519) };
    const result = await verifyBundle(bundle, options({ revocation: () => true }));
    expect(result).toMatchObject({ genuine: false, violation: { code: "revoked" } });
  });

  test.each([
    ["nothing is wrong", [{}, {}], {}, ["cert-0", "cert-1"]],
    ["the scope is denied", [{}, {}], { required_scope: "files:read" }, ["cert-0", "cert-1"]],
    ["the leaf has expired", [{ expires_at: NOW - 1 }, {}], {}, []],
    ["the root has expired", [{}, { expires_at: NOW - 1 }], {}, ["cert-0"]],
    ["the leaf's constraint is unknown", [{ constraints: [{ type: "x" }] }, {}], {}, ["cert-0"]],
    [
      "the leaf's constraint is unknown and the caller spends the challenge",
      [{ constraints: [{ type: "x" }] }, {}],
      { challengeStore: "deferred" },
      ["cert-0", "cert-1"],
    ],
    ["the root may not delegate", [{}, { scope: ["meeting:attend"] }], {}, ["cert-0"]],
  ] as [string, Partial<DelegationFields>[], Partial<VerifyOptions>, string[]][])(
    "reports which certificates the caller must look up if %s",
    async (_, changes, extra, consulted) => {
      const result = await verifyBundle(await prove(changes), options({ revocation: "deferred", ...extra }));
      expect(result.consulted).toEqual(consulted);
    },
  );
});
