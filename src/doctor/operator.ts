import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { z } from "zod";
import { isClosed, networkFault, reach, withoutSecrets } from "../input/network_fault.ts";
import { createTokenSource, createTransport } from "../operator/api_transport.ts";
import { operatorCalls } from "../operator_calls.ts";
import { type Check, check, type Finding, failed, ok, skipped } from "./check.ts";

/** No cluster has this id, so a call with it changes nothing, whatever the token. */
const NO_CLUSTER = "!";
/** A token that a cluster issued. With another token, the API would record the first cluster that uses it. */
const JSON_WEB_TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const DEADLINE_MS = 5_000;

/** Returns the checks of the operator's access to the API, and of its folders if it works on folders. */
export function operatorChecks(): Check[] {
  return [
    check("operator's API", ["OPERATOR_API_URL", "OPERATOR_TOKEN"], async (settings, { now }) => {
      const { OPERATOR_API_URL: baseUrl, OPERATOR_TOKEN: token, OPERATOR_TOKEN_FILE: file } = settings;
      const tokens = createTokenSource({ now }, { token, file });
      const isClusterToken = JSON_WEB_TOKEN.test(await tokens.current().catch(() => ""));
      const clusterId = (isClusterToken ? settings.CLUSTER_ID : undefined) ?? NO_CLUSTER;
      const transport = createTransport({ baseUrl, tokens, clusterId, deadlineMs: DEADLINE_MS });
      try {
        return judgeAnswer(await callApi(transport), baseUrl);
      } finally {
        await transport.close();
      }
    }),
    check("applications' API", ["API_URL"], async ({ API_URL }) => {
      const { protocol, hostname, port } = new URL(API_URL);
      const place = withoutSecrets(API_URL);
      try {
        const host = hostname.replace(/^\[|\]$/g, "");
        await reach(
          host,
          Number(port) || (protocol === "https:" ? 443 : 80),
          AbortSignal.timeout(DEADLINE_MS),
        );
        return ok(`${place} accepts connections`);
      } catch (error) {
        const fault = networkFault(error);
        if (isClosed(error)) {
          return skipped(
            `${place}: ${fault?.what} (from here)`,
            "The operator need not reach this URL, but applications must. Check it from their network.",
          );
        }
        return failed(`${place}: ${fault?.what ?? "no connection"}`, fault?.action ?? "Correct API_URL.");
      }
    }),
  ];
}

/** Calls without a leader's epoch. A known operator is refused only because of that. */
async function callApi(transport: ReturnType<typeof createTransport>) {
  const { method, path } = operatorCalls.readState;
  const body = { external_ids: [] };
  return transport.send({ name: "doctor", method, path, body, answer: z.unknown(), epoch: 0 });
}

function judgeAnswer({ failure }: Awaited<ReturnType<typeof callApi>>, baseUrl: string): Finding {
  const place = withoutSecrets(baseUrl);
  const isKnown =
    failure === undefined ||
    failure.kind === "superseded" ||
    (failure.kind === "refused" && failure.message.startsWith("x-deputize-cluster"));
  if (isKnown) return ok(`${place} accepts the operator's token`);
  if (failure.kind === "unauthorized") {
    return failed(
      `${place} refuses the operator's token: ${failure.message}`,
      "Give operator and API the same OPERATOR_TOKEN, or list this cluster in CLUSTERS_FILE.",
    );
  }
  if (failure.kind === "refused" && failure.code === "not_found") {
    return failed(
      `${place} is not the operator's port of the API`,
      "Let OPERATOR_API_URL lead to OPERATOR_PORT.",
    );
  }
  return failed(
    `${place} does not answer the operator: ${failure.message}`,
    "Check OPERATOR_API_URL and the API's log.",
  );
}

const FOLDERS = ["MANIFESTS_DIR", "STATUS_DIR", "SECRETS_DIR"] as const;

/** Returns the check of the folders of an operator without a cluster. */
export function folderChecks(): Check[] {
  return [
    check("operator's folders", FOLDERS, async (settings) => {
      for (const name of FOLDERS) {
        const fault = await folderFault(settings[name], name !== "MANIFESTS_DIR");
        if (fault !== undefined) {
          return failed(`${name} ${fault}`, "Create the folder, and give the operator's user access.");
        }
      }
      return ok("manifests can be read, and status and Secrets can be written");
    }),
  ];
}

async function folderFault(path: string, isWritten: boolean): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return isWritten ? undefined : "does not exist";
  const mode = constants.R_OK | constants.X_OK | (isWritten ? constants.W_OK : 0);
  return access(path, mode).then(
    () => undefined,
    () => `may not be ${isWritten ? "written" : "read"}`,
  );
}
