import { randomUUID } from "node:crypto";
import type { Person, TestApi } from "./api.ts";
import type { HttpAnswer } from "./http.ts";

type Mail = { to: string; subject: string; text: string };

/** Returns the newest match of `pattern` in the mails to an address. Other mails can arrive at any time. */
export async function foundInMail(api: TestApi, email: string, pattern: RegExp): Promise<string> {
  const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
  const texts = (body.mails as Mail[]).filter(({ to }) => to === email).map(({ text }) => text);
  return texts.map((text) => pattern.exec(text)?.[1]).find((found) => found !== undefined) ?? "";
}

/** Returns the newest code of eight digits that was mailed to an address. */
export function accountCode(api: TestApi, email: string): Promise<string> {
  return foundInMail(api, email, /Your code is ([0-9]{8})\b/);
}

/** Requests the codes for a new address, and returns both. */
export async function addressCodes(
  api: TestApi,
  { client, email }: Person,
  newEmail = `${randomUUID()}@example.test`,
): Promise<{ address_code: string; new_address_code: string }> {
  await client.post("/v1/auth/address/codes", { email: newEmail });
  return {
    address_code: await accountCode(api, email),
    new_address_code: await accountCode(api, newEmail),
  };
}

/** Changes a person's address. `undo` returns the token in the mail to the former address. */
export async function changeAddress(
  api: TestApi,
  person: Person,
  newEmail = `${randomUUID()}@example.test`,
): Promise<{ answer: HttpAnswer; newEmail: string; undo(): Promise<string> }> {
  const body = await addressCodes(api, person, newEmail);
  const answer = await person.client.post("/v1/auth/address", body);
  return { answer, newEmail, undo: () => foundInMail(api, person.email, /#code=([0-9a-f]{64})/) };
}

/** Deletes a person's account with the code in the mail. */
export async function deleteAccount(api: TestApi, { client, email }: Person): Promise<HttpAnswer> {
  await client.post("/v1/auth/account/deletion-code");
  const body = { address_code: await accountCode(api, email) };
  return client.call("DELETE", "/v1/auth/account", { body });
}
