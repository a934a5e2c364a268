import { describe, expect, test } from "vitest";
import { encodeBase64 } from "../../../src/protocol/encoding/base64.ts";
import { AGENT, bytes32, encode, NOW, ROOT } from "../../support/chains.ts";
import {
  decodeWitnessEntry,
  issueWitnessEntry,
  verifyWitnessEntry,
  verifyWitnessLog,
} from "./witness_entry.ts";

describe("a witness's log", () => {
  const log = async () => {
    const first = await issueWitnessEntry(
      { entry_data: encodeBase64(Buffer.from("1")), timestamp: NOW, witness_id: ROOT.id },
      ROOT.privateKey,
    );
    const second = await issueWitnessEntry(
      { entry_data: "", timestamp: NOW + 1, witness_id: ROOT.id },
      ROOT.privateKey,
      first,
    );
    return [first, second] as const;
  };

  test("starts with a hash of zeros, links each entry to the previous one, and verifies after it is encoded and decoded", async () => {
    const entries = await log();
    expect(entries[0].prev_hash).toBe(bytes32(0));
    for (const entry of entries) expect(decodeWitnessEntry(encode(entry))).toEqual(entry);
    expect(await verifyWitnessLog(entries, ROOT.publicKey)).toBeUndefined();
    expect(await verifyWitnessLog([], ROOT.publicKey)).toBeUndefined();
  });

  test("fails verification if an entry is removed, duplicated or moved", async () => {
    const [first, second] = await log();
    for (const broken of [[second], [first, first], [second, first], [first, second, second]]) {
      expect(await verifyWitnessLog(broken, ROOT.publicKey)).toMatchObject({ code: "broken_log" });
    }
  });

  test("fails verification if an entry was changed, or if the key is not the witness's key", async () => {
    const [first] = await log();
    expect(await verifyWitnessEntry({ ...first, timestamp: NOW + 5 }, ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
    expect(await verifyWitnessLog([{ ...first, entry_data: "" }], ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
    expect(await verifyWitnessEntry(first, AGENT.publicKey)).toMatchObject({ code: "issuer_mismatch" });
  });
});
