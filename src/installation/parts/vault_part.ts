import { type VaultClient, VaultRefused, VaultUnavailable } from "../../vault/client.ts";
import { certificateEnd } from "../../vault/credentials.ts";
import { type AlertName, judge, stateOf } from "../alerts.ts";
import { type Figure, figure, type Part } from "../part.ts";

export type VaultPartDeps = {
  vault: Pick<VaultClient, "health">;
  /** The file with the certificate by which the vault knows this process. */
  certificateFile: string;
};

/** What a vault says that cannot sign, and the rule about it. */
const REASONS: Readonly<Record<string, AlertName>> = {
  sealed: "DeputizeVaultSealed",
  token_unavailable: "DeputizeVaultTokenAway",
  audit_unavailable: "DeputizeVaultAuditFails",
  unavailable: "DeputizeVaultNotReady",
  internal: "DeputizeVaultNotReady",
};

/** Whether the vault signs, or why it does not, and when the certificate ends that leads to it. */
export function vaultPart({ vault, certificateFile }: VaultPartDeps): Part {
  return {
    name: "vault",
    async read(at) {
      const [state, end] = [await readState(vault), await certificateEnd(certificateFile)];
      return [stateFigure(state, at), ...(end === undefined ? [] : [endFigure(end, at)])];
    },
  };
}

/** `ready`, the vault's own word, or `unreachable`. */
async function readState(vault: VaultPartDeps["vault"]): Promise<string> {
  try {
    await vault.health();
    return "ready";
  } catch (error) {
    if (error instanceof VaultUnavailable || error instanceof VaultRefused) return error.code;
    throw error;
  }
}

function stateFigure(value: string, at: Date): Figure {
  const fields = { name: "vault_state", value, unit: "text", at } as const;
  if (value === "ready") return figure(fields);
  const alert = REASONS[value] ?? "DeputizeVaultAbsent";
  return figure({ ...fields, alert, state: stateOf(alert) });
}

function endFigure(end: Date, at: Date): Figure {
  const left = (end.getTime() - at.getTime()) / 1000;
  return figure({
    name: "vault_certificate_end",
    value: end.toISOString(),
    unit: "time",
    at,
    ...judge(left, "DeputizeVaultClientCertificateEnds"),
  });
}
