import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { codesOf, networkFault, withoutSecrets } from "../input/network_fault.ts";
import { VaultRefused, type VaultUnavailable } from "../vault/client.ts";
import { readCredentials } from "../vault/credentials.ts";
import { createTransport } from "../vault/transport.ts";
import { type Check, check, type Finding, failed, ok, skipped } from "./check.ts";

const FILES = ["VAULT_CA_FILE", "VAULT_CERT_FILE", "VAULT_KEY_FILE"] as const;
const DAY_MS = 24 * 60 * 60 * 1000;
/** Days before a certificate's end at which the alert fires too. */
const RENEW_DAYS = 14;
const DEADLINE_MS = 5_000;

/** Returns the checks of the vault and of the certificate with which the API calls it. */
export function vaultChecks(): Check[] {
  return [
    check("vault certificate", FILES, async (settings, { now }) => {
      for (const name of FILES) {
        const fault = await pemFault(settings[name], name === "VAULT_KEY_FILE");
        if (fault !== undefined) return failed(`${name} ${fault}`, "Correct the file, see docs/keyvault.md.");
      }
      return judgePair(await readCredentials(filesOf(settings)), now());
    }),
    check("vault", ["VAULT_URL", ...FILES], async (settings) => {
      const { VAULT_URL: url } = settings;
      let transport: ReturnType<typeof createTransport>;
      try {
        transport = createTransport({
          url,
          ...(await readCredentials(filesOf(settings))),
          deadlineMs: DEADLINE_MS,
        });
      } catch {
        return skipped("its certificate cannot be used");
      }
      try {
        await transport.call({ method: "GET", path: "/readyz" });
        return ok(`${withoutSecrets(url)} is ready to sign`);
      } catch (error) {
        return explain(error, withoutSecrets(url));
      } finally {
        await transport.close();
      }
    }),
  ];
}

type Files = Record<(typeof FILES)[number], string>;

function filesOf({ VAULT_CA_FILE: ca, VAULT_CERT_FILE: cert, VAULT_KEY_FILE: key }: Files) {
  return { ca, cert, key };
}

async function pemFault(path: string, isKey: boolean): Promise<string | undefined> {
  const text = await readFile(path).catch(() => undefined);
  if (text === undefined) return "names a file that cannot be read";
  try {
    if (isKey) createPrivateKey(text);
    else new X509Certificate(text);
    return undefined;
  } catch {
    return isKey ? "contains no private key in PEM" : "contains no certificate in PEM";
  }
}

function judgePair({ ca, cert, key }: Record<"ca" | "cert" | "key", Buffer>, now: Date): Finding {
  const [authority, own] = [new X509Certificate(ca), new X509Certificate(cert)];
  if (!own.checkPrivateKey(createPrivateKey(key))) {
    return failed(
      "the key in VAULT_KEY_FILE does not belong to the certificate in VAULT_CERT_FILE",
      "Take both files from the same Secret or the same `keyvault tls` command.",
    );
  }
  if (!own.checkIssued(authority) || !own.verify(authority.publicKey)) {
    return failed(
      "the authority in VAULT_CA_FILE did not issue the certificate in VAULT_CERT_FILE",
      "Take all three files from the same vault.",
    );
  }
  for (const [name, certificate] of [
    ["VAULT_CERT_FILE", own],
    ["VAULT_CA_FILE", authority],
  ] as const) {
    const { validFromDate: from, validToDate: to } = certificate;
    const day = to.toISOString().slice(0, 10);
    if (from > now) {
      return failed(`the certificate in ${name} is not valid yet`, "Compare this machine's clock.");
    }
    if (to <= now) {
      return failed(`the certificate in ${name} ended on ${day}`, "Renew it, see docs/keyvault.md.");
    }
    if (to.getTime() - now.getTime() < RENEW_DAYS * DAY_MS) {
      return failed(
        `the certificate in ${name} ends on ${day}`,
        "Renew it now, and find out why it was not renewed automatically.",
      );
    }
  }
  return ok(`certificate and key belong together, valid until ${own.validToDate.toISOString().slice(0, 10)}`);
}

/** Actions by the vault's own error codes. */
const actions: Record<string, string> = {
  sealed: "Find the cause with `keyvault status`, then use `keyvault unseal`, see docs/keyvault_runbook.md.",
  token_unavailable: "Look into the vault's log: its PKCS#11 token does not answer.",
  audit_unavailable: "Look into the vault's log: its database or its audit chain does not accept records.",
};

/** The vault ends a connection whose certificate it does not accept. OpenSSL may see an alert first. */
const ENDED = /^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET|ERR_SSL_.*ALERT.*)$/;

function explain(error: unknown, place: string): Finding {
  if (error instanceof VaultRefused) {
    return failed(
      `${place} refuses this certificate: ${error.message}`,
      "Issue a certificate with the role of the API, see docs/keyvault.md.",
    );
  }
  const { code, message } = error as VaultUnavailable;
  if (code !== "unreachable") {
    return failed(`${place} is ${code}: ${message}`, actions[code] ?? "Look into the vault's log.");
  }
  if (codesOf(error).some((each) => ENDED.test(each))) {
    return failed(
      `${place} ends the connection, as for a certificate that it does not accept`,
      "Take certificate and authority from this vault, and check that VAULT_URL leads to it, see docs/keyvault.md.",
    );
  }
  const { what, action } = networkFault(error) ?? {
    what: "it does not answer",
    action: "Look into the vault's log.",
  };
  const isAuthority = what.includes("authority") || what.includes("self-signed");
  return failed(
    `${place}: ${what}`,
    isAuthority ? "Set VAULT_CA_FILE to the authority of this vault." : action,
  );
}
