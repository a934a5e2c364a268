import { expect, test } from "vitest";
import { describeStatus } from "../../../keyvault/commands/status.ts";
import type { Status } from "../../../keyvault/status.ts";

const OPEN: Status = {
  sealed: null,
  token: {
    manufacturer: "SoftHSM project",
    model: "SoftHSM v2",
    serial: "0123",
    keks: ["kek-1", "kek-2"],
    answers: true,
  },
  pin_flags: [],
  kek: { kek: "kek-2", running: false, done: 0, remaining: 0, damaged: [], fault: null },
  retiring: null,
  keys: { tenants: 2, active: 3, disabled: 1, destroying: 0, destroyed: 0 },
  service_key: "0".repeat(32),
  audit: { records: 7, head: "ab".repeat(32) },
};

/** Returns the status text, with each entry on one line. */
const said = (change: Partial<Status> = {}): string =>
  describeStatus({ ...OPEN, ...change }).replaceAll(/\n +/g, " ");

test("the status of an open vault shows its token, its keys and the audit head", () => {
  expect(said()).toBe(
    `token           answers (SoftHSM project, SoftHSM v2, serial 0123)
key encryption  kek-1, kek-2
keys            3 active, 1 disabled, of 2 tenants
service key     ${"0".repeat(32)}
audit           7 records
audit head 7:${"ab".repeat(32)}
`,
  );
});

test.each([
  ["no_pin_file", null, /there was no PIN file at the start; "keyvault unseal" opens it/],
  ["asked", "admin/ada", /: by admin\/ada; "keyvault unseal" opens it/],
  ["process_ended", null, /the token's process ended, and there is no PIN file; "keyvault unseal" opens it/],
  [
    "chain_broken",
    null,
    /the audit chain is not what the vault wrote; "keyvault audit verify" names the record; put the database right, then "keyvault unseal"/,
  ],
  [
    "pin_refused",
    null,
    /the token refused the PIN of the PIN file, .* not try this PIN again; correct the file, then "keyvault unseal"/,
  ],
  ["pin_unanswered", null, /no answer to the last logins, .*; check the token and the PIN, then/],
  ["pin_final_try", null, /one more wrong PIN locks the token, .* "keyvault unseal --final-try"/],
  ["pin_locked", null, /the token's PIN is locked; the token's security officer must unlock it, then/],
] as const)(
  "the status of a sealed vault (%s) starts with the time, the reason and the remedy",
  (reason, by, expected) => {
    const since = "2026-11-21T10:00:00.000Z";
    const text = said({
      sealed: { since, reason, by },
      token: null,
      kek: null,
      service_key: null,
      audit: { records: 7, head: null },
    });
    expect(text).toMatch(new RegExp(`^SEALED +since ${since}: `));
    expect(text).toMatch(expected);
    expect(text).toMatch(/\nservice key +not checked yet\n[\s\S]*\naudit head +not checked yet\n$/);
    expect(text).not.toMatch(/^(token|key encryption)/m);
  },
);

test("the status text reports a token that does not answer", () => {
  expect(said({ token: { ...OPEN.token!, answers: false } })).toMatch(/^token +DOES NOT ANSWER \(/);
});

test("the status text names the command that rewraps data keys under an older version", () => {
  const kek = { ...OPEN.kek!, remaining: 4 };
  expect(said({ kek })).toContain('; 4 data keys are not under kek-2 yet: "keyvault kek rewrap"\n');
  expect(said({ kek: { ...kek, running: true } })).toContain(
    "; 4 data keys are not under kek-2 yet (rewrapping)\n",
  );
});

test("the status text counts keys that are being destroyed and keys that were destroyed", () => {
  expect(said({ keys: { ...OPEN.keys, destroying: 1, destroyed: 2 } })).toContain(
    "3 active, 1 disabled, 1 to be destroyed, 2 destroyed, of 2 tenants",
  );
});

test("the status shows what the token reports about its PIN, also while the vault is sealed", () => {
  const sealed = { since: "2026-11-21T10:00:00.000Z", reason: "pin_final_try", by: null } as const;
  const text = said({ sealed, token: null, kek: null, pin_flags: ["count_low", "final_try"] });
  expect(text).toMatch(
    /^PIN +a wrong PIN was entered since the last login; ONE MORE WRONG PIN LOCKS THE TOKEN$/m,
  );
  expect(said({ pin_flags: ["locked", "to_be_changed"] })).toMatch(
    /^PIN +LOCKED; it is the token's default/m,
  );
  expect(said({ pin_flags: null })).not.toMatch(/^PIN/m);
});
