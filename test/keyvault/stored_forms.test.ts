import { createPrivateKey, hash } from "node:crypto";
import { expect, test } from "vitest";
import { writeNamed } from "../../keyvault/audit/last_states.ts";
import { partOf } from "../../keyvault/audit/last_states_parts.ts";
import { recordBytes } from "../../keyvault/audit/record.ts";
import { createRowCodes } from "../../keyvault/audit/row_codes.ts";
import { decryptStream } from "../../keyvault/backup/encrypted_stream.ts";
import { backupSignBytes } from "../../keyvault/backup/format.ts";
import { migrations } from "../../keyvault/db/migrations.ts";
import type { KeyRow, TenantRow } from "../../keyvault/db/rows.ts";
import { attestationSignBytes } from "../../keyvault/keys/store.ts";
import { dataKeyContext, unwrapSeeds } from "../../keyvault/keys/wrapping.ts";

/*
 * Stored formats of databases, tokens and backups, byte for byte as earlier versions wrote them. A change to
 * one of these formats makes every existing vault unreadable after an upgrade. A test that writes and reads
 * with the same code would not notice.
 */

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
const AT = new Date("2026-01-02T03:04:05.678Z");
const publicKey = {
  ed25519: Buffer.alloc(32, 1).toString("base64"),
  ml_dsa_65: Buffer.alloc(1952, 2).toString("base64"),
};

test("stored seeds and data keys keep their format", () => {
  const dataKey = Buffer.alloc(32, 7);
  const key = { keyId: "1".repeat(32), tenant: "acc-1", purpose: "agent", publicKey } as const;
  const seeds =
    "WCnUfs5cINuuXw/Ys2lYapfBlipC3acuGaIThqrx5n9DEImGPRHI41LILOqlVhEv3vlD0vVq57MIVnyZcHvACMAZctv/F4ukjdFML7d6APRQKzSSWh4u2nmQz1A=";
  expect(unwrapSeeds(dataKey, { ...key, version: 1 }, Buffer.from(seeds, "base64"))).toEqual({
    ed25519: Buffer.alloc(32, 3),
    ml_dsa_65: Buffer.alloc(32, 4),
  });
  expect(textOf(dataKeyContext("acc-1"))).toBe('{"tenant":"acc-1","type":"tenant_data_key"}');
});

test("audit records keep their format", () => {
  const record = {
    ...{ seq: 7, recorded_at: AT, caller: "api", role: "api", key_id: "1".repeat(32), purpose: "agent" },
    ...{
      statement: "challenge",
      digest: Buffer.alloc(32, 5),
      outcome: "granted",
      detail: { b: "2", a: "1" },
    },
  };
  expect(textOf(recordBytes(record))).toBe(
    '{"caller":"api","detail":{"a":"1","b":"2"},"digest":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU=",' +
      '"key_id":"11111111111111111111111111111111","outcome":"granted","purpose":"agent",' +
      '"recorded_at":"2026-01-02T03:04:05.678Z","role":"api","seq":7,"statement":"challenge"}',
  );
  expect(
    writeNamed([
      ["acc-1", Buffer.alloc(2, 5)],
      ["acc-2", Buffer.alloc(2, 6)],
    ]),
  ).toBe("acc-1=0505,acc-2=0606");
});

test("names stay in the same snapshot parts", () => {
  expect(["acc-1", "vault", "1".repeat(32)].map(partOf)).toEqual([140, 200, 109]);
});

test("coded states of keys and tenants keep their format", async () => {
  const coded: string[] = [];
  const rowCodes = createRowCodes(
    {
      async authenticate(texts) {
        coded.push(...texts.map(textOf));
        return texts.map(() => Buffer.alloc(32));
      },
    },
    { head: () => ({ seq: 0, mac: Buffer.alloc(32) }), changedAt: () => 0, isLast: () => false },
  );
  const ending = { state: "destroying", pending: null, destroy_at: AT, state_seq: 9 } as const;
  await rowCodes.add({
    keys: [
      {
        ...{ key_id: "k-1", tenant: "acc-1", purpose: "agent", label: "mail", ceiling: ["data:read"] },
        ...{ ...ending, disabled_at: AT, request_key: "api:name", request_hash: Buffer.alloc(2, 1) },
      } as unknown as KeyRow,
    ],
    tenants: [{ tenant: "acc-1", ...ending } as unknown as TenantRow],
  });
  const at = '"2026-01-02T03:04:05.678Z"';
  expect(coded).toEqual([
    `{"ceiling":["data:read"],"destroy_at":${at},"disabled_at":${at},"key_id":"k-1","label":"mail","pending":null,` +
      '"purpose":"agent","request":{"hash":"0101","name":"api:name"},"seq":9,"state":"destroying","tenant":"acc-1",' +
      '"type":"key_state","version":2}',
    `{"destroy_at":${at},"pending":null,"seq":9,"state":"destroying","tenant":"acc-1","type":"tenant_state"}`,
  ]);
});

test("statements of the service key keep their format", () => {
  expect(
    textOf(
      attestationSignBytes({
        ...{ type: "key_attestation", version: 1, key_id: "k-1", tenant: "acc-1", purpose: "agent" },
        ...{ public_key: { ed25519: "AA==", ml_dsa_65: "AQ==" }, created_at: 1, attested_by: "s-1" },
      }),
    ),
  ).toBe(
    '{"attested_by":"s-1","created_at":1,"key_id":"k-1","public_key":{"ed25519":"AA==","ml_dsa_65":"AQ=="},' +
      '"purpose":"agent","tenant":"acc-1","type":"key_attestation","version":1}',
  );
  expect(
    textOf(
      backupSignBytes({
        ...{ type: "backup", version: 1, created_at: AT.toISOString(), head: { seq: 7, mac: "00" } },
        ...{ digest: "AA==", signed_by: "s-1" },
      }),
    ),
  ).toBe(
    '{"created_at":"2026-01-02T03:04:05.678Z","digest":"AA==","head":{"mac":"00","seq":7},"signed_by":"s-1",' +
      '"type":"backup","version":1}',
  );
});

test("encrypted backups keep their format", async () => {
  const der = Buffer.concat([Buffer.from("302e020100300506032b656e04220420", "hex"), Buffer.alloc(32, 9)]);
  const recoveryKey = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const pem = recoveryKey.export({ type: "pkcs8", format: "pem" }).toString();
  const stream =
    "ZGVwdXRpemUga2V5dmF1bHQgYmFja3VwIDEKlDosFWj1g5UBUjrAGrPhddeQCbQZrsrpn7k/JnCAaToAAAAhAwMSljZLE3VSr/euu1FjdvZWfMlQQILsWTYbrFcMfoBI";
  async function* bytes(): AsyncGenerator<Buffer> {
    yield Buffer.from(stream, "base64");
  }
  expect((await Array.fromAsync(decryptStream(bytes(), pem))).map(textOf)).toEqual(["one line\nanother\n"]);
});

test("landed migrations do not change, because a vault that has applied one never gets a change to it; add new migrations here", () => {
  const known = {
    "0001_keys": "7ee6f73d435d",
    "0002_audit": "942e6a48b2fb",
    "0003_lifecycle": "6edd47f21f94",
    "0004_sequences": "3b6314d14feb",
    "0005_residents": "4d6cb586d3ab",
    "0006_roots": "7564de09d20e",
    "0007_resident_records": "bb3d6ceb1f0a",
    "0008_audit_register": "991b40938197",
    "0009_listed_certificates": "6f53d21b4315",
    "0010_active_keys": "3d024af01924",
  };
  const landed = migrations.map(({ name, sql }) => [
    name,
    hash("sha256", sql.replace(/\s+/g, " ").trim()).slice(0, 12),
  ]);
  expect(Object.fromEntries(landed)).toEqual(known);
  expect(migrations.map(({ name }) => name)).toEqual(Object.keys(known));
});
